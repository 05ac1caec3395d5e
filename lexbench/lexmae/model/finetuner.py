"""The model of fine-tuning: the encoder with the loss of a stage (paper, section 3.4 and appendix A, Eqs. 9 to 13)."""

from torch import Tensor

from lexbench.lexmae.model import losses
from lexbench.lexmae.model.encoder import Learner, LexiconEncoder, Texts, in_groups
from lexbench.lexmae.recipe import Stage


class FineTuner(Learner):
    """One encoder for queries and documents, with the loss of a stage: paper, Eqs. 11 to 13."""

    def __init__(self, encoder: LexiconEncoder, stage: Stage, steps: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.stage, self.ramp_steps = stage, stage.ramp_steps or steps

    @property
    def rates(self) -> dict[str, float]:
        """Factors of the learning rate, by name of the parameter."""
        terms = {id(value) for value in self.encoder.term_parameters} if self.stage.term_rate != 1 else set()
        return {name: self.stage.term_rate for name, value in self.named_parameters() if id(value) in terms}

    def forward(
        self,
        queries: dict[str, Tensor],
        documents: dict[str, Tensor],
        step: int,
        teacher: Tensor | None = None,
        relevant: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the loss and its parts, scalars.

        *queries* and *documents* are *ids*, *real* and *pools* (texts, length). The documents of a query are consecutive, the
        relevant one first. *teacher* has the teacher's scores of each query's own documents (n, m), or of all documents of the
        batch (n, n x m). *relevant* (n, n x m) says which documents are relevant to which query.
        """
        stage = self.stage
        query_vectors, predicted_q = self.vectors(Texts(**queries))
        document_vectors, predicted_d = self.vectors(Texts(**documents))
        # FLOPS only counts predicted weights: a long text has more exact terms than any bound, which cannot be removed, so the
        # pressure would silence all predictions.
        flops_d, flops_q = losses.flops(predicted_d, stage.free_terms_d), losses.flops(predicted_q, stage.free_terms_q)
        terms_d = (document_vectors > 0).sum(-1).float().mean()
        # Ranking by the largest weights only, in some steps, makes the model work when documents are cut later.
        if stage.top_k and (number := stage.top_k[step % len(stage.top_k)]):
            document_vectors = losses.largest(document_vectors, number)
        contrast_scores = losses.scores(query_vectors, document_vectors, stage.contrast)
        contrast = losses.contrastive(contrast_scores, stage.contrast, relevant)
        ramp = losses.ramp(step, stage.ramp, self.ramp_steps)
        loss = contrast * (stage.contrast_weight if teacher is not None else 1.0)
        loss = loss + ramp * (stage.lambda_d * flops_d + stage.lambda_q * flops_q)
        parts = {
            "contrastive": contrast,
            "flops_d": flops_d,
            "flops_q": flops_q,
            "terms_d": terms_d,
            "terms_q": (query_vectors > 0).sum(-1).float().mean(),
            "predicted_d": (predicted_d > 0).sum(-1).float().mean(),
            "predicted_q": (predicted_q > 0).sum(-1).float().mean(),
        }
        if teacher is not None:
            own = teacher.shape[1] * len(query_vectors) == len(document_vectors)
            scores = losses.scores(query_vectors, document_vectors, "own" if own else "in_batch")
            student, taught = scores * stage.student_scale, teacher * stage.teacher_scale
            parts["divergence"] = losses.divergence(student, taught, stage.divergence)
            loss = loss + parts["divergence"]
        return {"loss": loss, **parts}

    def vectors(self, texts: Texts) -> tuple[Tensor, Tensor]:
        """Return the weights of *texts* (n, vocabulary), and their predicted weights without exact terms (n, vocabulary)."""
        predicted = in_groups(self.encoder.predicted, texts)
        return self.encoder.with_exact_terms(predicted, texts), predicted
