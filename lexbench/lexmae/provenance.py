"""What a finished training knows of how its model came to be: for the model's card."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lexbench.lexmae import card, training
from lexbench.lexmae.card import Data, Facts, Loss, Selected
from lexbench.lexmae.selection import Candidates
from lexbench.lexmae.training import Fitted
from lexbench.storage import environment

_NO_LOSS = ("step", "grad_norm", "learning_rate")


def facts(fitted: Fitted, steps: int, data: Sequence[Data], chosen_by: Candidates | None = None) -> Facts:
    """Return the facts of a training. *data* is all that the weights have seen; what chose among them is added."""
    told = environment.facts()
    whole = [*data, *(_chosen_by(chosen_by) if chosen_by else ())]
    return Facts(
        data=tuple(one for place, one in enumerate(whole) if one not in whole[:place]),  # stages share much of it
        steps=steps,
        seconds=fitted.seconds,
        machine=f"{told['processor']}, {told['cores']} cores, {told['memory_gib']} GiB, {training.accelerators()}",
        versions=environment.versions(),
        resumed=fitted.resumed,
        losses=tuple(_losses(fitted)),
        selection=tuple(_selected(fitted, chosen_by)) if chosen_by else (),
    )


def seen(folder: Path) -> tuple[Data, ...]:
    """Return what the model in *folder* has seen, which a training that begins with it has seen too; () for a start."""
    return card.read(folder).facts.data if (folder / "training.json").is_file() else ()


def _losses(fitted: Fitted) -> Iterator[Loss]:
    lines = [line for line in fitted.log if "loss" in line]
    for name in lines[0] if lines else ():
        if name not in _NO_LOSS:
            yield Loss(name=name, first=lines[0][name], last=lines[-1][name])


def _chosen_by(candidates: Candidates) -> Iterator[Data]:
    for one in candidates.sets:
        yield Data(dataset=one.name, use="selection", counts={"queries": len(one.queries)})


def _selected(fitted: Fitted, candidates: Candidates) -> Iterator[Selected]:
    best = fitted.best
    assert best is not None
    for one in candidates.sets:
        yield Selected(dataset=one.name, measure=one.measure, value=best[one.name], step=int(best["step"]))
