"""lsr-benchmark: its embeddings are read, an engine searches them, and what is written its evaluation reads."""

import gzip
import re
from pathlib import Path

import numpy as np
import pytest
import tiny
import yaml
from scipy import sparse

from lexbench.cli import code
from lexbench.errors import CommandError, InvalidFile
from lexbench.interop.lsr_benchmark import retrieve
from lexbench.runner import jobs, plan
from lexbench.storage.store import Store
from lexbench.vector_formats import FORMATS
from lexbench.vector_formats.blocks import Block, Vocabulary

ROOT = Path(__file__).parent.parent
CONTAINER = ROOT / "containers" / "tirex"
DOCUMENTS = np.array([[1.5, 0, 0.25], [0, 0, 0], [0, 2, 0], [0, 2, 0], [0, 0, 0]], np.float32)
IDS = ["d1", "d2", "d3", "d4", "d5"]
QUERIES = np.array([[1, 0, 2], [0, 3, 0]], np.float32)


def embedding(folder, dense, ids, *, short=False):
    """Write vectors as lsr-benchmark's encoders do: *short* leaves out the offsets of the empty texts at the end."""
    matrix = sparse.csr_array(dense)
    offsets = matrix.indptr[: len(np.unique(matrix.indptr))] if short else matrix.indptr
    folder.mkdir(parents=True)
    np.savez_compressed(folder / f"{folder.name}-embeddings.npz", data=matrix.data, indices=matrix.indices, indptr=offsets)
    (folder / f"{folder.name}-ids.txt").write_text("\n".join(ids))


@pytest.fixture
def folder(tmp_path):
    """Write five documents, the third and the fourth of one vector, two empty, and two queries."""
    embedding(tmp_path / "splade" / "doc", DOCUMENTS, IDS)
    embedding(tmp_path / "splade" / "query", QUERIES, ["q1", "q2"])
    return tmp_path / "splade"


def loaded(folder):
    """Return (id, terms, weights) of each text, read by lsr-benchmark's own loader."""
    arrays = np.load(folder / f"{folder.name}-embeddings.npz")
    ids = (folder / f"{folder.name}-ids.txt").read_text().strip().split("\n")
    bounds = zip(ids, arrays["indptr"][:-1], arrays["indptr"][1:], strict=False)
    return [(name, arrays["indices"][a:b].tolist(), arrays["data"][a:b].tolist()) for name, a, b in bounds]


def test_embeddings_are_read(folder, tmp_path):
    """Ids and weights come back in order, also those of empty texts without offsets."""
    (block,) = FORMATS["lsr-benchmark"].read(folder / "doc")

    assert block.ids == IDS
    assert np.array_equal(block.vectors.toarray(), DOCUMENTS)
    embedding(tmp_path / "short" / "doc", DOCUMENTS[[0, 2, 4]], ["a", "b", "c"], short=True)
    (block,) = FORMATS["lsr-benchmark"].read(tmp_path / "short" / "doc")
    assert np.array_equal(block.vectors.toarray(), DOCUMENTS[[0, 2, 4]])


def test_what_is_written_its_loader_reads(tmp_path):
    """Vectors that are exported are the same texts, terms and weights to lsr-benchmark's loader."""
    blocks = [Block(IDS[:3], sparse.csr_array(DOCUMENTS[:3])), Block(IDS[3:], sparse.csr_array(DOCUMENTS[3:]))]
    FORMATS["lsr-benchmark"].write(blocks, tmp_path / "doc", Vocabulary())

    assert loaded(tmp_path / "doc") == [
        ("d1", [0, 2], [1.5, 0.25]),
        ("d2", [], []),
        ("d3", [1], [2.0]),
        ("d4", [1], [2.0]),
        ("d5", [], []),
    ]


def test_a_dataset_is_searched_by_its_embeddings(folder, tmp_path, monkeypatch):
    """With a dataset of the same ids the embeddings are a system like any other."""
    tiny.enter(tmp_path, monkeypatch)
    place = tiny.write(
        tmp_path / "set", dict.fromkeys(IDS, "text"), {"q1": "one", "q2": "two"}, [("q1", "d1", 1), ("q2", "d4", 1)]
    )
    system = f'vectors(documents="{folder}/doc", queries="{folder}/query", format="lsr-benchmark")@csr'
    (outcome,) = jobs.run(plan.plan_dataset(str(place), [system], ["RR@10"], 10), Store())

    assert outcome.error is None
    assert outcome.result.means == {"RR@10": 1.0}


@pytest.mark.parametrize("engine", ["csr", "quantize(4)@csr", "quantize(4)@impact"])
def test_a_run_without_a_dataset(folder, tmp_path, engine):
    """Each query has the documents with a common term, best first, equal ones by id as trec_eval orders them."""
    out = tmp_path / "out"
    assert code(["retrieve", str(folder), str(out), "-e", engine, "--dataset", "/in/tiny", "--team", "us", "--tag", "t"]) == 0
    lines = [line.split() for line in gzip.decompress((out / "run.txt.gz").read_bytes()).decode().splitlines()]

    assert [(line[0], line[2], line[3], line[5]) for line in lines] == [
        ("q1", "d1", "1", "t"),
        ("q2", "d4", "1", "t"),
        ("q2", "d3", "2", "t"),
    ]
    assert float(lines[0][4]) == (2.0 if engine == "csr" else 32.0)  # 1.5 * 1 + .25 * 2; in quarters on both sides 16 times
    for name in ("index", "retrieval"):
        fields = yaml.safe_load((out / f"{name}-metadata.yml").read_text())
        assert fields["data"]["test collection"]["name"] == "tiny"
        assert fields["actor"]["team"] == "us"
        assert re.fullmatch(r"\d+ ms", fields["resources"]["runtime"]["wallclock"])
        assert fields["platform"]["hardware"]["cpu"]["number of cores"]


def test_what_does_not_read_is_said_in_a_line(folder, tmp_path):
    """Malformed or pickled arrays, a wrong number of ids, and a folder without embeddings are refused."""
    read = FORMATS["lsr-benchmark"].read
    with pytest.raises(InvalidFile, match=r"it has no file \*-embeddings.npz"):
        list(read(tmp_path))
    (folder / "doc" / "doc-ids.txt").write_text("d1\nd2")
    with pytest.raises(InvalidFile, match="5 rows, and 2 ids beside it"):
        list(read(folder / "doc"))
    npz = folder / "doc" / "doc-embeddings.npz"
    for arrays, line in (
        ({"data": np.ones(2), "indices": [0, 1], "indptr": [0, 3]}, "its indptr does not ascend from 0 to its 2 weights"),
        ({"data": np.ones(1), "indices": [-1], "indptr": [0, 1]}, "a term is below 0"),
        ({"data": [np.nan], "indices": [1], "indptr": [0, 1]}, "a weight is no float32 number"),
        ({"data": np.ones(1), "indices": ["the"], "indptr": [0, 1]}, "it must hold the numbers data, indices, indptr"),
        ({"data": np.array([{}], object), "indices": [1], "indptr": [0, 1]}, "it must hold the numbers data, indices, indptr"),
        ({"data": np.ones(1)}, "it must hold the numbers data, indices, indptr"),
    ):
        np.savez(npz, **arrays)
        with pytest.raises(InvalidFile, match=re.escape(line)):
            list(read(folder / "doc"))
    npz.write_bytes(b"nothing")
    with pytest.raises(InvalidFile, match=r"doc-embeddings\.npz"):
        list(read(folder / "doc"))


def test_an_engine_that_cannot_search_them_is_refused(folder, tmp_path):
    """An engine of dense vectors, and a list of no documents."""
    with pytest.raises(CommandError, match="takes dense vectors; vectors makes sparse ones"):
        list(retrieve(folder, tmp_path / "out", "flat", 10, {}))
    with pytest.raises(CommandError, match="k is 0"):
        list(retrieve(folder, tmp_path / "out", "impact", 0, {}))


# ---- the container -----------------------------------------------------------------------------------------------------------


def instructions():
    """Return the instructions of the Dockerfile: the first word of each, and the rest on one line."""
    text = re.sub(r"\\\n\s*", "", (CONTAINER / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(maxsplit=1)) for line in lines]


def test_the_dockerfile_reads():
    """It begins with an image of a fixed version, copies existing files, and runs the command of the guide."""
    parsed = instructions()
    copied = [words for name, rest in parsed if name == "COPY" for words in rest.split()[:-1]]

    assert {name for name, _ in parsed} == {"FROM", "ENV", "COPY", "RUN"}
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", dict(parsed)["FROM"])
    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert "lexbench retrieve /opt/example /tmp/example --engine impact" in dict(parsed)["RUN"]
    assert "--command 'lexbench retrieve $embeddings $outputDir" in (ROOT / "docs" / "howto" / "tirex.md").read_text()


def test_what_the_container_is_built_with_runs(tmp_path):
    """The example in it is searched as the build does, and has the four lines that the workflow counts."""
    list(retrieve(CONTAINER / "example", tmp_path, "impact", 1000, {}))

    assert len(gzip.decompress((tmp_path / "run.txt.gz").read_bytes()).splitlines()) == 4
