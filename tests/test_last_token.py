"""`dense` with causal language models, whose last token is the vector: against transformers and sentence-transformers."""

import checkpoints
import numpy as np
import pytest
import torch
import transformers

from lexbench.encoders.dense import Dense
from lexbench.encoders.late_interaction import LateInteraction
from lexbench.errors import CommandError
from lexbench.types import Document

ARCHITECTURES = ("llama", "mistral", "qwen2", "qwen3")
TEXTS = ["sparse neural search", "the weight of a term is lexical and dense a b c w1 w2 w3", "query", "w5 w6 unheard of w7"]


def dense(folder, **settings):
    """Return an encoder whose lengths a tiny model has."""
    return Dense(str(folder), **{"query_length": 64, "document_length": 64, "device": "cpu", "pooling": "last", **settings})


def last_states(folder, texts, side, ending=""):
    """Return the last state of each text (texts, width) as transformers computes it in one batch that is padded on a *side*."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, pad_token="</s>", padding_side=side)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    rows = tokenizer([text + ending for text in texts], padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(input_ids=rows["input_ids"], attention_mask=rows["attention_mask"]).last_hidden_state
    last = rows["attention_mask"].sum(1) - 1 if side == "right" else torch.full((len(texts),), -1)
    return states[torch.arange(len(texts)), last].numpy()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors_are_those_of_transformers_however_it_pads(tmp_path, architecture):
    """The last token's state is what transformers gives, padded left or right; batches here change nothing."""
    folder = checkpoints.causal_lm(tmp_path / architecture, architecture)
    made = dense(folder)

    for side in ("left", "right"):
        np.testing.assert_allclose(made.encode_query(TEXTS), last_states(folder, TEXTS, side), rtol=1e-4, atol=1e-5)
    one_by_one = dense(folder, batch_tokens=1).encode_document(TEXTS)
    np.testing.assert_allclose(made.encode_document(TEXTS), one_by_one, rtol=1e-4, atol=1e-5)


def test_an_end_token_is_read_and_pooled(tmp_path):
    """With *end_token* every text ends with </s>, a cut one too, and the tokenizer without one says so (RepLLaMA)."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    made = dense(folder, end_token=True, query_prompt="query w1 ")
    prompted = [f"query w1 {text}" for text in TEXTS]
    np.testing.assert_allclose(made.encode_query(TEXTS), last_states(folder, prompted, "left", " </s>"), rtol=1e-4, atol=1e-5)
    long = " ".join(f"w{i}" for i in range(50))
    tokens = dense(folder, end_token=True, document_length=8).tokenise_documents([Document("d", long), Document("e", "w1")])
    ends = tokens.ids[tokens.starts[1:] - 1].tolist()
    assert (np.diff(tokens.starts).tolist(), tokens.truncated, ends) == ([8, 3], 1, [1, 1])  # <s>, words, and </s>, which is 1

    ended = [f"{text} </s>" for text in ["", *TEXTS]]  # a second one is not put behind it
    assert np.array_equal(dense(folder, end_token=True).encode_query(ended), dense(folder).encode_query(ended))
    assert dense(folder, end_token=True, special_tokens=False).encode_query(["", "w1 </s>", ""]).any(axis=1).all()
    assert not dense(folder, special_tokens=False).encode_query([""]).any()

    checkpoints.reconfigure(folder, "tokenizer_config.json", eos_token=None)
    with pytest.raises(CommandError, match=r"its tokenizer has no token that ends a text; leave end_token=True out"):
        dense(folder, end_token=True).encode_query(TEXTS)


def test_a_folder_of_sentence_transformers_says_all_of_it(tmp_path):
    """Pooling, prompts and cosine of a folder of Qwen3-Embedding's kind are read, and give sentence-transformers' vectors."""
    library = pytest.importorskip("sentence_transformers", reason="the reference is sentence-transformers")
    body = checkpoints.causal_lm(tmp_path / "body", "qwen3")
    checkpoints.reconfigure(body, "tokenizer_config.json", pad_token="</s>", padding_side="left", model_max_length=32)
    modules = library.sentence_transformer.modules
    parts = [modules.Transformer(str(body)), modules.Pooling(32, pooling_mode="lasttoken"), modules.Normalize()]
    theirs = library.SentenceTransformer(
        modules=parts, device="cpu", prompts={"query": "query w1 w2 ", "document": ""}, similarity_fn_name="cosine"
    )
    theirs.save(str(tmp_path / "saved"))
    stated = Dense.checkpoint_defaults({"model": str(tmp_path / "saved")})
    ours = Dense(str(tmp_path / "saved"), device="cpu", **stated)

    assert stated["pooling"] == "last"
    np.testing.assert_allclose(ours.encode_query(TEXTS), theirs.encode_query(TEXTS), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ours.encode_document(TEXTS), theirs.encode_document(TEXTS), rtol=1e-4, atol=1e-5)

    pooling = tmp_path / "saved" / "1_Pooling"
    checkpoints.reconfigure(pooling, pooling_mode="mean", include_prompt=False)
    with pytest.raises(CommandError, match=r"1_Pooling: it leaves prompts out of the mean \(include_prompt\)"):
        Dense.checkpoint_defaults({"model": str(tmp_path / "saved")})


def test_what_such_models_cannot_do_is_said(tmp_path):
    """Titles apart need a separator, skipping a mean, code of a model's own is not run; the mean is of all tokens."""
    folder = checkpoints.causal_lm(tmp_path / "llama")
    with pytest.raises(CommandError, match=r"dense\(titles='pair'\): .* has no token that separates texts; leave it out"):
        dense(folder, titles="pair").encode_document(TEXTS)
    with pytest.raises(CommandError, match=r"dense\(skip=2\) leaves out positions of the mean"):
        dense(folder, skip=2)
    for settings in ({"is_causal": False}, {"auto_map": {"AutoModel": "modeling.Model"}}):
        other = checkpoints.reconfigure(checkpoints.causal_lm(tmp_path / next(iter(settings))), **settings)
        with pytest.raises(CommandError, match=r"it is run by code of its own .* type endpoint\(url=…, model=…\)$"):
            dense(other).identity()
    with pytest.raises(CommandError, match=r"model_type 'llama' is not supported; there is: bert"):
        LateInteraction.checkpoint_files(folder)

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder).eval()
    with torch.no_grad():
        means = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0].mean(0).numpy() for text in TEXTS]
    np.testing.assert_allclose(dense(folder, pooling="mean").encode_document(TEXTS), means, rtol=1e-4, atol=1e-5)
