"""The model and the loss of a stage of fine-tuning: paper, section 3.4 and appendix A."""

from typing import Any

import torch
from torch import Tensor, nn

from lexbench.lexmae import losses
from lexbench.lexmae.model import LexiconEncoder, Texts
from lexbench.lexmae.recipe import Stage

_TOGETHER = {"cpu": 2048, "cuda": 32_768}  # tokens of texts of like length that are computed at a time, padding included


class FineTuner(nn.Module):
    """The encoder with the loss of a stage: paper, Eqs. 11 to 13. One encoder serves queries and documents."""

    ramps = True  # its forward takes the number of the step

    def __init__(self, language_model: Any, stage: Stage, steps: int) -> None:
        super().__init__()
        self.encoder = LexiconEncoder(language_model)
        self.stage, self.ramp_steps = stage, stage.ramp_steps or steps

    def forward(
        self, queries: dict[str, Tensor], documents: dict[str, Tensor], step: int, teacher: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the loss and its parts. *documents* are each query's own ones together, the relevant one first.

        Both are *ids*, *real* and *pools* (texts, length); *teacher* is the teacher's score of each query's own (n, each).
        """
        stage = self.stage
        of_queries, of_documents = in_groups(self.encoder, Texts(**queries)), in_groups(self.encoder, Texts(**documents))
        contrast = losses.contrastive(losses.scores(of_queries, of_documents, stage.contrast), stage.contrast)
        flops_d, flops_q = losses.flops(of_documents), losses.flops(of_queries)
        ramp = losses.ramp(step, stage.ramp, self.ramp_steps)
        loss = contrast * (stage.contrast_weight if teacher is not None else 1.0)
        loss = loss + ramp * (stage.lambda_d * flops_d + stage.lambda_q * flops_q)
        found = {
            "contrastive": contrast,
            "flops_d": flops_d,
            "flops_q": flops_q,
            "terms_d": (of_documents > 0).sum(-1).float().mean(),
            "terms_q": (of_queries > 0).sum(-1).float().mean(),
        }
        if teacher is not None:
            own = losses.scores(of_queries, of_documents, "own")
            found["divergence"] = losses.divergence(own, teacher, stage.divergence, stage.temperature)
            loss = loss + found["divergence"]
        return {"loss": loss, **found}


def in_groups(encoder: LexiconEncoder, texts: Texts) -> Tensor:
    """Return the vectors of *texts* (n, vocabulary), in order, computing texts of like length together."""
    lengths = texts.real.sum(1)
    order = torch.argsort(lengths, descending=True, stable=True)
    most = _TOGETHER.get(texts.ids.device.type, _TOGETHER["cuda"])
    made, at, widths = [], 0, lengths[order].tolist()
    while at < len(order):
        group = order[at : at + max(1, most // max(widths[at], 1))]
        made.append(encoder(Texts(*(part[group, : widths[at]] for part in texts))))
        at += len(group)
    return torch.cat(made)[torch.argsort(order)]
