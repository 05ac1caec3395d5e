"""Datasets in the hub's layout: Parquet and JSON lines in folders, and repositories in the hub's cache."""

from importlib.util import find_spec

import pytest
from tiny import write_rows

from lexbench.datasets.location import find_dataset, find_folder, find_hub
from lexbench.errors import CommandError, InvalidFile, MissingData
from lexbench.types import Document, Judgement, Query

needs_pyarrow = pytest.mark.skipif(not find_spec("pyarrow"), reason="pyarrow is not installed; pip install 'lexbench[parquet]'")
CORPUS = [{"_id": "d1", "title": "T", "text": "one"}, {"_id": "d2", "title": "", "text": "two"}]
QUERIES = [{"_id": "q1", "text": "first"}]
QRELS = [{"query-id": "q1", "corpus-id": "d1", "score": 2}, {"query-id": "q1", "corpus-id": "d2", "score": 0}]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def contents(source):
    """Return documents, queries and judgements of a source."""
    return list(source.documents()), list(source.queries()), list(source.judgements())


EXPECTED = (
    [Document("d1", "T one", 2), Document("d2", "two")],
    [Query("q1", "first")],
    [Judgement("q1", "d1", 2), Judgement("q1", "d2", 0)],
)


@needs_pyarrow
@pytest.mark.parametrize(
    "names",
    [
        (
            "corpus/corpus-00000-of-00002",
            "corpus/corpus-00001-of-00002",
            "queries/queries-00000-of-00001",
            "data/test-00000-of-00001",
        ),
        ("corpus/train-0", "corpus/train-1", "queries/train", "qrels/train"),
        ("corpus-00000-of-00002", "corpus-00001-of-00002", "queries", "qrels"),
    ],
    ids=["mteb", "nano", "beside each other"],
)
def test_a_folder_of_tables_is_a_dataset(names, tmp_path):
    """Parquet files in the layouts of the hub's datasets are read in the order of their shards; grades may be whole floats."""
    judged = [{"query_id": row["query-id"], "doc_id": row["corpus-id"], "relevance": float(row["score"])} for row in QRELS]
    for name, rows in zip(names, (CORPUS[:1], CORPUS[1:], QUERIES, judged), strict=True):
        write_rows(tmp_path / "set" / f"{name}.parquet", rows)
    located = find_folder(tmp_path / "set")
    assert contents(located.source) == EXPECTED
    assert (located.contract.id, located.contract.version) == ("set", 0)


def test_the_split_is_chosen_and_its_queries_with_it(tmp_path):
    """Of several splits `test` is read, with its queries; without it the error names the existing splits."""
    write_rows(tmp_path / "corpus" / "all.jsonl", CORPUS)
    for split in ("dev", "test"):
        write_rows(tmp_path / "queries" / f"{split}.jsonl", [{"_id": "q1", "text": split}])
        write_rows(tmp_path / "qrels" / f"{split}.jsonl", QRELS)
    located = find_folder(tmp_path)
    assert [query.text for query in located.source.queries()] == ["test"]
    assert located.contract.id == f"{tmp_path.name}/test"
    (tmp_path / "qrels" / "test.jsonl").rename(tmp_path / "qrels" / "train.jsonl")
    with pytest.raises(InvalidFile, match="several splits: dev, train; choose one: --split dev"):
        find_folder(tmp_path)


@needs_pyarrow
def test_what_is_no_parquet_is_one_line(tmp_path):
    """A file that is not Parquet despite its name is refused."""
    for name, rows in (("queries", QUERIES), ("qrels", QRELS)):
        write_rows(tmp_path / f"{name}.jsonl", rows)
    (tmp_path / "corpus.parquet").write_bytes(b"PAR0")
    with pytest.raises(InvalidFile, match=r"corpus.parquet: it does not read as Parquet"):
        contents(find_folder(tmp_path).source)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """Return a function that puts a repository of tables into the hub's cache, from which alone is read."""
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed; pip install 'lexbench[neural]'")
    from huggingface_hub import constants

    from lexbench.datasets.sources import hf

    monkeypatch.setenv("LEXBENCH_OFFLINE", "1")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    hf.snapshot.cache_clear()

    def put(repository, tables):
        top = tmp_path / f"datasets--{repository.replace('/', '--')}"
        for name, rows in tables.items():
            write_rows(top / "snapshots" / COMMIT / name, rows)
        (top / "refs").mkdir()
        (top / "refs" / "main").write_text(COMMIT)

    return put


def test_a_dataset_of_the_hub_says_its_commit(hub):
    """hf:ORG/NAME is read from the hub's cache; results have the commit."""
    hub("org/name", {"corpus/test.jsonl": CORPUS, "queries/test.jsonl": QUERIES, "qrels/test.jsonl": QRELS})
    contract, source = find_dataset("hf:org/name")
    assert contents(source) == EXPECTED
    assert contract.id == "hf:org/name"
    assert source.notes() == [f"hf:org/name at commit {COMMIT}, under no contract: another commit may be other data"]


def test_judgements_may_be_in_a_repository_beside(hub):
    """If a repository has no judgements, those of ORG/NAME-qrels are used, as for BeIR's datasets."""
    hub("BeIR/tiny", {"corpus/corpus.jsonl": CORPUS, "queries/queries.jsonl": QUERIES})
    hub("BeIR/tiny-qrels", {"test.jsonl": QRELS, "train.jsonl": QRELS[:1]})
    assert contents(find_hub("hf:BeIR/tiny").source) == EXPECTED
    assert len(contents(find_hub("hf:BeIR/tiny#train").source)[2]) == 1


def test_what_the_hub_does_not_have_is_one_line(hub):
    """A dataset that cannot be downloaded, or a malformed name, is refused in one line."""
    with pytest.raises(MissingData, match="hf:org/none is not on this machine, and LEXBENCH_OFFLINE forbids to fetch it"):
        find_dataset("hf:org/none")
    with pytest.raises(CommandError, match="'hf:none' names no dataset of the hub; write hf:ORG/NAME"):
        find_dataset("hf:none")
