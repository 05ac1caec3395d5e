"""How logits become weights: shifted, cut per position, folded, with prompts that do not pool; against the published formula.

SPARSEUP v1 (huggingface.co/Linkup-Platform/linkup-sparseup-embed-v1) states these settings in config.json.
"""

import re
import shutil

import checkpoints
import numpy as np
import pytest
import torch
import transformers
from sparse_models import FOLD, sparseup

from lexbench import registry
from lexbench.errors import CommandError, InvalidFile
from lexbench.models.int8 import int8_works
from lexbench.notation import Call

TEXTS = [
    "sparse neural retrieval",
    "",
    "x",
    "lexical 🔎 search [SEP] 2026 Ünïcode 検索",
    "w1 w2 w3 " * 30,
    "the term weight of a query",
]

INT8 = pytest.mark.skipif(not int8_works(), reason="this torch has no int8 products for this processor")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a checkpoint."""
    return sparseup(tmp_path_factory.mktemp("models") / "sparseup")


def encoder(folder, name="sparse_mlm", **settings):
    """Return the encoder of a folder with the settings that it states."""
    given = {"model": str(folder), "query_length": 32, "document_length": 48, "device": "cpu", "dense_ok": True, **settings}
    return registry.create("encoders", Call(name, kwargs=tuple(given.items())))


def reference(folder, text, prompt, length, *, shift=1.5, most=4, fold=np.maximum):
    """Return the vector of a text by transformers and the formula on the model's card."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder, config=config, trust_remote_code=False).eval()
    tokens = tokenizer(prompt + text, truncation=True, max_length=length, return_tensors="pt")
    with torch.no_grad():
        logits = model(**{name: tokens[name] for name in ("input_ids", "attention_mask")}).logits[0].numpy()
    own = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    logits = np.delete(logits, range(1, 1 + own), axis=0)  # [CLS], the prompt, the text, [SEP]
    weights = np.log1p(np.maximum(logits - shift, 0))
    if most:
        weights[weights < np.sort(weights, axis=1)[:, [-most]]] = 0
    pooled, folded = weights.max(axis=0), np.zeros(weights.shape[1], np.float32)
    fold.at(folded, FOLD if fold is not None else np.arange(len(pooled)), pooled)
    return folded


@pytest.mark.parametrize("prefix", ["", "model."])
def test_a_checkpoint_like_sparseup_is_encoded_by_its_formula(tmp_path, prefix):
    """Vectors are those of the published formula, whatever prefix a class has given to the names of tensors; no code runs."""
    plain, folder = (sparseup(tmp_path / name, one) for name, one in (("plain", ""), ("wrapped", prefix)))
    made = encoder(folder)

    found, queries = made.encode_document(TEXTS), made.encode_query(TEXTS)
    assert np.allclose(found.toarray(), [reference(plain, text, "[D] ", 48) for text in TEXTS], rtol=0, atol=1e-5)
    assert np.allclose(queries.toarray(), [reference(plain, text, "[Q] ", 32) for text in TEXTS], rtol=0, atol=1e-5)
    assert found.has_sorted_indices
    assert 0 < found.nnz / len(TEXTS) < 48 * 4
    assert not found[:, 100:150].nnz
    assert (made.logit_shift, made.position_top_k, made.vocab_fold, made.pool_prompts) == (1.5, 4, "max", False)
    assert made.notes()[-1] == f"{folder} brings code (auto_map); lexbench runs none of it, and follows config.json"


@pytest.mark.parametrize(("shift", "most", "fold"), [(0.0, 7, "max"), (2.0, 0, "sum"), (0.5, 1, "sum"), (0.0, 0, "max")])
def test_each_rule_has_its_effect(folder, shift, most, fold):
    """Each setting can be typed: with another shift, number of terms per position, and way of folding."""
    made = encoder(folder, logit_shift=shift, position_top_k=most, vocab_fold=fold)
    join = {"max": np.maximum, "sum": np.add}[fold]
    expected = [reference(folder, text, "[D] ", 48, shift=shift, most=most, fold=join) for text in TEXTS]

    assert np.allclose(made.encode_document(TEXTS).toarray(), expected, rtol=0, atol=1e-5)
    names = {"logit_shift": shift, "position_top_k": most, "vocab_fold": fold}
    stated = {"logit_shift": 1.5, "position_top_k": 4, "vocab_fold": "max"}
    different = [note for note in made.notes() if "was asked for" in note]
    assert len(different) == sum(names[name] != stated[name] for name in names)


def test_prompts_pool_unless_told_otherwise(folder):
    """A prompt that pools gives its terms to every text; one that does not is attended to all the same."""
    silent, pooling, none = (
        encoder(folder, **one) for one in ({}, {"pool_prompts": True}, {"document_prompt": "", "pool_prompts": True})
    )
    vectors = [made.encode_document(TEXTS).toarray() for made in (silent, pooling, none)]

    assert (vectors[1] >= vectors[0] - 1e-6).all()
    assert not np.allclose(vectors[0], vectors[1], atol=0.01)
    assert not np.allclose(vectors[0], vectors[2], atol=0.01)


@pytest.mark.parametrize("dtype", ["bfloat16", pytest.param("int8", marks=INT8)])
def test_fewer_bits_come_close(folder, dtype):
    """The largest terms of each position are found in other dtypes too."""
    exact, rough = (encoder(folder, dtype=one, logit_shift=0.0).encode_document(TEXTS).toarray() for one in ("float32", dtype))
    cosines = (exact * rough).sum(1) / np.linalg.norm(exact, axis=1) / np.linalg.norm(rough, axis=1)

    assert cosines.min() > 0.85  # random weights: near the bound of each position, other terms are the largest


REFUSED = {
    "another fold": ({"vocab_fold": "stems"}, CommandError, "says vocab_fold='stems'; lexbench knows 'case_space', 'none'"),
    "a wrong type": ({"logit_shift": "much"}, InvalidFile, "has a logit_shift, position_top_k or prefix of a wrong type"),
    "no table": ({"table": ""}, InvalidFile, "config.json says vocab_fold, and no tensor (200,) of whole numbers is its table"),
    "an unknown setting": ({"temperature": 2}, CommandError, "does not know: temperature; type unknown_ok=True to ignore"),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_lexbench_does_not_know_is_refused_by_name(tmp_path, fault):
    """Another value, a missing table and an unknown setting of foreign code are errors of one line."""
    changes, error, message = REFUSED[fault]
    folder = sparseup(tmp_path / "model", **changes)

    def use():
        made = encoder(folder)
        return made.identity(), made.encode_document(["x"])

    with pytest.raises(error, match=re.escape(message)):
        use()


def test_unknown_tensors_are_refused_by_name(folder, tmp_path):
    """A tensor that the architecture does not have is named in the error message."""
    other = shutil.copytree(folder, tmp_path / "model")
    checkpoints.rewrite(other, lambda state: state | {"gate.weight": torch.ones(3)})

    with pytest.raises(InvalidFile, match=r"1 unexpected \(gate.weight\)"):
        encoder(other).encode_document(["x"])


def test_unknown_settings_can_be_accepted(tmp_path):
    """With unknown_ok=True a folder is run by the settings that lexbench knows, and a note names the others."""
    folder = sparseup(tmp_path / "model", temperature=2)
    made = encoder(folder, unknown_ok=True)

    assert made.identity() == encoder(folder, unknown_ok=True).identity()
    assert made.notes()[-1].endswith("follows config.json, and ignores temperature")


def test_a_model_without_a_table_folds_nothing(tmp_path):
    """Folding without a table is refused, and says what to type."""
    folder = checkpoints.masked_lm(tmp_path / "bert")

    with pytest.raises(CommandError, match=r'the model has no table of folded terms; type vocab_fold="none"'):
        encoder(folder, vocab_fold="max").encode_document(["x"])


def test_prompts_of_sentence_transformers_are_put_before_texts(tmp_path):
    """A SparseEncoder's prompts are put before texts, and pool, as sentence-transformers does it."""
    sparse_encoder = pytest.importorskip("sentence_transformers").SparseEncoder
    folder = checkpoints.masked_lm(tmp_path / "splade", form="sparse_encoder")
    checkpoints.reconfigure(folder, "config_sentence_transformers.json", prompts={"query": "the query ", "document": "search "})
    theirs, ours = sparse_encoder(str(folder), device="cpu"), encoder(folder)
    texts = [text for text in TEXTS if text and len(text) < 60]

    assert np.allclose(ours.encode_document(texts).toarray(), theirs.encode_document(texts).to_dense().numpy(), atol=1e-4)
    assert np.allclose(ours.encode_query(texts).toarray(), theirs.encode_query(texts).to_dense().numpy(), atol=1e-4)
