"""The encoder `sparse_mlm`, LexMAE and SPLADE, compared with transformers and sentence-transformers."""

import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import checkpoints
import fruit
import numpy as np
import pytest
import sparse_models
import torch
import transformers

from lexbench.encoders.late_interaction import LateInteraction
from lexbench.encoders.sparse_clm import SparseCLM
from lexbench.encoders.sparse_latent import SparseLatent
from lexbench.encoders.sparse_mlm import SparseMLM
from lexbench.encoders.term_weights import TermWeights
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.models.int8 import int8_works
from lexbench.models.token_batches import cutter, tokenise
from lexbench.transforms.top_k import TopK
from lexbench.types import Document

TEXTS = [
    "sparse neural retrieval",
    "",
    "the term weight of a query in the search model is dense",
    "x",
    "lexical [SEP] search 2026",
    "w1 w2 w3 " * 30,
    "document",
    "sparse neural retrieval",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a BERT with random weights."""
    return checkpoints.masked_lm(tmp_path_factory.mktemp("models") / "bert")


def encoder(folder, **settings):
    """Return an encoder that accepts vectors of random weights, which are dense."""
    lengths = {"query_length": 32, "document_length": 64}
    return SparseMLM(str(folder), **{**lengths, "device": "cpu", "dense_ok": True, **settings})


@cache
def loaded(folder):
    """Return the tokenizer and the model of transformers."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer, transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()


def reference(folder, text, pair=None, *, positions="all", length=64, last=np.log1p):
    """Return the vector of one text by transformers and numpy."""
    tokenizer, model = loaded(folder)
    pairs = None if pair is None else [pair]
    row = tokenizer([text], pairs, truncation=True, max_length=length, return_tensors="pt")
    with torch.no_grad():
        logits = model(input_ids=row["input_ids"], attention_mask=row["attention_mask"]).logits[0].numpy()
    if positions == "text":
        logits[np.isin(row["input_ids"][0], [tokenizer.cls_token_id, tokenizer.sep_token_id])] = 0
    return last(np.maximum(logits, 0).max(axis=0))


def close(found, expected, tolerance=1e-5):
    """Return whether the sparse matrix *found* has the rows *expected*."""
    return np.allclose(found.toarray(), np.array(expected), rtol=0, atol=tolerance)


@pytest.mark.parametrize("positions", ["all", "text"])
@pytest.mark.parametrize("architecture", checkpoints.ARCHITECTURES)
def test_vectors_are_those_of_transformers(tmp_path, architecture, positions):
    """A term's weight is log(1 + its largest logit) by transformers; with positions="text" neither [CLS] nor any [SEP] counts.

    Each text has the same vector in a batch of many lengths.
    """
    folder = checkpoints.masked_lm(tmp_path / architecture, architecture)
    made = encoder(folder, positions=positions, document_length=60)
    found = made.encode_document(TEXTS)

    assert found.dtype == np.float32
    assert found.has_sorted_indices
    assert close(found, [reference(folder, text, positions=positions, length=60) for text in TEXTS])
    assert close(made.encode_query(TEXTS), [reference(folder, text, positions=positions, length=32) for text in TEXTS])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_splade_has_the_vectors_of_sentence_transformers(tmp_path, dtype):
    """The settings of SPLADE give the vectors of a SparseEncoder."""
    sparse_encoder = pytest.importorskip("sentence_transformers").SparseEncoder
    folder = checkpoints.masked_lm(tmp_path / "splade", form="sparse_encoder")
    theirs = sparse_encoder(str(folder), device="cpu", model_kwargs={"dtype": getattr(torch, dtype)})
    ours = encoder(folder, dtype=dtype)
    tolerance = 1e-4 if dtype == "float32" else 0.05

    assert close(ours.encode_document(TEXTS), theirs.encode_document(TEXTS).to_dense().float().numpy(), tolerance)
    assert close(ours.encode_query(TEXTS[:3]), theirs.encode_query(TEXTS[:3]).to_dense().float().numpy(), tolerance)


DOCUMENTS = [
    Document("1", "sparse retrieval the search model", 17),
    Document("2", "no title here", 0),
    Document("3", "weight " * 50 + "query", 7 * 30),
    Document("4", "only a title", 12),
]


def test_titles_as_pairs(folder):
    """With titles=pair title and body are a pair, cut longest first; a missing title is '-'."""
    made = encoder(folder, titles="pair", document_length=40)
    tokens = made.tokenise_documents(DOCUMENTS)
    pairs = [("sparse retrieval", "the search model"), ("-", "no title here")]
    pairs += [(("weight " * 30).strip(), "weight " * 20 + "query"), ("only a title", "")]

    assert close(made.encode_tokens(tokens), [reference(folder, *pair, length=40) for pair in pairs])
    assert tokens.truncated == 1


def test_titles_in_the_string(folder):
    """With titles=string title, [SEP] and body are one text, cut at its end; this [SEP] does not pool."""
    made = encoder(folder, titles="string", positions="text", document_length=40)
    tokens = made.tokenise_documents(DOCUMENTS)
    texts = ["sparse retrieval[SEP]the search model", "-[SEP]no title here"]
    texts += [("weight " * 30).strip() + "[SEP]" + "weight " * 20 + "query", "only a title[SEP]"]
    expected = [reference(folder, text, positions="text", length=40) for text in texts]

    assert close(made.encode_tokens(tokens), expected)
    assert not np.allclose(expected[0], reference(folder, DOCUMENTS[0].text, positions="text"), atol=0.01)
    assert close(made.encode_document(["no title here"]), [expected[1]])  # texts without a document have no title


@pytest.mark.parametrize("side", ["right", "left"])
def test_texts_are_cut_as_transformers_cuts_them(folder, side):
    """Texts are cut at the token where transformers cuts them, and texts that lost a token are counted."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, truncation_side=side)
    texts = [" ".join(["term", "x", "w7", "query"][i % 4] for i in range(length)) for length in range(14)]
    pairs = [(first, second) for first in texts[::3] for second in texts[1::2]]
    for given, arguments in ((texts, (texts,)), (pairs, tuple(zip(*pairs, strict=True)))):
        lists = [list(part) for part in arguments]
        tokens = tokenise(cutter(tokenizer, 10), given)
        whole = tokenizer(*lists)["input_ids"]
        found = [tokens.ids[a:b].tolist() for a, b in zip(tokens.starts[:-1], tokens.starts[1:], strict=True)]

        assert found == tokenizer(*lists, truncation=True, max_length=10)["input_ids"]
        assert tokens.truncated == sum(len(ids) > 10 for ids in whole) > 0


def test_a_document_keeps_its_largest_weights(folder):
    """With document_terms=3 a document has its largest three weights like with top_k(3); a query keeps all."""
    whole, cut = encoder(folder), encoder(folder, document_terms=3)
    expected = TopK(3).document(whole.encode_document(TEXTS))

    assert 0 < expected.nnz < whole.encode_document(TEXTS).nnz
    assert (cut.encode_document(TEXTS) != expected).nnz == 0
    assert (cut.encode_query(TEXTS) != whole.encode_query(TEXTS)).nnz == 0


@pytest.mark.parametrize(
    ("activation", "last"), [("relu", lambda values: values), ("log1p_log1p_relu", lambda values: np.log1p(np.log1p(values)))]
)
def test_other_activations(folder, activation, last):
    """`relu` takes no logarithm, and `log1p_log1p_relu` takes it twice."""
    found = encoder(folder, activation=activation).encode_document(TEXTS)

    assert close(found, [reference(folder, text, last=last) for text in TEXTS])


@pytest.mark.parametrize(("dtype", "cosine"), [("bfloat16", 0.999), ("float16", 0.99999), ("int8", 0.99)])
def test_fewer_bits_come_close(folder, dtype, cosine):
    """16 and 8 bits give nearly the same vectors, in float32."""
    if dtype == "int8" and not int8_works():
        pytest.skip("this torch has no int8 products for this processor")
    exact, rough = (encoder(folder, dtype=one).encode_document(TEXTS).toarray() for one in ("float32", dtype))
    cosines = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)

    assert rough.dtype == np.float32
    assert cosines.min() > cosine
    assert not np.array_equal(exact, rough)


def test_queries_have_a_separate_model(folder, tmp_path):
    """Queries go through query_model, cut to query_length, and documents through model."""
    other = checkpoints.masked_lm(tmp_path / "query", seed=7)
    made = encoder(folder, query_model=str(other), query_length=8)

    assert close(made.encode_query(TEXTS), [reference(other, text, length=8) for text in TEXTS])
    assert close(made.encode_document(TEXTS), [reference(folder, text) for text in TEXTS])


def test_new_weights_in_a_folder_are_used(tmp_path):
    """After the weights in a folder have changed, encoding in the same session uses the new ones."""
    folder = checkpoints.masked_lm(tmp_path / "model", seed=1)
    first = encoder(folder).encode_document(TEXTS)
    checkpoints.masked_lm(folder, seed=2)
    second = encoder(folder).encode_document(TEXTS)

    assert not close(first, second.toarray(), 0.1)
    assert close(second, [reference(folder, text) for text in TEXTS])


BIAS = "cls.predictions.transform.dense.bias"


def test_weights_that_are_not_numbers_are_refused(tmp_path):
    """NaN in a logit is an error of one line."""
    folder = checkpoints.masked_lm(tmp_path / "broken")
    checkpoints.rewrite(folder, lambda state: state | {BIAS: torch.full((32,), torch.nan)})

    with pytest.raises(LexbenchError, match=r"float32 gives weights that are not numbers; its weights are damaged"):
        encoder(folder).encode_document(["x"])
    with pytest.raises(LexbenchError, match=r"bfloat16 gives weights that are not numbers; try dtype=float32"):
        encoder(folder, dtype="bfloat16").encode_query(["x"])


OTHERS = {  # a model of each other kind, and one of its tensors
    SparseCLM: (checkpoints.causal_lm, "model.norm.weight"),
    SparseLatent: (sparse_models.slideon, "sae.encoder.bias"),
    LateInteraction: (checkpoints.colbert, "linear.weight"),
    TermWeights: (checkpoints.uni_coil, "tok_proj.bias"),
}


@pytest.mark.parametrize("kind", OTHERS, ids=lambda kind: kind.__name__)
def test_other_models_refuse_them_too(tmp_path, kind):
    """Every kind of model looks at what it computes."""
    write, name = OTHERS[kind]
    folder = Path(write(tmp_path / "broken"))
    checkpoints.rewrite(folder, lambda state: state | {name: torch.full_like(state[name], torch.nan)})
    settings = {"query_length": 32, "document_length": 32, "device": "cpu"}
    settings |= {TermWeights: {"expansion_length": 4}, LateInteraction: {"mask_queries_to": 8}}.get(kind, {})

    for encode in ("encode_document", "encode_query"):
        with pytest.raises(LexbenchError, match=r"gives weights that are not numbers; its weights are damaged"):
            getattr(kind(str(folder), **settings), encode)(["x"])


REFUSED = {
    "document_length": (65, CommandError, r"document_length=65: .* takes at most 64 tokens; type document_length=64"),
    "query_length": (65, CommandError, r"query_length=65: .* takes at most 64 tokens"),  # before all documents are encoded
    "device": ("cuda:99", CannotStart, r"device=cuda:99: .* type device=auto"),
    "dense_ok": (False, LexbenchError, r"gives a text \d\d% of all terms.*dense_ok=True"),  # not trained for sparse vectors
}


@pytest.mark.parametrize("setting", REFUSED)
def test_limits_of_the_model_and_the_machine(folder, setting):
    """More tokens than positions, a missing device, and a model that gives texts most terms are refused in one line."""
    value, error, message = REFUSED[setting]
    with pytest.raises(error, match=message):
        encoder(folder, **{setting: value}).encode_document(TEXTS)
    if setting.endswith("length"):  # before the model is loaded
        with pytest.raises(error, match=message):
            encoder(folder, **{setting: value}).identity()


_SLOW = """
import sys
from lexbench.cli import code
from lexbench.lexmae.recipe.settings import Hardware
from lexbench.lexmae.training.processes import precision_note
from lexbench.models.int8 import int8_works
from lexbench.rerankers.cross_encoder import CrossEncoder

for setting in ("dtype='bfloat16'", "dtype='float32'"):
    system = f"sparse_mlm(model={sys.argv[1]!r}, {setting}, device='cpu', dense_ok=True, query_length=9, document_length=9)@csr"
    code(["run", "dataset", sys.argv[2], "-r", system, "-m", "RR@10"])
print(CrossEncoder("x", dtype="float16", device="cpu").slow_note(), file=sys.stderr)
print(precision_note(Hardware(precision="bf16", device="cpu")), [precision_note(Hardware(device="cpu"))], file=sys.stderr)
sys.exit(not int8_works())
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only on x86 can oneDNN be told to use fewer instructions")
@pytest.mark.slow  # in a process that is told to have fewer instructions
def test_a_note_about_an_emulated_dtype_comes_before_the_work(folder, tmp_path):
    """With AVX2 alone, runs, rerankers and training have a note on slow bfloat16 and float16, and none on float32.

    The largest products of int8 are exact there, which adds pairs in 16 bits.
    """
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "LEXBENCH_STORE": str(tmp_path)}
    command = [sys.executable, "-c", _SLOW, str(folder), str(fruit.write(tmp_path / "fruit", split="test"))]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    slow = r"(.*)products in (\w+) take [\d.]+ times as long as in float32 on this processor; type (.*)"
    notes = re.findall(slow, done.stderr)
    typed = ('dtype="float32"', 'dtype="float32"', "--set hardware.precision=fp32 ['']")

    assert "of float32's time" not in done.stderr
    assert notes[0][0].startswith("sparse_mlm on fruit: ")
    assert [note[1:] for note in notes] == list(zip(("bfloat16", "float16", "bfloat16"), typed, strict=True))


def test_without_expansion_a_query_has_its_own_tokens_alone(tmp_path):
    """The weights are those of the whole query, of its tokens but special ones; documents stay expanded (SpladeLexical)."""
    folder = checkpoints.masked_lm(tmp_path / "model")
    texts = ["sparse neural retrieval", "the term the weight", "", "unheard"]
    settings = {"dense_ok": True, "query_length": 32, "document_length": 32, "device": "cpu"}
    whole, lexical = (SparseMLM(str(folder), **settings, query_expansion=given) for given in (True, False))
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    own = np.zeros((len(texts), len(tokenizer)), bool)
    for row, text in enumerate(texts):
        own[row, tokenizer(text, add_special_tokens=False)["input_ids"]] = True
    expected = np.where(own, whole.encode_query(texts).toarray(), 0)
    found = lexical.encode_query(texts)
    assert np.array_equal(found.toarray(), expected)
    assert found.has_sorted_indices
    assert np.count_nonzero(expected) < whole.encode_query(texts).nnz
    assert np.array_equal(lexical.encode_document(texts).toarray(), whole.encode_document(texts).toarray())
    summed = SparseMLM(str(folder), **settings, query_expansion=False, pooling="sum").encode_query(texts)
    assert set(summed.indices) <= set(np.nonzero(own)[1])
    with pytest.raises(CommandError, match="means are of no token; leave one out"):
        SparseMLM(str(folder), **settings, query_expansion=False, means=True)
