"""What a measure of ours is, and the one thing that it reads: a run joined with its judgements.

The join is made once for all measures. A measure never looks at a document that was not judged, only at how many there are
before a judged one. So the join holds the judged documents of each list with their ranks, a few in a thousand entries; how deep
the run is costs nothing.
"""

from dataclasses import fields

from lexbench.errors import NotationError


class Notation:
    """The text of a measure in ir-measures' notation, and the checks of its fields: `cutoff` is behind the @, others in ().

    A field that is None is not written. So `RR@10` leaves the threshold to the dataset's contract, and `RR(rel=1)@10` does not.
    """

    def __str__(self) -> str:
        """Write the measure so that it reads back to an equal one."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}  # type: ignore[arg-type]  # a dataclass
        cutoff = values.pop("cutoff", None)
        settings = ",".join(f"{name}={value!r}" for name, value in values.items() if value is not None)
        return type(self).__name__ + (f"({settings})" if settings else "") + (f"@{cutoff}" if cutoff is not None else "")

    def __post_init__(self) -> None:
        """Refuse a cutoff or a threshold that is not a whole number from 1."""
        for item in fields(self):  # type: ignore[arg-type]  # a dataclass
            value = getattr(self, item.name)
            if value is not None and (type(value) is not int or value < 1):
                raise NotationError(f"{item.name} of {type(self).__name__} is a whole number from 1, not {value!r}")
