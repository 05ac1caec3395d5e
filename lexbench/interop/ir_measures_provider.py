"""Our measures for users of ir_measures: importing this module adds the measure `RCap` and the provider `lexbench`.

    ir_measures.providers.registry["lexbench"].calc([nDCG @ 10, RR @ 10], qrels, run)

Ties are broken as in trec_eval. The default pipeline of ir_measures asks us last, for what no other provider computes (`RCap`),
so no existing numbers change.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from lexbench.errors import LexbenchError
from lexbench.measures import ir_measures_library, parse_native, score
from lexbench.trec.qrels import Qrels
from lexbench.trec.runs import Run
from lexbench.types import Judgement

ir_measures: Any = ir_measures_library()


class _Provider(ir_measures.Provider):  # type: ignore[misc]  # ir_measures is untyped
    """The provider `lexbench`."""

    NAME = "lexbench"

    def supports(self, measure: Any) -> bool:
        measure.validate_params()
        try:
            return parse_native(repr(measure)) is not None
        except LexbenchError:
            return False

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Any:
        return _Evaluator(list(measures), qrels)


class _Evaluator(ir_measures.Evaluator):  # type: ignore[misc]  # ir_measures is untyped
    """Scores runs with our measures."""

    def __init__(self, measures: Sequence[Any], qrels: Any) -> None:
        rows = ir_measures.util.QrelsConverter(qrels).as_namedtuple_iter()
        self._qrels = Qrels.from_judgements(Judgement(row.query_id, row.doc_id, row.relevance) for row in rows)
        super().__init__(measures, set(self._qrels.query_ids))

    def _iter_calc(self, run: Any) -> Iterator[Any]:
        rows = list(ir_measures.util.RunConverter(run).as_namedtuple_iter())
        entries = Run.from_entries([r.query_id for r in rows], [r.doc_id for r in rows], [r.score for r in rows])
        if not self._qrels.query_ids:
            return
        ours = {measure: parse_native(repr(measure)) for measure in self.measures}
        scores = score(entries, self._qrels, [measure for measure in ours.values() if measure is not None])
        for measure, values in zip(ours, scores.values.values(), strict=True):
            for query_id, value in zip(self._qrels.query_ids, values.tolist(), strict=True):
                yield ir_measures.Metric(query_id=query_id, measure=measure, value=value)


if "lexbench" not in ir_measures.providers.registry:  # it is if this module is imported again
    ir_measures.DefaultPipeline.providers.append(ir_measures.providers.register(_Provider()))
