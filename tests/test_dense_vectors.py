"""Published dense vectors are looked up by id, in all published layouts."""

import json

import numpy as np
import pytest
import tiny
from tiny import answer, write_rows
from workbench import needs_pyarrow

import lexbench
from lexbench import registry
from lexbench.encoders.dense_vectors import DenseVectors
from lexbench.errors import CommandError, InvalidFile, LexbenchError
from lexbench.notation import Call
from lexbench.types import Document, Query
from lexbench.vector_formats.lookup import read_dense

DOCUMENTS = {"d1": [1.0, 0.0], "d2": [3.0, 6.0], "10": [0.0, 2.0]}
QUERIES = {"q2": [0.0, 1.0], "q1": [1.0, 0.5]}


def rows(vectors, id_name, vector_name, **more):
    """Return rows of *vectors* under these names."""
    return [{id_name: name, **more, vector_name: vector} for name, vector in vectors.items()]


def encoder(tmp_path, documents, queries, **settings):
    """Return the encoder of files in a folder."""
    settings |= {"documents": str(tmp_path / documents), "queries": str(tmp_path / queries)}
    return registry.create("encoders", Call("dense_vectors", kwargs=tuple(settings.items())))


def found(encoder, ids):
    """Return the vectors of documents."""
    return encoder.encode_tokens(encoder.tokenise_documents([Document(name, "") for name in ids]), lambda _: None)


LAYOUTS = {
    "anserini": ("corpus/a.parquet", ("docid", "vector"), "topics.jsonl.gz", ("qid", "vector")),
    "anserini-json": ("corpus.jsonl", ("docid", "vector"), "topics.jsonl", ("qid", "vector")),
    "pyserini": ("corpus/embeddings.jsonl", ("id", "vector"), "queries.jsonl", ("id", "vector")),
    "hub": ("corpus/0000.parquet", ("_id", "emb"), "queries/test.parquet", ("_id", "emb")),
}


@pytest.mark.parametrize(
    "layout", [pytest.param(name, marks=needs_pyarrow if "parquet" in str(LAYOUTS[name]) else ()) for name in LAYOUTS]
)
def test_published_layouts_are_read(layout, tmp_path):
    """The columns of Anserini, Pyserini and the hub are found by name, in a file or a folder."""
    documents, of_documents, queries, of_queries = LAYOUTS[layout]
    write_rows(tmp_path / documents, rows(DOCUMENTS, *of_documents, text="…"))
    write_rows(tmp_path / queries, rows(QUERIES, *of_queries, text="…"))
    made = encoder(tmp_path, documents.partition("/")[0], queries.partition("/")[0])

    assert found(made, ["10", "d1", "d2"]).tolist() == [[0, 2], [1, 0], [3, 6]]
    assert made.encode_queries([Query("q1", ""), Query("q2", "")]).tolist() == [[1, 0.5], [0, 1]]


@needs_pyarrow
def test_vectors_become_float32(tmp_path):
    """Columns of float64 and float16 become float32; the files of a folder are read by name."""
    import pyarrow as pa
    from pyarrow.parquet import write_table

    for name, kind, vector in (("a", pa.float64(), [0.1, 0.2]), ("b", pa.float16(), np.array([0.5, 2], np.float16).tolist())):
        table = pa.table({"docid": [name], "vector": pa.array([vector], pa.list_(kind))})
        write_table(table, tmp_path / f"{name}.parquet")
    blocks = list(read_dense(tmp_path))

    assert [block.ids for block in blocks] == [["a"], ["b"]]
    assert [block.vectors.dtype for block in blocks] == [np.float32] * 2
    assert blocks[0].vectors.tolist() == [[np.float32(0.1), np.float32(0.2)]]
    assert blocks[1].vectors.tolist() == [[0.5, 2.0]]


def test_looked_up_vectors_are_searched_and_scored(store, tmp_path, capsys):
    """Runs rank by dot product, or by cosine."""
    tiny.write(tmp_path, {"d1": "a", "d2": "b", "10": "c"}, {"q1": "x"}, [("q1", "d1", 1)])
    write_rows(tmp_path / "documents.jsonl", rows(DOCUMENTS, "docid", "vector"))
    write_rows(tmp_path / "asked.jsonl", rows(QUERIES, "qid", "vector"))
    files = f'documents="{tmp_path / "documents.jsonl"}", queries="{tmp_path / "asked.jsonl"}"'

    ranks = {}
    for similarity in ("dot", "cosine"):
        system = f'dense_vectors({files}, similarity="{similarity}")@flat'
        (one,) = answer(capsys, "run", "dataset", str(tmp_path), "-r", system, "-m", "RR@10", "--json")["results"]
        ranks[similarity] = one["means"]["RR@10"]

    assert ranks == {"dot": 1 / 2, "cosine": 1.0}  # d1, d2 and 10 have 1, 6 and 1; by cosine .89, .80 and .45


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([{"docid": "d", "embed": [1]}], "no column vector, emb, embedding or embeddings; there is: docid, embed"),
        ([{"name": "d", "vector": [1]}], "no column docid, qid, _id"),
        ([{"docid": "d", "vector": {"fox": 3}}], "sparse vectors, weights by token; type vectors"),
        ([{"docid": "d", "vector": [1, 2]}, {"docid": "e", "vector": [1]}], "not all as long as the first"),
        ([{"docid": "d", "vector": ["x"]}], "no lists of numbers"),
        ([{"docid": "d", "vector": [1e300]}], "is no float32"),
        ([{"docid": "d", "vector": [1]}, {"qid": "e", "vector": [1]}], "it lacks docid or vector"),
        ([{"docid": "d", "vector": [1], "emb": [2]}], "are the vectors in 'vector' or in 'emb'"),
    ],
)
def test_files_that_are_no_dense_vectors_are_refused(lines, said, tmp_path):
    """Rows without ids or vectors, sparse ones, and vectors of several lengths are refused."""
    write_rows(tmp_path / "a.jsonl", lines)
    with pytest.raises(InvalidFile, match=said):
        list(read_dense(tmp_path / "a.jsonl"))


def test_two_vectors_of_one_id_are_refused(tmp_path):
    """An id with two vectors, in one file or two, is refused."""
    write_rows(tmp_path / "documents/a.jsonl", rows(DOCUMENTS, "docid", "vector"))
    write_rows(tmp_path / "queries.jsonl", [*rows(QUERIES, "qid", "vector"), {"qid": "q1", "vector": [9.0, 9.0]}])
    made = encoder(tmp_path, "documents", "queries.jsonl")
    with pytest.raises(InvalidFile, match=r"queries\.jsonl: two vectors have the id 'q1', and .*; keep one of them"):
        made.encode_queries([Query("q1", "")])
    assert found(made, ["d2"]).tolist() == [[3.0, 6.0]]

    write_rows(tmp_path / "documents/b.jsonl", [{"docid": "10", "vector": [0.0, 2.0]}])
    with pytest.raises(InvalidFile, match="documents: two vectors have the id '10'"):
        found(encoder(tmp_path, "documents", "queries.jsonl"), ["d2"])


def test_missing_vectors_are_named(tmp_path):
    """Missing ids, unknown files, and queries of another width are refused."""
    write_rows(tmp_path / "documents.jsonl", rows(DOCUMENTS, "docid", "vector"))
    write_rows(tmp_path / "queries.jsonl", rows({"q1": [1.0, 2.0, 3.0]}, "qid", "vector"))
    made = encoder(tmp_path, "documents.jsonl", "queries.jsonl")

    with pytest.raises(LexbenchError, match=r"documents\.jsonl has no vector of document 'x', 'y'$"):
        found(made, ["d1", "x", "y"])
    with pytest.raises(LexbenchError, match=r"vectors of 3 dimensions, and .*documents\.jsonl has 2"):
        made.encode_queries([Query("q1", "")])
    (tmp_path / "v.pkl").touch()
    with pytest.raises(InvalidFile, match=r"v\.pkl: vectors are read from files that end in \.parquet, \.jsonl"):
        encoder(tmp_path, "v.pkl", "queries.jsonl").identity()
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(LexbenchError, match=r"empty\.jsonl has no vector of document 'd1'$"):
        found(encoder(tmp_path, "empty.jsonl", "queries.jsonl"), ["d1"])


# ---- files of NumPy --------------------------------------------------------------------------------------------------------


def put(folder, name, vectors, dtype=np.float32, ids=".ids"):
    """Save *vectors* as .npy, with their ids in a file beside, or as .npz."""
    values = np.array(list(vectors.values()), dtype)
    if name.endswith(".npz"):
        np.savez(folder / name, ids=np.array(list(vectors)), vectors=values)
        return
    np.save(folder / name, values)
    beside = folder / name.replace(".npy", ids)
    if ids == ".ids.npy":
        np.save(beside, np.array(list(vectors)))
    else:
        beside.write_text(json.dumps(list(vectors)) if ids == ".ids.json" else "".join(f"{one}\n" for one in vectors))


@pytest.mark.parametrize("ids", [".ids", ".ids.txt", ".ids.json", ".ids.npy", ".npz"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_arrays_of_numpy_are_read(ids, dtype, tmp_path):
    """.npy with ids beside it in every form, and .npz, give the vectors of the same JSON lines."""
    ending = ".npz" if ids == ".npz" else ".npy"
    put(tmp_path, f"documents{ending}", DOCUMENTS, dtype, ids)
    put(tmp_path, f"queries{ending}", QUERIES, dtype, ids)
    made = encoder(tmp_path, f"documents{ending}", f"queries{ending}")

    assert found(made, ["10", "d1", "d2"]).tolist() == [[0, 2], [1, 0], [3, 6]]
    assert made.encode_queries([Query("q1", ""), Query("q2", "")]).tolist() == [[1, 0.5], [0, 1]]


def test_ids_of_arrays_are_stated_and_part_of_the_identity(tmp_path):
    """A stated file of ids counts; another order of ids is another identity; a folder may mix files."""
    put(tmp_path, "documents.npy", DOCUMENTS)
    put(tmp_path, "queries.npz", QUERIES)
    (tmp_path / "other.txt").write_text("d2\nd1\n10\n")
    plain = encoder(tmp_path, "documents.npy", "queries.npz")
    stated = encoder(tmp_path, "documents.npy", "queries.npz", document_ids=str(tmp_path / "other.txt"))

    assert [found(one, ["d1"]).tolist() for one in (plain, stated)] == [[[1, 0]], [[3, 6]]]
    assert plain.index_identity() != stated.index_identity()
    before = plain.index_identity()
    (tmp_path / "documents.ids").write_text("d2\nd1\n10\n")
    assert plain.index_identity() == before | {"document_ids": stated.index_identity()["document_ids"]} != before
    assert found(plain, ["d1"]).tolist() == [[3, 6]]


def test_an_archive_may_have_a_vector_under_each_id(tmp_path):
    """{id: vector} as np.savez writes it, and ids as numbers."""
    np.savez(tmp_path / "a.npz", **{name: np.array(vector) for name, vector in DOCUMENTS.items()})
    np.savez(tmp_path / "b.npz", docids=np.array([7, 12]), embeddings=np.ones((2, 2)))

    assert [one.ids for file in ("a", "b") for one in read_dense(tmp_path / f"{file}.npz")] == [list(DOCUMENTS), ["7", "12"]]

    np.savez(tmp_path / "c.npz", ids=list(DOCUMENTS), vectors=np.eye(len(DOCUMENTS)), embeddings=np.eye(len(DOCUMENTS)))
    with pytest.raises(InvalidFile, match="are the vectors in 'vectors' or in 'embeddings'"):
        list(read_dense(tmp_path / "c.npz"))


ARRAYS = [
    ({"v.npy": np.ones((2, 2))}, "whose vectors are these"),
    ({"v.npy": np.ones((2, 2)), "v.ids.npy": np.array(["a"])}, "2 vectors, and 1 ids"),
    ({"v.npy": np.ones((1, 2), np.int8), "v.ids.npy": np.array(["a"])}, "int8 are codes, which are no vectors without"),
    ({"v.npy": np.ones(2), "v.ids.npy": np.array(["a", "b"])}, r"\(texts, dimensions\); this is one of float64, \(2,\)"),
    ({"v.npy": np.array([[{}]]), "v.ids.npy": np.array(["a"])}, "need pickle, which is never loaded"),
    ({"v.npy": np.ones((1, 2)), "v.ids.npy": np.array(["a"], object)}, "need pickle, which is never loaded"),
    ({"v.npy": np.ones((1, 2)), "v.ids.npy": np.array([0.5])}, "ids are an array of texts or whole numbers, not of float64"),
    ({"v.npy": np.array([["x"]]), "v.ids.npy": np.array(["a"])}, "an array of numbers"),
    ({"v.npy": np.array([[np.nan]]), "v.ids.npy": np.array(["a"])}, "is no float32"),
]


@pytest.mark.parametrize(("files", "said"), ARRAYS, ids=[said for _, said in ARRAYS])
def test_arrays_that_are_no_vectors_are_refused(files, said, tmp_path):
    """The error names the file and what is wrong; nothing is unpickled."""
    for name, array in files.items():
        np.save(tmp_path / name, array, allow_pickle=True)
    with pytest.raises(InvalidFile, match=said):
        list(read_dense(tmp_path / "v.npy"))


def test_damaged_files_of_numpy_are_refused(tmp_path):
    """A cut file, a text, and an archive without ids are one line."""
    put(tmp_path, "a.npy", DOCUMENTS)
    (tmp_path / "a.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-5])
    (tmp_path / "b.npz").write_text("text")
    np.savez(tmp_path / "c.npz", np.ones((2, 2)))
    for name in ("a.npy", "b.npz", "c.npz"):
        with pytest.raises(InvalidFile, match=name):
            list(read_dense(tmp_path / name))


@pytest.mark.parametrize("form", ["mapping", "ids and array"])
def test_arrays_in_memory_are_a_system(form, store, tmp_path):
    """Mappings from ids to vectors, and ids with an array, are searched like the same file; equal ones share an index."""
    data = {
        "corpus": {"d1": "a", "d2": "b", "10": "c"},
        "queries": {"q1": "x", "q2": "y"},
        "qrels": {"q1": ["d2"], "q2": ["10"]},
    }
    parts = [DOCUMENTS, QUERIES]
    if form != "mapping":
        parts = [(np.array(list(part)), np.array(list(part.values()))) for part in parts]
    first, second = (DenseVectors.from_arrays(*parts, similarity="cosine") for _ in range(2))
    (result,) = lexbench.run(data, {"mine": first}, measures=["RR@10"])

    assert result.per_query["RR@10"] == [1 / 2, 1]  # q1 is nearest to d1, q2 to 10
    named = {"documents": parts[0], "queries": parts[1]}
    (again,) = lexbench.run(data, {"mine": {**named, "similarity": "cosine"}}, measures=["RR@10"])
    assert again.per_query == result.per_query
    by_product = lexbench.run(data, {"named": named, "both": tuple(parts)}, measures=["RR@10"])
    assert [one.per_query["RR@10"] for one in by_product] == [[1, 1 / 2]] * 2  # the scalar product prefers longer vectors
    with pytest.raises(
        CommandError, match=r"documents: whose vectors are these\? Give {id: vector}, or \(ids, array\), not ndarray"
    ):
        lexbench.run(data, {"mine": (np.ones((3, 2)), parts[1])})
    assert first.identity() == second.identity()


@pytest.mark.parametrize(
    ("documents", "said"),
    [
        ({"d": [1.0], "e": [1.0, 2.0]}, "documents: setting an array element with a sequence"),
        ((["d"], np.ones((2, 2))), "documents: 2 vectors, and 1 ids"),
        (([0.5], np.ones((1, 2))), "documents: the _id 0.5 is not a string"),
        ({"d": np.ones(2, np.uint8)}, "documents: uint8 are codes"),
        ({"d": np.ma.array([1.0, 2.0], mask=[True, False])}, "documents: vectors with masked values"),
    ],
)
def test_arrays_in_memory_that_are_no_vectors_are_refused(documents, said):
    """The error names the part and what is wrong."""
    with pytest.raises(InvalidFile, match=said):
        DenseVectors.from_arrays(documents, QUERIES)
