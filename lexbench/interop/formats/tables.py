"""Tables of every query's values, CSV and Parquet, and whole results as JSON."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench import results
from lexbench.errors import require
from lexbench.interop.formats import Export, one_file
from lexbench.storage import atomic

if TYPE_CHECKING:
    from lexbench.analysis.stored_results import StoredResult


def _write_csv(entry: "StoredResult", path: Path) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["query", *entry.result.per_query])
    table.writerows(zip(entry.result.query_ids, *entry.result.per_query.values(), strict=True))
    atomic.write_text(path, text.getvalue())


def _write_json(entry: "StoredResult", path: Path) -> None:
    results.save(entry.result, path)


def _write_parquet(entry: "StoredResult", path: Path) -> None:
    """Write one row a query and measure; columns system, dataset, contract, measure, query and value."""
    require("export parquet", ["pyarrow"], "parquet")
    import pyarrow as pa
    from pyarrow.parquet import write_table

    result = entry.result
    queries, measures = result.query_ids, list(result.per_query)
    rows = len(queries) * len(measures)
    table = pa.table(
        {
            "system": [result.system] * rows,
            "dataset": [result.dataset] * rows,
            "contract": [result.contract] * rows,
            "measure": [measure for measure in measures for _ in queries],
            "query": queries * len(measures),
            "value": [value for values in result.per_query.values() for value in values],
        }
    )
    with atomic.atomic_path(path) as draft:
        write_table(table, draft)


_VALUES = "all but the value of every query and measure"
_CSV_LOST = f"{_VALUES}; of the system and dataset only their file's name"
_PARQUET_LOST = f"{_VALUES}, with system, dataset and contract"
EXPORTS = (
    Export("csv", "the value of every query, a column a measure", _CSV_LOST, one_file("csv", _write_csv)),
    Export("parquet", "the value of every query and measure, a row each", _PARQUET_LOST, one_file("parquet", _write_parquet)),
    Export("json", "the whole result", "nothing but the run", one_file("json", _write_json)),
)
