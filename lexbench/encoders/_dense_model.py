"""Models as `dense` runs them: a body, pooling over the positions of a text, and the layers that some models have behind it."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from lexbench.encoders._body_model import BodyModel
from lexbench.errors import CommandError
from lexbench.neural.token_batches import Batch
from lexbench.neural.transformer_model import Place

_LINEAR = ("embeddingHead", "linear")  # the layer behind the pooling: as ANCE and ADORE call it, and sentence-transformers
_NORM = ("norm",)
_EPSILON = 1e-5  # of torch's LayerNorm, which all of them use as it is


class Head(nn.Module):
    """A linear layer behind the pooling, with or without layer normalisation: ANCE's and ADORE's `embeddingHead` and `norm`."""

    def __init__(self, model: BodyModel) -> None:
        super().__init__()
        self.weight, self.bias = (model.other(*(f"{name}.{part}" for name in _LINEAR)) for part in ("weight", "bias"))
        self.scale, self.shift = (model.other(*(f"{name}.{part}" for name in _NORM)) for part in ("weight", "bias"))

    @property
    def kind(self) -> str:
        """What it is, as the setting `head` calls it."""
        return "none" if self.weight is None else "linear" if self.scale is None else "linear_layernorm"

    def forward(self, pooled: Tensor) -> Tensor:
        """Return vectors (n, dimensions) for *pooled* states (n, width)."""
        if self.weight is None:
            return pooled
        made = functional.linear(pooled, self.weight, self.bias)
        return made if self.scale is None else functional.layer_norm(made, made.shape[-1:], self.scale, self.shift, _EPSILON)


class DenseModel(BodyModel):
    """A body with its head, which comes from the same checkpoint."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.head = Head(self)
        self.dimensions = self.width if self.head.weight is None else len(self.head.weight)

    def check_head(self, kind: str) -> None:
        """Raise CommandError unless what is behind the pooling is of that *kind*: to leave it out gives other vectors."""
        if (found := self.head.kind) != kind:
            raise CommandError(f'{self.name}: the head behind its pooling is "{found}" and not "{kind}"; type head="{found}"')


@torch.inference_mode()
def vectors(model: DenseModel, batch: Batch, pooling: str, skip: int) -> Tensor:
    """Return the vectors (n, dimensions) of *batch*, float32, of whatever length they have.

    The mean is over the positions from *skip* on that are no padding; where there are none it is 0.
    """
    states = model.states(batch)
    if pooling == "cls":
        pooled = states[:, 0].float()
    else:
        counted = torch.from_numpy(batch.real).to(model.device, torch.float32)
        counted[:, :skip] = 0
        summed = torch.bmm(counted.unsqueeze(1), states.float()).squeeze(1)
        pooled = summed / counted.sum(1, keepdim=True).clamp(min=1)
    made: Tensor = model.head(pooled)
    return made
