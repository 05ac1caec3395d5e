"""ModernBERT without transformers: the same states up to rounding, in every dtype, for short, long and padded texts."""

import checkpoints
import pytest
import torch
import transformers
from packed_attention import looped

from lexbench.models.architectures import body_files, load_body, load_masked_lm, masked_lm_files, with_own_body
from lexbench.models.int8 import Int8Linear, int8_works
from lexbench.models.native import _attention, modernbert
from lexbench.models.transformer_model import pack

WINDOW = 16  # of local attention, so that short texts have tokens outside it
BIASED = dict.fromkeys(("norm_bias", "mlp_bias", "attention_bias", "classifier_bias"), True) | {"tie_word_embeddings": False}
OLD = {
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 50_000.0,
    "local_rope_theta": 5000.0,
}  # names before transformers 5


def config(**settings):
    """Return the configuration of a small model."""
    sizes = {"vocab_size": 200, "num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 48}
    sizes |= {"max_position_embeddings": 512, "local_attention": WINDOW, **dict.fromkeys(_ROLES, 1)}
    return transformers.ModernBertConfig(**sizes | settings)


_ROLES = [f"{role}_token_id" for role in ("pad", "cls", "sep", "bos", "eos")]


def relative(found, expected):
    """Return the largest difference, relative to the largest number."""
    return float((found - expected).abs().max() / expected.abs().max())


def ids_and_masks(length):
    """Yield ids (3, length), once with a mask that hides the ends of two texts and once without."""
    ids = torch.randint(2, 200, (3, length), generator=torch.Generator().manual_seed(length))
    yield ids, None
    yield ids, torch.arange(length) < torch.tensor([length, max(1, length // 3), max(1, length - 1)])[:, None]


@pytest.fixture(scope="module", params=[{}, BIASED, OLD], ids=["plain", "biased", "old_names"])
def both(request, tmp_path_factory):
    """Return our masked-language model in float32, and that of transformers."""
    folder = checkpoints.masked_lm(
        tmp_path_factory.mktemp("models"), "modernbert", num_hidden_layers=4, local_attention=WINDOW,
        max_position_embeddings=512, **request.param,
    )  # fmt: skip
    theirs = transformers.AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="sdpa").eval()
    if request.param is OLD:
        checkpoints.reconfigure(folder, layer_types=None, rope_parameters=None, **OLD)
    return folder, load_masked_lm(masked_lm_files(folder), dtype=torch.float32), theirs


@pytest.mark.parametrize("length", [1, 8, 9, 10, 24, 25, 50, 97, 256])
def test_states_are_those_of_transformers(both, length):
    """Body and head have the states of transformers' classes: bit for bit, until windows of long texts are in blocks."""
    _, own, theirs = both

    assert isinstance(own.body, modernbert.ModernBert)
    with torch.inference_mode():
        for ids, mask in ids_and_masks(length):
            states = own.body(input_ids=ids, attention_mask=mask).last_hidden_state
            expected = theirs.model(input_ids=ids, attention_mask=None if mask is None else mask.long()).last_hidden_state
            real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
            if mask is None and length <= 3 * WINDOW // 2:
                assert torch.equal(states, expected)
            # Windows in blocks, and on some processors products without padding, add numbers in another order.
            assert relative(states[real], expected[real]) < 1e-6
            assert not states[~real].any()
            assert torch.equal(own.transform(expected), theirs.head(expected))


def test_states_of_padding_are_computed_on_request(both):
    """Unseen positions, e.g. [MASK] in the queries of ColBERT, see the real tokens; their states are those of transformers.

    Those of long texts see no token in local layers.
    """
    folder, own, theirs = both
    rough = load_masked_lm(masked_lm_files(folder), dtype=torch.bfloat16)
    with torch.inference_mode():
        for length in (9, 24, 97):
            ids, mask = list(ids_and_masks(length))[1]
            expected = theirs.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state
            for model, bound in ((own, 1e-6), (rough, 0.05)):
                states = model.body(input_ids=ids, attention_mask=mask, padding=True).last_hidden_state
                assert relative(states, expected) < bound


def test_states_without_padding_are_the_same(both, monkeypatch):
    """What a GPU computes without padding, also in the window of local layers, are the states with it; padding has 0."""
    _, own, _ = both
    given = [*ids_and_masks(50), *ids_and_masks(9)]
    with torch.inference_mode():
        expected = [own.body(ids, mask).last_hidden_state for ids, mask in given]
        monkeypatch.setattr(_attention, "packed_attention_works", lambda *_: True)
        monkeypatch.setattr(_attention, "attend_packed", looped)
        found = [own.body(ids, mask).last_hidden_state for ids, mask in given]

    assert all(relative(one, other) < 1e-5 for one, other in zip(found, expected, strict=True))
    assert not found[1][~given[1][1]].any()


def test_bfloat16_is_near(both):
    """States in bfloat16 are near those of transformers in bfloat16, for windows in blocks too."""
    folder, _, theirs = both
    rough, theirs = load_masked_lm(masked_lm_files(folder), dtype=torch.bfloat16), theirs.to(torch.bfloat16)
    with torch.inference_mode():
        for length in (9, 20, 97):
            for ids, mask in ids_and_masks(length):
                states = rough.body(input_ids=ids, attention_mask=mask).last_hidden_state
                expected = theirs.model(input_ids=ids, attention_mask=None if mask is None else mask.long()).last_hidden_state
                real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask
                assert torch.allclose(states[real].float(), expected[real].float(), rtol=0, atol=0.15)
    theirs.float()


def test_layers_in_int8_do_what_torchs_steps_do(both):
    """A layer in int8 gives the result of torch's steps with products in int8."""
    if not int8_works():
        pytest.skip("this torch has no int8 products for this processor")
    folder, _, _ = both
    steps, fused = (load_masked_lm(masked_lm_files(folder), dtype=torch.float32).body for _ in range(2))
    with torch.inference_mode():
        pack(steps, Int8Linear)
        for number, layer in enumerate(fused.layers):
            fused.layers[number] = layer.in_int8()
        for length in (9, 70):
            for ids, mask in ids_and_masks(length):
                found, expected = (body(ids, mask).last_hidden_state for body in (fused, steps))
                assert torch.nn.functional.cosine_similarity(found, expected, dim=-1)[found.any(-1)].min() > 0.99


UNUSUAL = {"hidden_activation": "silu", "classifier_activation": "silu", "num_attention_heads": 3, "norm_eps": None}
UNUSUAL |= {"model_type": "bert", "layer_types": ["full_attention", "linear"] * 2, "mlp_bias": "yes", "sliding_window": 5}
UNUSUAL |= {"rope_scaling": {"rope_type": "linear", "factor": 2.0}, "vocab_size": 0, "quantization_config": {"bits": 4}}
UNUSUAL |= {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1.0}}}


@pytest.mark.parametrize("setting", UNUSUAL)
def test_an_unusual_configuration_is_left_to_transformers(setting):
    """An unusual, missing or senseless setting gives None."""
    usual = config().to_dict()

    assert modernbert.configuration(usual) is not None
    assert modernbert.configuration(usual | {setting: UNUSUAL[setting]}) is None


def test_bodies_are_ours(tmp_path):
    """A folder with a body alone, as those of dense models, is computed by our class too."""
    transformers.ModernBertModel(config()).save_pretrained(tmp_path)
    checkpoints.write_tokenizer(tmp_path, "modernbert")

    assert isinstance(load_body(body_files(tmp_path), dtype=torch.float32)[0], modernbert.ModernBert)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_classifiers_have_the_logits_of_transformers(pooling):
    """A reranker with our body gives the logits of transformers, padding included."""
    model = transformers.ModernBertForSequenceClassification(config(num_labels=1, classifier_pooling=pooling)).eval()
    own = with_own_body(model)

    assert type(own) is modernbert.ModernBertForSequenceClassification
    with torch.inference_mode():
        for ids, mask in ids_and_masks(30):
            given = {"input_ids": ids} | ({} if mask is None else {"attention_mask": mask.long()})
            assert torch.allclose(own(**given).logits, model(**given).logits, rtol=0, atol=2e-6)


@pytest.mark.slow
def test_other_runtimes_get_a_program_for_texts_of_any_length(both):
    """The program that torch records for OpenVINO and ONNX Runtime gives our states for texts of any length."""
    _, own, _ = both
    (ids, _), (_, mask) = ids_and_masks(7)
    axes = {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO}
    with torch.no_grad():
        program = torch.export.export(own.body, (ids, mask.long()), dynamic_shapes=[axes] * 2, strict=False).module()
        for length in (3, 20, 97):
            (ids, _), (_, mask) = ids_and_masks(length)
            found, expected = (body(ids, mask.long()).last_hidden_state for body in (program, own.body))
            assert relative(found[mask], expected[mask]) < 5e-6
