"""What a measure of ours is: a frozen value whose text, in ir-measures' notation, is its identity."""

from dataclasses import fields
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lexbench.errors import NotationError
from lexbench.measures._judged_run import JudgedRun


class Measure(Protocol):
    """A measure that lexbench computes: a frozen dataclass that derives from `Notation`."""

    @property
    def cutoff(self) -> int | None:
        """How many documents of each list it looks at; None is all."""
        ...

    def per_query(self, judged: JudgedRun) -> NDArray[np.float64]:
        """Return the value for every query of the qrels (queries,)."""
        ...


class Notation:
    """Text and checks of a measure from its fields: `cutoff` stands behind the @, the others in brackets.

    A field that is None was not given and is not written. So `RR@10` leaves the threshold to the dataset's contract, and
    `RR(rel=1)@10` does not.
    """

    def __str__(self) -> str:
        """Write the measure so that it reads back to an equal one."""
        given = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]  # a dataclass
        cutoff = given.pop("cutoff", None)
        settings = ",".join(f"{name}={value!r}" for name, value in given.items() if value is not None)
        return type(self).__name__ + (f"({settings})" if settings else "") + (f"@{cutoff}" if cutoff is not None else "")

    def __post_init__(self) -> None:
        """Refuse a cutoff or a threshold that is not a whole number from 1."""
        for item in fields(self):  # type: ignore[arg-type]  # a dataclass
            value = getattr(self, item.name)
            if value is not None and (type(value) is not int or value < 1):
                raise NotationError(f"{item.name} of {type(self).__name__} is a whole number from 1, not {value!r}")
