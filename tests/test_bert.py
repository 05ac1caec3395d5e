"""BERT without transformers: the same bits and tokens for usual files, nothing for unusual ones."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers", reason="models are in the extra neural")

import torch
from checkpoints import colbert, cross_encoder, masked_lm
from packed_attention import looped
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel
from transformers.models.bert.modeling_bert import BertPredictionHeadTransform

import lexbench.catalog
from lexbench.arrays.vectors import stacked
from lexbench.models.architectures import load_masked_lm, masked_lm_files, with_own_body
from lexbench.models.native import bert
from lexbench.models.wordpiece import read_wordpiece
from lexbench.rerankers.cross_encoder import CrossEncoder
from lexbench.runner.systems import system
from lexbench.types import Document

NANO = Path(lexbench.catalog.__file__).parent / "lexmae_nano"
CONFIG = json.loads((NANO / "config.json").read_text())


def ids_and_mask(texts, length):
    """Return random ids (texts, length), and a mask that hides the end of all texts but the first."""
    ids = torch.randint(0, CONFIG["vocab_size"], (texts, length), generator=torch.Generator().manual_seed(length))
    lengths = torch.arange(length, 0, -max(1, length // texts))[:texts]
    return ids, torch.arange(length) < lengths[:, None]


@pytest.mark.parametrize(("dtype", "difference"), [(torch.float32, 0), (torch.bfloat16, 0.06)])
def test_states_are_those_of_transformers(dtype, difference):
    """Body and head have the bits of transformers' classes in float32, and round differently in bfloat16, with any padding."""
    own = load_masked_lm(masked_lm_files(NANO), dtype=dtype)
    body = BertModel.from_pretrained(NANO, dtype=dtype, add_pooling_layer=False, attn_implementation="sdpa").eval()
    transform = BertPredictionHeadTransform(body.config).to(dtype)
    transform.load_state_dict(own.transform.state_dict())

    assert isinstance(own.body, bert.Bert)
    with torch.inference_mode():
        for ids, mask in (ids_and_mask(1, 6), ids_and_mask(5, 40), ids_and_mask(2, 128)):
            for hidden in (None, mask):
                states = own.body(input_ids=ids, attention_mask=hidden).last_hidden_state
                expected = body(input_ids=ids, attention_mask=hidden).last_hidden_state
                assert torch.allclose(states, expected, rtol=0, atol=difference)
                assert torch.equal(own.transform(expected), transform(expected))


UNUSUAL = {"model_type": "roberta", "hidden_act": "relu", "position_embedding_type": "relative_key", "is_decoder": True}
UNUSUAL |= {"add_cross_attention": True, "num_attention_heads": 3, "layer_norm_eps": None, "tie_word_embeddings": "yes"}
UNUSUAL |= {"vocab_size": 0, "type_vocab_size": None, "num_hidden_layers": 2.0}


@pytest.mark.parametrize("setting", UNUSUAL)
def test_an_unusual_configuration_is_left_to_transformers(setting):
    """An unusual, missing or senseless setting gives None."""
    assert bert.configuration(CONFIG | {setting: UNUSUAL[setting]}) is None


def test_word_embeddings_are_tied_by_default():
    """The default of tie_word_embeddings is that of transformers."""
    silent = {name: value for name, value in CONFIG.items() if name != "tie_word_embeddings"}
    assert bert.configuration(silent).tie_word_embeddings


def test_the_tokenizer_is_the_one_that_transformers_makes():
    """The tokenizer is that of transformers, and so are the ids of special tokens."""
    own, theirs = read_wordpiece(NANO), AutoTokenizer.from_pretrained(NANO)
    assert own is not None
    theirs.backend_tokenizer.no_padding()
    theirs.backend_tokenizer.no_truncation()

    assert json.loads(own.backend_tokenizer.to_str()) == json.loads(theirs.backend_tokenizer.to_str())
    for name in ("pad_token_id", "cls_token_id", "sep_token_id", "sep_token", "truncation_side"):
        assert getattr(own, name) == getattr(theirs, name)
    assert own.get_vocab() == theirs.get_vocab()
    assert own.convert_ids_to_tokens(2000) == theirs.convert_ids_to_tokens(2000)


UNUSUAL_TOKENIZER = {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False, "cls_token": "[BOS]"}
UNUSUAL_TOKENIZER |= {"tokenizer_class": "PreTrainedTokenizerFast", "truncation_side": "left", "extra_special_tokens": ["[Q]"]}
UNUSUAL_FILES = [
    *(("tokenizer_config.json", {name: value}) for name, value in UNUSUAL_TOKENIZER.items()),
    ("tokenizer.json", {"pre_tokenizer": {"type": "Whitespace"}}),
    ("tokenizer.json", {"post_processor": None}),
    ("tokenizer.json", {"added_tokens": []}),
    ("special_tokens_map.json", {"cls_token": "[CLS]"}),
]


@pytest.mark.parametrize(("file", "changed"), UNUSUAL_FILES)
def test_an_unusual_tokenizer_is_left_to_transformers(tmp_path, file, changed):
    """Unusual tokenizer files give None."""
    shutil.copytree(NANO, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    path = tmp_path / "model" / file
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | changed))

    assert read_wordpiece(tmp_path / "model") is None


def test_queries_of_the_packaged_model_need_no_transformers(fast):
    """Encoding a query with lexmae_nano imports neither transformers nor torch's compiler."""
    program = "from lexbench.runner.systems import system; "
    program += "system('lexmae_nano@impact').retriever.encoder.encode_query(['open a file']); "
    command = [fast / "python", "-c", program + "import sys; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert {"torch", "transformers", "torch._dynamo"} & {*loaded} == {"torch"}


def test_classifiers_have_the_bits_of_transformers():
    """A reranker with our body gives the logits of transformers, padding and segments included."""
    model = BertForSequenceClassification(BertConfig(**CONFIG | {"num_labels": 1})).eval()
    own = with_own_body(model)
    ids = torch.tensor([[2, 7, 9, 3], [2, 8, 3, 0]])
    given = {"input_ids": ids, "attention_mask": (ids > 0).long(), "token_type_ids": torch.tensor([[0, 0, 1, 1], [0, 1, 1, 0]])}

    assert type(own) is bert.BertForSequenceClassification
    with torch.inference_mode():
        assert torch.equal(own(**given).logits, model(**given).logits)
        assert torch.equal(own.bert(**given).last_hidden_state[0], model.bert(**given).last_hidden_state[0])


@pytest.fixture
def packed(monkeypatch):
    """Compute without padding, as on a GPU; return the numbers of tokens that layers got."""
    seen = []
    forward = bert.Layer.forward
    monkeypatch.setattr(bert, "packed_attention_works", lambda *_: True)
    monkeypatch.setattr(bert, "attend_packed", looped)

    def counted(self, states, mask):
        seen.append(states.shape[:-1].numel())
        return forward(self, states, mask)

    monkeypatch.setattr(bert.Layer, "forward", counted)
    return seen


def test_without_padding_states_are_the_same(packed):
    """Layers compute real tokens only, and their states are those of a padded batch; padding has 0."""
    own = load_masked_lm(masked_lm_files(NANO), dtype=torch.float32).body
    ids, mask = ids_and_mask(5, 40)
    with torch.inference_mode():
        expected = own(input_ids=ids, attention_mask=mask).last_hidden_state
        assert set(packed) == {5 * 40}
        packed.clear()
        states = own(input_ids=ids, attention_mask=mask, padding=False).last_hidden_state

    assert set(packed) == {int(mask.sum())}
    assert torch.allclose(states[mask], expected[mask], atol=1e-5)
    assert not states[~mask].any()


TEXTS = ["apples", "apples and pears " * 5, "one two three", "pear " * 30]


def test_encoders_and_rerankers_compute_without_padding(packed, tmp_path):
    """Vectors and scores are those with padding. [MASK]s of late interaction, which no token sees, are computed as ever."""
    given = f'model="{masked_lm(tmp_path / "mlm")}", device="cpu", query_length=32, document_length=32'
    for rest in ("sparse_mlm({}, dense_ok=True)@csr", 'dense({}, pooling="mean")', 'dense({}, pooling="cls")'):
        encoder = system(rest.format(given)).retriever.encoder
        packed.clear()
        alone = [encoder.encode_document([text]) for text in TEXTS]
        tokens = sum(packed)
        together = encoder.encode_document(TEXTS)
        assert sum(packed) == 2 * tokens
        assert np.abs(together - stacked(alone)).max() < 1e-4

    given = f'model="{colbert(tmp_path / "colbert")}", device="cpu", query_length=32, document_length=32'
    encoder = system(f"late_interaction({given})").retriever.encoder
    packed.clear()
    queries = stacked([encoder.encode_query([text]) for text in TEXTS])
    assert np.abs(encoder.encode_query(TEXTS).values - queries.values).max() < 1e-4
    assert set(packed) == {32, 32 * len(TEXTS)}

    reranker = CrossEncoder(str(cross_encoder(tmp_path / "pairs")), device="cpu", length=64)
    documents = [Document("", text) for text in TEXTS]
    alone = [reranker.score([TEXTS[0]], [document])[0] for document in documents]
    assert np.abs(reranker.score([TEXTS[0]] * len(TEXTS), documents) - alone).max() < 1e-5


def test_packed_attention_is_tried_before_it_is_used():
    """It is for GPUs in half precision; a processor, or float32, has the padded way."""
    assert not bert.packed_attention_works(torch.device("cpu"), torch.bfloat16, 32)
    assert not bert.packed_attention_works(torch.device("cuda:0"), torch.float32, 32)
