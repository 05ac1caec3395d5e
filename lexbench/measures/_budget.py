"""Measures of what fits into a budget of tokens: `R@2000tok`, `nDCG@4000tok`.

Documents are read in the order of the list until one does not fit. Systems whose passages have different lengths compare fairly
then, which a cutoff in documents does not do. Tokens are counted by a named tokenizer (see `artifacts.token_counts`).
"""

from lexbench.errors import NotationError
from lexbench.plugins import Measure

TOKENIZER = "lexmae_nano"  # WordPiece of BERT, in the package
_LARGEST = 10_000_000
_SUFFIX = "Tokens"  # of the classes


class Budget(Measure):
    """Base class: *budget* is in tokens, by the *tokenizer* of a model (a name or a folder)."""

    budget: int
    tokenizer: str | None

    @property
    def cutoff(self) -> int | None:  # type: ignore[override] # a budget takes its place
        """All documents: the budget decides."""
        return None

    @property
    def counted_by(self) -> str:
        """The model whose tokenizer counts."""
        return self.tokenizer or TOKENIZER

    def __post_init__(self) -> None:
        """Raise NotationError if the budget is no whole number of tokens, or for what no measure takes."""
        super().__post_init__()
        if type(self.budget) is not int or not 1 <= self.budget <= _LARGEST:
            raise NotationError(f"a budget is a whole number of tokens up to {_LARGEST:,}, not {self.budget}; write R@2000tok")

    def __str__(self) -> str:
        settings = [f"{name}={value!r}" for name in ("rel", "tokenizer") if (value := getattr(self, name, None)) is not None]
        name = type(self).__name__.removesuffix(_SUFFIX)
        return name + (f"({','.join(settings)})" if settings else "") + f"@{self.budget}tok"
