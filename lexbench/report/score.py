"""The scores of one run: of a file, of a system that was run, or in memory. `lexbench score` and `lexbench.score`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lexbench.analysis.slices import SliceScore, read_slices, slice_scores, slice_table
from lexbench.analysis.stored_results import find_runs
from lexbench.artifacts.graph import Graph
from lexbench.artifacts.token_counts import TokenCounts, tokenizer_digest, tokenizers_of
from lexbench.datasets.dataset import open_dataset
from lexbench.datasets.location import find_dataset
from lexbench.display.table import Table, number
from lexbench.errors import CommandError
from lexbench.measures import DocumentTokens
from lexbench.results import Entry, Result, Results, ResultSession
from lexbench.runner.given import given_run
from lexbench.runner.scoring import JudgementRules, fitting_defaults, judgements, score_lists
from lexbench.runner.search import data_of
from lexbench.storage.store import Store
from lexbench.trec.runs import Precision, typed_run
from lexbench.trec.runs import max_passage as by_best_passage


class Score(Results):
    """The result of one run, and its scores on slices of the queries."""

    slices: Sequence[SliceScore] = ()
    slices_sha256 = ""

    @property
    def result(self) -> Result:
        """The result."""
        return next(iter(self))

    def tables(self) -> Sequence[Table]:
        """Return the table of scores, and that of slices."""
        of_slices = [slice_table(self.slices, self.result, self.slices_sha256)] if self.slices else []
        return [*super().tables(), *of_slices]

    def query_table(self) -> Table:
        """Return the values of every query, a column per measure."""
        columns = zip(*self.result.per_query.values(), strict=True)
        rows = (
            (query, *(number(value) for value in values)) for query, values in zip(self.result.query_ids, columns, strict=True)
        )
        return Table("", ("query", *self.result.per_query), tuple(rows), is_text=True)

    def document(self) -> dict[str, Any]:
        """Return the result, and the slices if there are any."""
        why = {"unmeasured": self.result.unmeasured} if self.result.unmeasured else {}
        return {**msgspec.structs.asdict(self.result), **why, **({"slices": self.slices} if self.slices else {})}


def score(  # noqa: PLR0913 - what decides the scores
    run: Any, dataset: Any, qrels: Any, measures: Sequence[str], precision: Precision, store: Store, *, max_passage: str = "",
    slices: Path | None = None,
) -> Score:  # fmt: skip
    """Return the scores of *run* by the judgements of a *dataset*, or *qrels*, or both; see `lexbench.score`.

    Raises CommandError if there are no judgements, or if *run* stands for several systems.
    """
    if dataset is None and qrels is None:
        raise CommandError("give -d ID, --qrels FILE, or both")
    declared = read_slices(slices) if slices else None
    if isinstance(run, str | Path):
        runs = find_runs([str(run)], store, find_dataset(dataset)[0] if dataset is not None else None)
        if len(runs) > 1:
            raise CommandError(f"{run} stands for {len(runs)} systems; score one, e.g. {next(iter(runs))}")
        name, (ranked,) = Path(run).name if typed_run(Path(run))[0].is_file() else str(run), runs.values()
    else:
        name, ranked = "run", given_run(run)
    ranked = by_best_passage(ranked, max_passage) if max_passage else ranked
    judged: JudgementRules = judgements(dataset, qrels)
    chosen = measures or fitting_defaults(judged.default_measures, judged.qrels)
    tokens, digests = _tokens(chosen, judged, store)
    result = score_lists(ranked, name, chosen, judged, precision, tokens)
    result = msgspec.structs.replace(result, tokenizers=digests)
    data = {judged.dataset: (judged.contract, judged.source)} if judged.contract and judged.source else {}
    scored = Score([Entry(result, run=ranked)], session=ResultSession(store, data=data))
    if declared:
        scored.slices, scored.slices_sha256 = slice_scores(result, declared), declared.sha256
    return scored


def _tokens(measures: Sequence[str], judged: JudgementRules, store: Store) -> tuple[DocumentTokens | None, dict[str, str]]:
    """Return the numbers of tokens that measures with a budget take, and the digests of tokenizers.

    Raises CommandError if a qrels file has no dataset, whose documents would be counted.
    """
    names = list(tokenizers_of(measures))
    if not names:
        return None, {}
    if judged.contract is None:
        raise CommandError("a budget of tokens takes the documents; name the dataset that has them with -d")
    corpus = data_of(open_dataset(judged.contract, judged.source)).corpus
    graph = Graph(store)
    counts = {name: graph.open(TokenCounts(corpus, name)) for name in names}
    return DocumentTokens(graph.open(corpus).doc_ids, counts), {name: tokenizer_digest(name) for name in names}
