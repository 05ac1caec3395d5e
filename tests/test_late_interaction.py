"""One vector per token: the vectors of ColBERT's code, and runs with them."""

import json
from itertools import pairwise
from string import punctuation

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from checkpoints import colbert
from tokenizers.pre_tokenizers import Metaspace

from lexbench import registry
from lexbench.errors import CommandError, InvalidFile
from lexbench.notation import Call
from lexbench.runner.systems import describe
from lexbench.types import Document

DIMENSIONS = 8
TEXTS = ["Sparse, dense; neural!", "", "the query of (the) document", "... ?!", "w " * 30]


def pylate(path, layers=({},), **settings):
    """Write the same model in PyLate's form, with markers in the tokenizer; return the path as text.

    *layers*: changed settings of each layer of token vectors; those behind the first have random weights.
    """
    whole = checkpoints.Path(colbert(path / "whole"))
    state = checkpoints.load_file(whole / "model.safetensors")
    folder = path / "pylate"
    body = checkpoints.bert_body(whole, state)
    tokenizer = transformers.AutoTokenizer.from_pretrained(whole)
    tokenizer.add_tokens(["[Q] ", "[D] "])
    torch.manual_seed(9)
    body.resize_token_embeddings(len(tokenizer))
    body.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    kinds = [("", "sentence_transformers.models.Transformer")]
    width, weight = 32, state["linear.weight"]
    for number, changes in enumerate(layers, 1):
        kinds.append((f"{number}_Dense", "pylate.models.Dense.Dense"))
        (folder / f"{number}_Dense").mkdir()
        tensors = {"linear.weight": weight}
        if changes.get("use_residual") and width != len(weight):
            tensors["residual.weight"] = torch.randn(weight.shape)
        checkpoints.save_file(tensors, folder / f"{number}_Dense" / "model.safetensors")
        dense = {"in_features": width, "out_features": len(weight), "bias": False, "activation_function": "torch.nn.Identity"}
        (folder / f"{number}_Dense" / "config.json").write_text(json.dumps(dense | changes))
        width, weight = len(weight), torch.randn(6, len(weight))
    listed = [{"idx": i, "name": str(i), "path": place, "type": kind} for i, (place, kind) in enumerate(kinds)]
    (folder / "modules.json").write_text(json.dumps(listed))
    about = {"query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 12, "document_length": 20} | settings
    (folder / "config_sentence_transformers.json").write_text(json.dumps(about))
    return str(folder)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Write a checkpoint."""
    return colbert(tmp_path_factory.mktemp("colbert"))


class Reference:
    """The vectors of one text by transformers, following stanford-futuredata/ColBERT step by step."""

    def __init__(self, folder):
        state = checkpoints.load_file(f"{folder}/model.safetensors")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.bert = checkpoints.bert_body(folder, state)
        self.linear = state["linear.weight"]

    def ids(self, text, marker, length):
        """Return token ids; ". " is a placeholder for the marker while the text is cut (tensorize)."""
        ids = self.tokenizer(". " + text, truncation=True, max_length=length)["input_ids"]
        ids[1] = self.tokenizer.convert_tokens_to_ids(marker)
        return ids

    def vectors(self, ids, attended):
        """Return vectors (tokens, 8) of length 1, float32."""
        with torch.no_grad():
            states = self.bert(torch.tensor([ids]), attention_mask=torch.tensor([attended])).last_hidden_state[0]
            return torch.nn.functional.normalize(states @ self.linear.T, dim=1).numpy()

    def query(self, text, length=32, *, attend=False):
        """Return the vectors of a query, filled up to *length* with [MASK]."""
        ids = self.ids(text, "[unused0]", length)
        more = length - len(ids)
        return self.vectors(ids + [self.tokenizer.mask_token_id] * more, [1] * len(ids) + [int(attend)] * more)

    def document(self, text, length=220, *, skip=True):
        """Return the vectors of a document, by default without punctuation."""
        ids = self.ids(text, "[unused1]", length)
        skipped = {self.tokenizer.encode(symbol, add_special_tokens=False)[0] for symbol in punctuation if skip}
        return self.vectors(ids, [1] * len(ids))[[one not in skipped for one in ids]]


def encoder(model, **settings):
    """Return the encoder by its name, with lengths that suit the tiny model."""
    given = {"model": model, "device": "cpu", "document_length": 24} | settings
    return registry.create("encoders", Call("late_interaction", (), tuple(given.items())))


def lists(vectors):
    """Return the vectors of each text."""
    return [vectors.values[start:stop] for start, stop in pairwise(vectors.offsets)]


def same(found, expected):
    """Check that vectors of texts equal others."""
    assert [len(one) for one in lists(found)] == [len(one) for one in expected]
    np.testing.assert_allclose(found.values, np.concatenate(expected), atol=2e-6)


@pytest.mark.parametrize("attend", [False, True])
def test_queries_are_padded_with_masks_that_have_vectors(model, attend):
    """All 32 positions of a query have a vector, with or without attention to [MASK]; attention changes them."""
    found = encoder(model, attend_to_masks=attend).encode_query(TEXTS)

    assert np.diff(found.offsets).tolist() == [32] * len(TEXTS)
    same(found, [Reference(model).query(text, attend=attend) for text in TEXTS])
    assert np.abs(found.values - encoder(model, attend_to_masks=not attend).encode_query(TEXTS).values).max() > 0.05


@pytest.mark.parametrize("skip", [True, False])
def test_documents_have_no_vectors_of_punctuation(model, skip):
    """Punctuation has no vectors; [CLS], marker and [SEP] have, also in a text of punctuation alone."""
    found = encoder(model, skip_punctuation=skip).encode_document(TEXTS)

    same(found, [Reference(model).document(text, 24, skip=skip) for text in TEXTS])
    assert np.diff(found.offsets).tolist() == ([6, 3, 8, 3, 24] if skip else [9, 3, 10, 8, 24])
    np.testing.assert_allclose(np.linalg.norm(found.values, axis=1), 1, atol=1e-6)


def test_lengths_count_the_marker(model):
    """Lengths include [CLS], marker and [SEP]; cut documents are counted; queries can stay unfilled."""
    made = encoder(model, document_length=8, query_length=8, mask_queries_to=0)
    tokens = made.tokenise_documents([Document("", text) for text in ("w w w w w", "w w w w w w")])

    assert np.diff(tokens.starts).tolist() == [8, 8]
    assert tokens.truncated == 1
    queries = {"w w w w w w": 8, "sparse dense": 5, "": 3}
    same(made.encode_query([*queries]), [Reference(model).query(*query) for query in queries.items()])


def test_titles_are_read_as_pairs(model):
    """With titles="pair" the separator is between title and body, and the marker before the title."""
    made = encoder(model, titles="pair")
    found = made.encode_tokens(made.tokenise_documents([Document("", "sparse dense", 7), Document("", "dense")]))
    reference = Reference(model)
    words = reference.tokenizer.convert_tokens_to_ids
    expected = [words(["[CLS]", "[unused1]", first, "[SEP]", "dense", "[SEP]"]) for first in ("sparse", "-")]

    kept = [[0, 1, 2, 3, 4, 5], [0, 1, 3, 4, 5]]  # the "-" of a document without a title is punctuation
    same(found, [reference.vectors(ids, [1] * 6)[rows] for ids, rows in zip(expected, kept, strict=True)])


def test_settings_of_the_folder_are_taken(tmp_path):
    """artifact.metadata states defaults, typed settings win, and both are in the key."""
    told = {"query_maxlen": 16, "doc_maxlen": 20, "attend_to_mask_tokens": True, "mask_punctuation": False}
    told |= {"similarity": "cosine"}
    folder = colbert(tmp_path / "told", **told, query_token_id="[unused1]", doc_token_id="[unused0]")
    made = registry.create("encoders", Call("late_interaction", (), (("model", folder), ("query_length", 10))))

    assert (made.query_length, made.mask_queries_to, made.document_length) == (10, 16, 20)
    assert (made.attend_to_masks, made.skip_punctuation) == (True, False)
    assert (made.query_marker, made.document_marker) == ("[unused1]", "[unused0]")
    assert describe(made)["settings"]["attend_to_masks"] is True
    assert "attend_to_masks" not in describe(made, index=True)["settings"]


@pytest.mark.parametrize("expansion", [True, False])
def test_folders_of_pylate_are_read(tmp_path, expansion):
    """A folder of PyLate states markers, lengths and filling, and gives the vectors of sentence-transformers."""
    peer = pytest.importorskip("sentence_transformers", minversion="6")
    folder = pylate(tmp_path, do_query_expansion=expansion, skiplist_words=list(punctuation))
    made = registry.create("encoders", Call("late_interaction", (), (("model", folder), ("device", "cpu"))))
    theirs = peer.MultiVectorEncoder(folder, device="cpu")

    assert (made.query_marker, made.document_marker, made.document_length) == ("[Q] ", "[D] ", 20)
    assert made.mask_queries_to == (12 if expansion else 0)
    same(made.encode_query(TEXTS[:4]), theirs.encode_query(TEXTS[:4]))
    same(made.encode_document(TEXTS[:4]), theirs.encode_document(TEXTS[:4]))


FEWER = tuple(token for token in checkpoints.COLBERT_VOCABULARY if token not in {"#", "@"})


@pytest.mark.parametrize("form", ["authors", "PyLate"])
def test_punctuation_that_the_vocabulary_lacks_skips_unknown_words(tmp_path, monkeypatch, form):
    """ColBERT and PyLate skip the token of each punctuation character, which is [UNK] for one that is not in the vocabulary."""
    monkeypatch.setattr(checkpoints, "COLBERT_VOCABULARY", FEWER)
    folder = colbert(tmp_path / "made", doc_maxlen=20) if form == "authors" else pylate(tmp_path, model_type="ColBERT")
    made = registry.create("encoders", Call("late_interaction", (), (("model", folder), ("device", "cpu"))))
    found = made.encode_document(["the # of a", "sparse \u20ac, dense", "w"])

    assert np.diff(found.offsets).tolist() == [6, 5, 4]  # [CLS], marker, words and [SEP]
    if form == "authors":
        same(found, [Reference(folder).document(text, 20) for text in ("the # of a", "sparse \u20ac, dense", "w")])


def test_colberts_authors_skip_punctuation_as_their_tokenizer_reads_it(tmp_path):
    """A tokenizer of sentencepiece reads a character alone as a word, here "_!", which is what ColBERT skips then."""
    folder = colbert(tmp_path / "made", doc_maxlen=20)
    words = [*checkpoints.SPECIAL, "[unused0]", "[unused1]", "_the", "_!", "!"]
    tokenizer = checkpoints.Tokenizer(checkpoints.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Metaspace(replacement="_")
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    tokenizer.post_processor = checkpoints.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    roles = {f"{role}_token": f"[{role.upper()}]" for role in ("pad", "unk", "cls", "sep", "mask")}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **roles).save_pretrained(folder)
    (checkpoints.Path(folder) / "vocab.txt").unlink()
    made = registry.create("encoders", Call("late_interaction", (), (("model", folder), ("device", "cpu"))))

    same(made.encode_document(["the !", "the ?"]), [Reference(folder).document(text, 20) for text in ("the !", "the ?")])


def test_layers_of_pylate_are_run(tmp_path):
    """Activations, residuals and several layers of a PyLate folder have the vectors of sentence-transformers."""
    peer = pytest.importorskip("sentence_transformers", minversion="6")
    layers = ({"activation_function": "torch.nn.modules.activation.Tanh", "use_residual": True}, {})
    folder = pylate(tmp_path, layers, model_type="ColBERT")
    made = registry.create("encoders", Call("late_interaction", (), (("model", folder), ("device", "cpu"))))

    assert made.head == "linear_tanh_residual_linear"
    same(made.encode_document(TEXTS[:4]), peer.MultiVectorEncoder(folder, device="cpu").encode_document(TEXTS[:4]))


ONES = torch.ones(DIMENSIONS)
PYLATE = {  # changed settings of a PyLate folder, and the message, "" for what changes nothing
    "unknown": ({"a_key_to_come": 3}, r"setting a_key_to_come \(3\), .*\[ColBERT\(FOLDER\)\]"),
    "cut": ({"truncate_dim": 4}, "PyLate cuts no vectors; remove truncate_dim"),
    "default": ({"default_prompt_name": "x"}, "default_prompt_name is 'x', and there is no such prompt"),
    "distance": ({"similarity_fn_name": "euclidean"}, "its similarity is euclidean .* this encoder does maxsim, cosine, dot"),
    "words": ({"do_query_expansion": "false"}, "do_query_expansion is 'false', which lexbench does not do"),
    "half": ({"document_length": 12.5}, "document_length is 12.5, which lexbench does not do"),
    "a list": ({"query_prefix": ["[Q] "]}, r"query_prefix is \['\[Q\] '\], which lexbench does not do"),
    "another class": ({"model_type": "SparseEncoder"}, "a SparseEncoder, and no ColBERT"),
    "an old name": ({"similarity_fn_name": "cosine", "truncate_dim": None, "default_prompt_name": "query"}, ""),
}
COLBERT = {  # the same for the file of a ColBERT's authors
    "similarity": ({"similarity": "l2"}, "similarity is 'l2', which lexbench does not do"),
    "interaction": ({"interaction": "flipr"}, "interaction is 'flipr', which lexbench does not do"),
    "pools": ({"pool_factor": 2}, "pool_factor is 2, which lexbench does not do"),
    "words": ({"mask_punctuation": "false"}, "mask_punctuation is 'false', which lexbench does not do"),
    "a text": ({"query_maxlen": "12"}, "query_maxlen is '12', which lexbench does not do"),
    "of training": ({"doc_maxlen": 20, "bsize": 32, "pool_factor": 1, "interaction": "colbert"}, ""),
}


@pytest.mark.parametrize(("form", "case"), [*(("PyLate", one) for one in PYLATE), *(("authors", one) for one in COLBERT)])
def test_other_settings_are_refused_by_name(tmp_path, form, case):
    """A key or value that has another effect is one line with its name."""
    change, message = (PYLATE if form == "PyLate" else COLBERT)[case]
    folder = pylate(tmp_path, **change) if form == "PyLate" else colbert(tmp_path, **change)
    if not message:
        assert np.diff(encoder(folder).encode_document(["w"]).offsets) == [4]
        return
    with pytest.raises(CommandError, match=message):
        encoder(folder)


def test_unsupported_models_are_refused(model, tmp_path):
    """The error for a missing projection, another similarity, a prompt or an own skiplist names the fault."""
    biased = str(checkpoints.rewrite(checkpoints.Path(colbert(tmp_path / "bias")), lambda state: state | {"linear.bias": ONES}))
    for error, message, folder, settings in (
        (InvalidFile, r'linear\.weight\), and here is "none"; give a ColBERT', colbert(tmp_path / "bare", dimensions=0), {}),
        (CommandError, r"no token '\[Q\]'; type query_marker=", model, {"query_marker": "[Q]"}),
        (InvalidFile, "it has linear.bias, and the layer of a ColBERT has none", biased, {}),
        (CommandError, "a prompt before texts", pylate(tmp_path / "prompts", prompts={"query": "find: "}), {}),
        (CommandError, "is not ASCII punctuation", pylate(tmp_path / "skips", skiplist_words=["the"]), {}),
        (CommandError, "activation_function is 'theirs.F'", pylate(tmp_path / "f", [{"activation_function": "theirs.F"}]), {}),
    ):
        with pytest.raises(error, match=message):
            encoder(folder, **settings).encode_query(["a"])
    for name in ("document_length", "mask_queries_to"):  # before any document is encoded
        with pytest.raises(CommandError, match=rf"{name}=65: .* takes at most 64 tokens"):
            encoder(model, **{name: 65}).encode_document(["a"])
