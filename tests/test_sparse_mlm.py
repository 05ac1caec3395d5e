"""The encoder `sparse_mlm`: LexMAE and SPLADE, against values by hand, transformers' own models and sentence-transformers."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from checkpoints import ARCHITECTURES, tiny, tiny_bert, write_weights  # noqa: E402 - needs torch
from safetensors.torch import load_file  # noqa: E402

from lexbench.encoders._torch_models import _largest  # noqa: E402
from lexbench.encoders.sparse_mlm import SparseMLM  # noqa: E402
from lexbench.errors import CannotStart, CommandError, LexbenchError  # noqa: E402
from lexbench.models.token_batches import batches, cutter, tokenise  # noqa: E402
from lexbench.models.transformer_model import PackedLinear, pack, packing_works  # noqa: E402
from lexbench.transforms.top_k import TopK  # noqa: E402
from lexbench.types import Document  # noqa: E402

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
    return tiny_bert(tmp_path_factory.mktemp("models") / "bert", form="transformers", safetensors=True)


def encoder(folder, **settings):
    """Return an encoder that accepts vectors of random weights, which are dense."""
    lengths = {"query_length": 32, "document_length": 64}
    return SparseMLM(str(folder), **{**lengths, "device": "cpu", "dense_ok": True, **settings})


def reference(folder, text, pair=None, *, positions="all", length=64, last=np.log1p):
    """Return the vector of one text by transformers and numpy."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
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


HAND = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "apple", "banana", "fruit", "first", "last"]


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    """Write a BERT with known logits: 8 - 5 for a token's own term and terms with the same vector, else 0 - 5.

    Vectors are rows of a Hadamard matrix: their mean is 0 and their deviation 1, so layer normalisation does not change them,
    and dot products are 8 or 0. The layer adds nothing, and the head's transform returns its input.
    """
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    path = tiny_bert(
        tmp_path_factory.mktemp("models") / "hand", form="transformers", vocabulary=HAND, safetensors=True, **sizes
    )
    state = load_file(path / "model.safetensors")
    for name, tensor in state.items():
        tensor.fill_(1.0 if name.endswith("LayerNorm.weight") else 0.0)
    hadamard = torch.tensor([[1.0]])
    for _ in range(3):
        hadamard = torch.cat([torch.cat([hadamard, hadamard], 1), torch.cat([hadamard, -hadamard], 1)])
    rows = {
        "[PAD]": 7,
        "[UNK]": 7,
        "[CLS]": 1,
        "[SEP]": 2,
        "[MASK]": 7,
        "apple": 3,
        "banana": 4,
        "fruit": 3,
        "first": 1,
        "last": 2,
    }
    vectors = torch.stack([hadamard[rows[token]] for token in HAND])
    state["bert.embeddings.word_embeddings.weight"].copy_(vectors)
    state["cls.predictions.decoder.weight"] = vectors.clone()
    state["cls.predictions.transform.dense.weight"].copy_(100 * torch.eye(8))  # gelu gives 100 and 0, which normalise to 1, -1
    bias = torch.full((len(HAND),), -5.0)
    bias[HAND.index("fruit")] = -7.5
    state["cls.predictions.bias"].copy_(bias)
    state["cls.predictions.decoder.bias"] = bias.clone()
    write_weights(path, state, safetensors=True)
    return path


THREE, HALF = np.log(1 + 3), np.log(1 + 0.5)  # logits 8 - 5 and 8 - 7.5


@pytest.mark.parametrize(
    ("positions", "text", "expected"),
    [
        ("text", "apple banana apple", {"apple": THREE, "banana": THREE, "fruit": HALF}),
        ("all", "banana", {"banana": THREE, "[CLS]": THREE, "first": THREE, "[SEP]": THREE, "last": THREE}),
        ("text", "banana [SEP] banana", {"banana": THREE}),
        ("text", "", {}),
        ("all", "", {"[CLS]": THREE, "first": THREE, "[SEP]": THREE, "last": THREE}),
    ],
)
def test_weights_are_those_found_by_hand(by_hand, positions, text, expected):
    """A term has the weight log(1 + its largest logit); with positions=text neither [CLS] nor any [SEP] counts."""
    made = encoder(by_hand, positions=positions)
    for vectors in (made.encode_document([text]), made.encode_query([text])):
        assert {made.token(term): pytest.approx(weight, abs=1e-5) for term, weight in expected_terms(vectors)} == expected


def expected_terms(vectors):
    """Return the terms and weights of the one row of *vectors*."""
    return zip(vectors.indices.tolist(), vectors.data.tolist(), strict=True)


@pytest.mark.parametrize("positions", ["all", "text"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_those_of_transformers(tmp_path, architecture, positions):
    """Each text in a batch of many lengths has the vector that transformers gives it alone."""
    folder = tiny(tmp_path / architecture, architecture)
    found = encoder(folder, positions=positions, document_length=60).encode_document(TEXTS)
    expected = [reference(folder, text, positions=positions, length=60) for text in TEXTS]

    assert found.dtype == np.float32
    assert found.has_sorted_indices
    assert close(found, expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_splade_is_that_of_sentence_transformers(tmp_path, dtype):
    """The settings of SPLADE give the vectors of a SparseEncoder."""
    sparse_encoder = pytest.importorskip("sentence_transformers").SparseEncoder
    folder = tiny_bert(tmp_path / "splade", form="sparse_encoder", safetensors=True)
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
    assert close(made.encode_document(["no title here"]), [expected[1]])  # a text has no title that anyone knew of


@pytest.mark.parametrize("side", ["right", "left"])
def test_texts_are_cut_as_transformers_cuts_them(folder, side):
    """Texts are cut like by transformers, and those that lost a token are counted."""
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


def test_every_text_is_in_one_batch_within_its_bounds(folder):
    """Batches have each text once, the longest first, and keep to both limits."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokens = tokenise(cutter(tokenizer, 64), TEXTS * 3)
    made = list(batches(tokens, 70, 4, pad=0, silent=[2, 3]))

    assert sorted(np.concatenate([batch.texts for batch in made]).tolist()) == list(range(24))
    assert all(batch.ids.size <= 70 and len(batch.texts) <= 4 for batch in made)
    assert [batch.ids.shape[1] for batch in made] == sorted((batch.ids.shape[1] for batch in made), reverse=True)
    assert all(np.array_equal(batch.pools, batch.real & (batch.ids != 2) & (batch.ids != 3)) for batch in made)


def test_a_document_keeps_its_largest_weights(folder):
    """With document_terms=3 a document has its largest three weights like with top_k(3); a query keeps all."""
    whole, cut = encoder(folder), encoder(folder, document_terms=3)
    expected = TopK(3).document(whole.encode_document(TEXTS))

    assert 0 < expected.nnz < whole.encode_document(TEXTS).nnz
    assert (cut.encode_document(TEXTS) != expected).nnz == 0
    assert (cut.encode_query(TEXTS) != whole.encode_query(TEXTS)).nnz == 0


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_pieces_of_the_vocabulary_change_nothing(dtype, monkeypatch):
    """The vocabulary of lexmae_nano in 120 pieces, 15, or one gives the same bits."""
    from lexbench.encoders import _torch_models
    from lexbench.runner.systems import system

    nano = system(f'lexmae_nano(dtype="{dtype}", device="cpu")@impact').retriever.encoder
    found = []
    for terms in (256, 2048, 1 << 20):
        monkeypatch.setattr(_torch_models, "_NARROW_PIECE", terms)
        model = _torch_models.MaskedLMModel(nano.spec(nano.model, nano.revision))
        tokens = tokenise(model.cutter(64, "document_length"), TEXTS)
        found += [model.vectors(batch, "log1p_relu") for batch in batches(tokens, 768, 64, pad=model.pad, silent=())]

    assert len(found) == 3
    assert found[0].nnz > 0
    assert all(np.array_equal(one.toarray(), found[0].toarray()) for one in found[1:])


@pytest.mark.parametrize("batch_tokens", [0, 32])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_threads_change_nothing(folder, dtype, batch_tokens):
    """One thread and two give the same bytes, with one batch or several; torch keeps its number of threads."""
    one, two = (
        encoder(folder, dtype=dtype, batch_tokens=batch_tokens, threads=threads).encode_document(TEXTS) for threads in (1, 2)
    )

    assert torch.get_num_threads() == 2
    assert one.data.tobytes() == two.data.tobytes()
    assert one.indices.tobytes() == two.indices.tobytes()


@pytest.mark.parametrize(
    ("activation", "last"),
    [("relu", lambda values: values), ("log1p_log1p_relu", lambda values: np.log1p(np.log1p(values)))],
)
def test_other_activations(folder, activation, last):
    """`relu` takes no logarithm, and `log1p_log1p_relu` takes it twice."""
    found = encoder(folder, activation=activation).encode_document(TEXTS)

    assert close(found, [reference(folder, text, last=last) for text in TEXTS])


@pytest.mark.parametrize(("dtype", "cosine"), [("bfloat16", 0.999), ("float16", 0.99999)])
def test_other_types_come_close(folder, dtype, cosine):
    """16 bits give nearly the same vectors, in float32."""
    exact, rough = (encoder(folder, dtype=one).encode_document(TEXTS).toarray() for one in ("float32", dtype))
    cosines = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)

    assert rough.dtype == np.float32
    assert cosines.min() > cosine
    assert not np.array_equal(exact, rough)


def test_queries_have_a_tower_of_their_own(folder, tmp_path):
    """Queries go through query_model, cut to query_length, and documents through model."""
    other = tiny_bert(tmp_path / "query", seed=7, form="transformers", safetensors=True)
    made = encoder(folder, query_model=str(other), query_length=8)

    assert close(made.encode_query(TEXTS), [reference(other, text, length=8) for text in TEXTS])
    assert close(made.encode_document(TEXTS), [reference(folder, text) for text in TEXTS])


def test_a_checkpoint_that_was_written_anew_is_read_anew(tmp_path):
    """After the weights in a folder have changed, encoding in the same session uses the new ones."""
    folder = tiny_bert(tmp_path / "model", seed=1, form="transformers", safetensors=True)
    first = encoder(folder).encode_document(TEXTS)
    tiny_bert(folder, seed=2, form="transformers", safetensors=True)
    second = encoder(folder).encode_document(TEXTS)

    assert not close(first, second.toarray(), 0.1)
    assert close(second, [reference(folder, text) for text in TEXTS])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_packed_layers_are_linear_layers(dtype):
    """Packed layers give the results of linear layers, in any shape."""
    kind = getattr(torch, dtype)
    if not packing_works("cpu", kind):
        pytest.skip("this torch, or this processor, has no packed layers")
    torch.manual_seed(0)
    layer, states = torch.nn.Linear(48, 33).to(kind), torch.randn(2, 5, 48).to(kind)
    whole = torch.nn.Sequential(torch.nn.Linear(48, 48), torch.nn.Sequential(torch.nn.GELU(), layer)).to(kind)
    with torch.inference_mode():
        expected = whole(states)
        pack(whole)

        assert isinstance(whole[1][1], PackedLinear)
        assert torch.allclose(whole(states), expected, atol=1e-5 if dtype == "float32" else 0.02)
        assert whole(states[:, :0]).shape == (2, 0, 33)


def test_weights_that_are_not_numbers_are_refused(tmp_path):
    """NaN in a logit is an error of one line."""
    folder = tiny_bert(tmp_path / "broken", form="transformers", safetensors=True)
    state = load_file(folder / "model.safetensors")
    state["cls.predictions.transform.dense.bias"][0] = torch.nan
    write_weights(folder, state, safetensors=True)

    with pytest.raises(LexbenchError, match=r"float32 gives weights that are not numbers; its weights are damaged"):
        encoder(folder).encode_document(["x"])
    with pytest.raises(LexbenchError, match=r"bfloat16 gives weights that are not numbers; try dtype=float32"):
        encoder(folder, dtype="bfloat16").encode_query(["x"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_maxima_are_largest_logits(dtype):
    """The largest logit above 0 has the same bits; without one, nothing above 0 comes out, and NaN stays."""
    logits = torch.randn(4, 9, 50).to(dtype) - 1
    logits[1, 3, 7], logits[1, 4, 8], logits[2], logits[3] = torch.inf, -torch.inf, -torch.inf, -1
    logits[3, 2, 0], logits[3, 5, 1] = torch.nan, -torch.tensor(torch.nan)
    expected, found = logits.amax(1).float(), _largest(logits)

    assert (expected[:2] > 0).sum() > 20
    assert torch.equal(found[:2].clamp(min=0), expected[:2].clamp(min=0))
    assert (found[2] <= 0).all()
    assert found[3].isnan().tolist() == [True, True] + 48 * [False]


def test_dense_vectors_are_refused(folder):
    """A model that gives texts most terms is refused, because it was not trained for sparse vectors."""
    with pytest.raises(LexbenchError, match=r"gives a text \d\d% of all terms.*dense_ok=True"):
        encoder(folder, dense_ok=False).encode_document(TEXTS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"positions": "texts"}, r"positions='texts'\): there is all, text"),
        ({"titles": "on"}, r"titles='on'\): there is off, pair, string"),
        ({"activation": "softmax"}, r"there is log1p_relu, log1p_log1p_relu, relu"),
        ({"dtype": "int4"}, r"there is float32, bfloat16, float16, int8"),
        ({"storage": "uint8"}, r"there is float32, float16"),
        ({"query_length": 2}, r"query_length=2\): give at least 8"),
        ({"document_length": 0}, r"document_length=0\): give at least 8"),
        ({"document_terms": -1}, r"document_terms=-1\): give a number above 0, or 0 for all"),
        ({"batch_tokens": -1}, r"batch_tokens=-1\): give a number above 0"),
        ({"device": "gpu"}, r"device='gpu'\): there is auto, cpu, cuda"),
        ({"device": "cpu,auto"}, r"device='cpu,auto'\)"),
        ({"query_revision": "main"}, r"query_model, which is not given"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    """An impossible value is refused with the possible ones."""
    with pytest.raises(CommandError, match=message):
        SparseMLM("somewhere", **settings)


def test_what_the_model_or_the_machine_cannot_do_is_refused(folder):
    """More tokens than positions, or a missing device, is an error of one line."""
    with pytest.raises(CommandError, match=r"document_length=65: .* takes at most 64 tokens; type document_length=64"):
        encoder(folder, document_length=65).encode_document(["x"])
    with pytest.raises(CannotStart, match=r"device=cuda:99: .* type device=auto"):
        encoder(folder, device="cuda:99").encode_document(["x"])


def test_nobody_elses_tokenizer_is_set_up_differently(folder):
    """A cutter is a copy: the original tokenizer does not start to cut."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    cutter(tokenizer, 10)

    assert len(tokenizer("x " * 30)["input_ids"]) == 32


_SLOW = """
import sys
from lexbench.cli import code
from lexbench.lexmae.recipe import Hardware
from lexbench.lexmae.training.processes import precision_note
from lexbench.rerankers.cross_encoder import CrossEncoder

for setting in ("dtype='bfloat16'", "dtype='float32'"):
    system = f"sparse_mlm(model={sys.argv[1]!r}, {setting}, device='cpu', dense_ok=True, query_length=9, document_length=9)@csr"
    code(["run", "dataset", sys.argv[2], "-r", system, "-m", "RR@10"])
print(CrossEncoder("x", dtype="float16", device="cpu").slow_note(), file=sys.stderr)
print(precision_note(Hardware(precision="bf16", device="cpu")), [precision_note(Hardware(device="cpu"))], file=sys.stderr)
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only on x86 can oneDNN be told to use fewer instructions")
def test_a_type_that_the_processor_emulates_is_called_slow_before_the_work(folder, tmp_path):
    """With AVX2 alone, runs, rerankers and training have a note on slow bfloat16 and float16, and none on float32."""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX2", "LEXBENCH_STORE": str(tmp_path)}
    command = [sys.executable, "-c", _SLOW, str(folder), str(Path(__file__).with_name("data") / "bread")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    notes = re.findall(
        r"(.*)products in (\w+) take [\d.]+ times as long as in float32 on this processor; type (.*)", done.stderr
    )

    assert len(notes) == 3
    assert "of float32's time" not in done.stderr
    assert notes[0][0].startswith("sparse_mlm on bread: ")
    assert [note[1:] for note in notes] == [
        ("bfloat16", 'dtype="float32"'),
        ("float16", 'dtype="float32"'),
        ("bfloat16", "--set hardware.precision=fp32 ['']"),
    ]
