"""What a training fits: all that `lexbench.lexmae.training.trainer` asks of a model."""

from collections.abc import Mapping

from torch import nn


class Learner(nn.Module):
    """A model with its loss. What encodes texts in it is its attribute `encoder`, where models are chosen among in training.

    `forward` takes a batch by name, and `step`, the number of optimiser steps so far, where the training says that it ramps. It
    returns scalars by name: `loss`, which is minimised, and parts of it, whose means are logged.
    """

    @property
    def rates(self) -> Mapping[str, float]:
        """What the learning rate is multiplied with, by the name of a parameter; 1 for those that are not named."""
        return {}
