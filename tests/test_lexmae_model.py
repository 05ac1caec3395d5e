"""The masked autoencoder, compared with one written out in torch and transformers."""

import math

import checkpoints
import pytest
import torch
from tiny_recipes import pretraining
from torch.func import functional_call
from torch.nn.functional import cross_entropy, gelu, layer_norm, linear, softmax
from transformers import BertConfig
from transformers.models.bert.modeling_bert import BertLayer

from lexbench.lexmae.model import losses
from lexbench.lexmae.model.autoencoder import Decoder, MaskedAutoencoder, importance
from lexbench.lexmae.model.encoder import LexiconEncoder, Texts
from lexbench.lexmae.recipe.settings import Hardware
from lexbench.lexmae.training import trainer

ARCHITECTURES = ("bert", "distilbert", "modernbert", "roberta")
BOTTLENECKS = ("softmax", "saturated", "none")
LENGTHS = (9, 6, 4)
ROUNDING = {"rtol": 1e-4, "atol": 1e-5}


def autoencoder(architecture="bert", seed=0, **settings):
    """Return an autoencoder with random parameters and without dropout."""
    model = MaskedAutoencoder(checkpoints.random_model(architecture, seed=seed), pretraining(**settings)).eval()
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith("encoder."):
                norm = "LayerNorm.weight" in name
                parameter.normal_(1.0 if norm else 0.0, 0.2, generator=generator)
    return model


def batch(model):
    """Return three padded texts; first and last tokens are special, and a third of the others is masked."""
    places = torch.arange(max(LENGTHS))
    ends = torch.tensor(LENGTHS)[:, None]
    real, pools = places < ends, (places > 0) & (places < ends - 1)
    generator = torch.Generator().manual_seed(7)

    def ids(where, otherwise):
        drawn = torch.randint(10, 150, (len(LENGTHS), max(LENGTHS)), generator=generator)
        return torch.where(where, drawn, otherwise)

    found = {}
    for side, first in (("encoder", 1), ("decoder", 2)):
        found[f"{side}_ids"] = ids(real, model.config.pad_token_id)
        found[f"{side}_labels"] = ids(pools & (places % 3 == first), -100)
    return {**found, "real": real, "pools": pools}


def reference(model, encoder_ids, encoder_labels, decoder_ids, decoder_labels, real, pools):
    """Return both losses from *model*'s weights, without a gradient to the embeddings through the bottleneck."""
    bert, asked = model.encoder.language_model, model.recipe
    words = bert.get_input_embeddings().weight
    weights = dict(model.named_parameters())
    mask = real.long()
    logits = bert(input_ids=encoder_ids, attention_mask=mask).logits
    first = cross_entropy(logits.flatten(0, 1), encoder_labels.flatten())

    most = logits.masked_fill(~pools[:, :, None], -math.inf).max(1).values
    saturated = torch.log(1 + most.clamp(min=0))
    importances = {"softmax": softmax(most, 1), "saturated": saturated / (saturated.sum(1, keepdim=True) + 1e-4)}
    states = bert.base_model.embeddings(decoder_ids)
    if model.config.model_type == "modernbert":  # its word embeddings have no positions, which BERT's layers need
        states = states + weights["decoder.positions.weight"][torch.arange(decoder_ids.shape[1])]
    if asked.bottleneck in importances:
        stands_for = importances[asked.bottleneck] @ words.detach()
        states = torch.cat([stands_for[:, None], states[:, 1:]], 1)

    sizes = {"hidden_size": states.shape[-1], "num_attention_heads": bert.config.num_attention_heads, "intermediate_size": 64}
    blocked = torch.where(real, 0.0, -math.inf)[:, None, None, :]
    for number in range(asked.decoder_layers):
        layer = BertLayer(BertConfig(**sizes, attn_implementation="eager")).eval()
        names = {name: weights[f"decoder.layers.{number}.{name}"] for name in layer.state_dict()}
        layer_states = functional_call(layer, names, (states, blocked))
        states = layer_states[0] if isinstance(layer_states, tuple) else layer_states
    decoded = linear(head(states, weights, "decoder.transform"), words, weights["decoder.bias"])
    return first, cross_entropy(decoded.flatten(0, 1), decoder_labels.flatten())


def head(states, weights, name):
    """Return states after a BERT head's transform."""
    dense = gelu(linear(states, weights[f"{name}.dense.weight"], weights[f"{name}.dense.bias"]))
    return layer_norm(dense, dense.shape[-1:], weights[f"{name}.LayerNorm.weight"], weights[f"{name}.LayerNorm.bias"], 1e-12)


def gradients(model, loss):
    """Return the gradient of every parameter by name, or None."""
    names, parameters = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True), strict=True))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_every_setting_is_the_reference(architecture, bottleneck):
    """Losses, their sum, and every parameter's gradient are the reference's, with the bottleneck's cut to the embeddings.

    And every parameter there is has a gradient, so that training over several devices waits for none in vain.
    """
    model = autoencoder(architecture, bottleneck=bottleneck)
    inputs = batch(model)
    found = model(**inputs)
    first, second = reference(model, **inputs)

    torch.testing.assert_close(found["encoder_loss"], first, **ROUNDING)
    torch.testing.assert_close(found["decoder_loss"], second, **ROUNDING)
    torch.testing.assert_close(found["loss"], first + second, **ROUNDING)
    wanted = gradients(model, first + second)
    for name, gradient in gradients(model, found["loss"]).items():
        assert gradient is not None, name
        torch.testing.assert_close(gradient, wanted[name], **ROUNDING, msg=lambda told, name=name: f"{name}: {told}")


def test_word_embeddings_of_a_model_that_ties_nothing():
    """The bag of words uses the word embeddings, even if another matrix projects."""
    model = checkpoints.random_model("bert", tie_word_embeddings=False)
    projection = model.cls.predictions.decoder
    whole = MaskedAutoencoder(model, pretraining(bottleneck="saturated")).eval()
    states = torch.randn(1, 3, 32, generator=torch.Generator().manual_seed(0))
    most = projection(states).max(1).values
    weights = torch.log1p(torch.relu(most))
    wanted = weights / (weights.sum() + 1e-4) @ model.bert.embeddings.word_embeddings.weight
    torch.testing.assert_close(whole.bottleneck(states, torch.ones(1, 3, dtype=torch.bool)), wanted)
    assert not torch.equal(projection.weight, model.bert.embeddings.word_embeddings.weight)


@pytest.mark.parametrize("bottleneck", BOTTLENECKS)
def test_mixed_precision(bottleneck):
    """In bfloat16 losses are finite, float32 and within 1 %; gradients are finite."""
    model = autoencoder(bottleneck=bottleneck)
    inputs = batch(model)
    exact = model(**inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = model(**inputs)
    for name, loss in found.items():
        assert loss.dtype == torch.float32
        torch.testing.assert_close(loss, exact[name], rtol=0.01, atol=0.05 if name == "usage" else 0)  # a small difference
    assert all(gradient.isfinite().all() for gradient in gradients(model, found["loss"]).values())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_vectors(architecture):
    """A text's vector is log(1 + relu(largest logits)) over pooled positions, with transformers' logits."""
    model = checkpoints.random_model(architecture)
    encoder = LexiconEncoder(model)
    inputs = batch(encoder)
    found = encoder(Texts(inputs["encoder_ids"], inputs["real"], inputs["pools"]))
    logits = model(input_ids=inputs["encoder_ids"], attention_mask=inputs["real"].long()).logits
    most = torch.stack([row[pooled].max(0).values for row, pooled in zip(logits, inputs["pools"], strict=True)])

    torch.testing.assert_close(found, torch.log(1 + most.clamp(min=0)), rtol=1e-4, atol=1e-5)
    assert (found > 0).any(1).all()
    silent = encoder(Texts(inputs["encoder_ids"], inputs["real"], torch.zeros_like(inputs["pools"])))
    assert not silent.any()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_fresh_decoder(architecture):
    """A new decoder is initialised like BERT, with the encoder's width."""
    config = checkpoints.random_model(architecture).config
    for name, parameter in Decoder(config, 3).named_parameters():
        if "LayerNorm.weight" in name:
            assert (parameter == 1).all(), name
        elif name.endswith("bias"):
            assert not parameter.any(), name
        else:  # at least 1024 numbers: their deviation varies by .02 / (2 x 1024)^(1/2) = .00044
            assert parameter.std().item() == pytest.approx(0.02, abs=5 * 0.00044), name
            assert 32 in parameter.shape
    assert len(Decoder(config, 3).layers) == 3


def test_dropout_of_a_recipe_is_that_of_modernberts_attention():
    """Its attention keeps the share as a number, so two passes differ although no module of dropout drops anything."""
    model = MaskedAutoencoder(checkpoints.random_model("modernbert"), settings := pretraining(dropout=0.5)).train()
    trainer.prepare(model, settings, Hardware(device="cpu"))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            assert module.p == 0.5
            module.p = 0.0
    inputs = batch(model)
    first, second = (model.encoder.hidden(inputs["encoder_ids"], inputs["real"]) for _ in range(2))
    assert not torch.allclose(first, second, atol=0.01)


def test_without_a_decoder_it_is_masked_language_modelling():
    """Without decoder layers only the encoder's loss and parameters remain."""
    model = autoencoder(decoder_layers=0)
    inputs = batch(model)
    found, (first, _) = model(**inputs), reference(autoencoder(), **inputs)
    assert found.keys() == {"loss", "encoder_loss"}
    torch.testing.assert_close(found["loss"], first, **ROUNDING)
    assert all(name.startswith("encoder.") for name, _ in model.named_parameters())


def test_usage_is_the_cost_of_another_texts_bottleneck():
    """Usage is the decoder's loss with the next text's bottleneck minus that with its own."""
    model = autoencoder()
    inputs = batch(model)
    found = model(**inputs)["usage"]
    with torch.no_grad():
        hidden = model.encoder.hidden(inputs["encoder_ids"], inputs["real"])
        bags = model.bottleneck(model.encoder.transformed(hidden), inputs["pools"])
        ids, labels, real = (inputs[name][:2] for name in ("decoder_ids", "decoder_labels", "real"))
        decoded = [model.decode(bag, ids, real) for bag in (bags[[1, 0]], bags[[0, 1]])]
        both = [losses.masked_language_modelling(*one, labels) for one in decoded]
    torch.testing.assert_close(found, both[0] - both[1], **ROUNDING)
    assert "usage" not in autoencoder(bottleneck="none")(**inputs)


def test_importance_without_positive_logits():
    """If no logit is positive, saturated importances are 0 and have no gradient."""
    logits = torch.tensor([[-1.0, -1.0, -2.0]], requires_grad=True)
    found = importance(logits, "saturated")
    found.sum().backward()
    assert not found.any()
    assert not logits.grad.any()


@pytest.mark.parametrize("normalisation", ["softmax", "saturated"])
def test_importances_are_not_of_half_precision(normalisation):
    """30,000 equal importances add up to 1, which they would not in half precision."""
    logits = torch.ones(1, 30_000, dtype=torch.float16)
    found = importance(logits, normalisation)
    assert found.dtype == torch.float32
    assert float(found.sum()) == pytest.approx(1, abs=1e-5)
