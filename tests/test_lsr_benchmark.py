"""Embeddings of lsr-benchmark are read, and its loader reads exported ones."""

import re

import numpy as np
import pytest
import tiny
from scipy import sparse

from lexbench.errors import InvalidFile
from lexbench.runner import jobs, plan
from lexbench.storage.store import Store
from lexbench.vector_formats import FORMATS
from lexbench.vector_formats.blocks import Block, Vocabulary

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
    """Ids and weights are read in order, also of empty texts without offsets."""
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

    vectors = [([0, 2], [1.5, 0.25]), ([], []), ([1], [2.0]), ([1], [2.0]), ([], [])]
    assert loaded(tmp_path / "doc") == [(name, *vector) for name, vector in zip(IDS, vectors, strict=True)]


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
