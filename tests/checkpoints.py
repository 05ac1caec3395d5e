"""Writes tiny checkpoints with random weights, in every form that lexbench reads, for tests."""

import json
import os
from pathlib import Path
from string import punctuation

import pytest

pytest.importorskip("transformers", reason="models are in the extra neural")  # skips the file of tests that imports this one

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = tuple("abcdefghijklmnopqrstuvwxyz0123456789")
WORDS = tuple("the of and in is sparse dense retrieval neural search term weight model lexical query document".split())  # noqa: SIM905 - reads better
ENDINGS = tuple(f"##{letter}" for letter in LETTERS)
VOCABULARY = (*SPECIAL, *WORDS, *LETTERS, *ENDINGS, *(f"w{i}" for i in range(107)))  # 200 tokens
COLBERT_VOCABULARY = (*SPECIAL, "[unused0]", "[unused1]", *WORDS, *LETTERS, *punctuation, *ENDINGS)
SIZES = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 32, "intermediate_size": 64}
ARCHITECTURES = ("bert", "distilbert", "roberta", "modernbert")
CLASSES = {"bert": "BertForMaskedLM", "distilbert": "DistilBertForMaskedLM", "roberta": "RobertaForMaskedLM"}
CLASSES["modernbert"] = "ModernBertForMaskedLM"


def masked_lm(path, architecture="bert", *, form="transformers", seed=0, vocabulary=None, safetensors=True, **config) -> Path:
    """Write a model of one of ARCHITECTURES, with 2 layers, width 32 and random weights, into *path*; return the path.

    *form*: "transformers" by save_pretrained; "fine_tuned" and "pretrained" by LexMAE's authors; "sparse_encoder" by
    sentence-transformers 6, "sparse_encoder_5" by 5.0 to 5.3. *vocabulary*: the WordPiece tokens with the five special ones.
    *safetensors*: False writes pytorch_model.bin. *config*: other settings of the model's configuration.
    """
    path = Path(path)
    path.mkdir(parents=True, exist_ok=True)
    model = random_model(architecture, seed=seed, vocabulary=vocabulary, **config)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    saved = model.config.to_dict() | {"architectures": [CLASSES[architecture]]}
    if form in {"fine_tuned", "pretrained"}:
        state["bert.embeddings.position_ids"] = torch.arange(model.config.max_position_embeddings)[None]
        saved |= _lexmae(form, state, config)
    elif form.startswith("sparse_encoder"):
        _modules(path, old=form.endswith("_5"))
    (path / "config.json").write_text(json.dumps(saved))
    write_weights(path, state, safetensors=safetensors)
    write_tokenizer(path, architecture, vocabulary)
    return path


def cross_encoder(path, architecture="bert", *, labels=1, seed=0, vocabulary=None, **config) -> Path:
    """Write a tiny *ForSequenceClassification with random weights into *path*, and return that."""
    config = _configuration(architecture, vocabulary, num_labels=labels, **config)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.3, generator=generator)
    model.save_pretrained(path)
    write_tokenizer(Path(path), architecture, vocabulary)
    return Path(path)


def sentence_transformer(path, body, *, pooling="mean", layers=(), length=48, **settings):
    """Write a model of sentence-transformers around the model in *body*, with these *layers* behind its pooling; return it.

    *layers*: "Normalize", "Dense" (to 24 dimensions, without activation, like that of ANCE on the hub), and "LayerNorm" behind.
    """
    models = pytest.importorskip("sentence_transformers.models")
    from sentence_transformers import SentenceTransformer

    torch.manual_seed(5)
    norm = models.LayerNorm(24)
    torch.nn.init.normal_(norm.norm.weight)
    torch.nn.init.normal_(norm.norm.bias)
    dense = models.Dense(32, 24, activation_function=torch.nn.Identity())
    known = {"Normalize": models.Normalize(), "Dense": dense, "LayerNorm": norm}
    modules = [models.Transformer(str(body), max_seq_length=length), models.Pooling(32, pooling_mode=pooling)]
    model = SentenceTransformer(modules=[*modules, *(known[name] for name in layers)], device="cpu", **settings)
    model.save(str(path), create_model_card=False)
    return model


def colbert(path, *, seed=0, dimensions=8, prefix="bert.", **metadata):
    """Write a ColBERT with random weights in the authors' form; return the path as text."""
    folder = masked_lm(path, seed=seed, vocabulary=COLBERT_VOCABULARY)
    generator = torch.Generator().manual_seed(seed + 1)

    def change(state):
        kept = {prefix + key.removeprefix("bert."): value for key, value in state.items() if key.startswith("bert.")}
        return kept | ({"linear.weight": torch.randn(dimensions, 32, generator=generator)} if dimensions else {})

    rewrite(folder, change)
    reconfigure(folder, architectures=["HF_ColBERT"])
    if metadata:
        (folder / "artifact.metadata").write_text(json.dumps(metadata))
    return str(folder)


def uni_coil(path, prefix="", *, outputs=1, safetensors=True, seed=2):
    """Write a BERT with a projection onto *outputs* numbers in pyserini's form; return the path as text."""
    folder = masked_lm(path, seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)

    def change(state):
        kept = {f"{prefix}{key}": value for key, value in state.items() if key.startswith("bert.")}
        kept[f"{prefix}tok_proj.weight"] = torch.randn(outputs, 32, generator=generator) / 3
        kept[f"{prefix}tok_proj.bias"] = torch.full((outputs,), 0.2)
        return kept

    return str(rewrite(folder, change, safetensors=safetensors))


def bert_body(folder, state) -> torch.nn.Module:
    """Return the body of transformers with the configuration of *folder* and the tensors of *state* under `bert.`."""
    body = transformers.BertModel(transformers.BertConfig.from_pretrained(folder), add_pooling_layer=False)
    body.load_state_dict({key.removeprefix("bert."): value for key, value in state.items() if key.startswith("bert.")})
    return body.eval()


def static_embedding(path, *, seed=0, dimensions=8) -> Path:
    """Write a table of random token vectors in the form of sentence-transformers; return the path."""
    path.mkdir(parents=True)
    (path / "modules.json").write_text(
        json.dumps([{"idx": 0, "path": "", "type": "sentence_transformers.models.StaticEmbedding"}])
    )
    generator = torch.Generator().manual_seed(seed)
    write_weights(path, {"embedding.weight": torch.randn(len(VOCABULARY), dimensions, generator=generator)}, safetensors=True)
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.save(str(path / "tokenizer.json"))
    return path


def causal_lm(path, architecture="llama", *, seed=0, **config) -> Path:
    """Write a tiny *ForCausalLM with random weights and a tokenizer of words that adds <s>; return the path.

    Its vocabulary has two more entries than words, like Qwen's. The first number of every state is constant and lowers every
    logit, so that vectors have few terms.
    """
    words = ["<s>", "</s>", "<unk>", *WORDS, *LETTERS, *(f"w{i}" for i in range(60))]
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "hidden_size": 32, "head_dim": 8}
    sizes |= {"vocab_size": len(words) + 2, "intermediate_size": 64, "max_position_embeddings": 64, **config}
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(architecture, **sizes))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.normal_(0.0, 0.3)
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                parameter[0] = 0
        model.lm_head.weight[:, 0] = model.get_input_embeddings().weight[:, 0] = 2
        model.model.norm.weight[0] = -5
    model.save_pretrained(path)
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    fast.save_pretrained(path)
    return path


class Pickled:
    """An object that makes the folder *path* when it is unpickled."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def write_weights(path, state, *, safetensors) -> None:
    """Write the tensors *state* as one file into *path*."""
    if safetensors:
        save_file({key: value.contiguous() for key, value in state.items()}, path / "model.safetensors", {"format": "pt"})
    else:
        torch.save(state, path / "pytorch_model.bin")


def rewrite(folder, change, *, safetensors=True) -> Path:
    """Replace the tensors of a checkpoint by those that *change* returns."""
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    write_weights(folder, change(state), safetensors=safetensors)
    return folder


def sparsified(folder, less=2.5) -> Path:
    """Lower every logit of a BERT, so that most weights of a text are 0."""
    biases = ("cls.predictions.bias", "cls.predictions.decoder.bias")
    return rewrite(folder, lambda state: {key: value - less * (key in biases) for key, value in state.items()})


def reconfigure(folder, name="config.json", **settings) -> Path:
    """Change settings in a JSON file; None removes one."""
    config = json.loads((folder / name).read_text()) | settings
    removed = {key for key, value in settings.items() if value is None}
    (folder / name).write_text(json.dumps({key: value for key, value in config.items() if key not in removed}))
    return folder


def random_model(architecture, *, seed=0, vocabulary=None, **config) -> torch.nn.Module:
    """Return a *ForMaskedLM of transformers whose parameters are all random and different."""
    model = transformers.AutoModelForMaskedLM.from_config(_configuration(architecture, vocabulary, **config))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1.0 if "norm" in name.lower() and name.endswith("weight") else 0.0, 0.2, generator=generator)
    return model.eval()


def _configuration(architecture, vocabulary, **config) -> transformers.PretrainedConfig:
    """Return the configuration of a tiny model of one of ARCHITECTURES."""
    vocabulary = vocabulary or VOCABULARY
    tokens = len(_bytes()) if architecture == "roberta" else len(vocabulary)
    sizes = {"vocab_size": tokens, "max_position_embeddings": 64, **SIZES, **config}
    if architecture == "distilbert":
        names = {"num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "hidden_size": "dim"}
        names["intermediate_size"] = "hidden_dim"
        sizes = {names.get(name, name): value for name, value in sizes.items()}
    if architecture == "modernbert":
        roles = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "bos": "[CLS]", "eos": "[SEP]"}
        sizes |= {f"{role}_token_id": vocabulary.index(token) for role, token in roles.items()}
    return transformers.AutoConfig.for_model(architecture, **sizes)


def logits(folder, texts, **settings) -> torch.Tensor:
    """Return the logits (texts, length, vocabulary) by transformers, 0 for padding; it must find every tensor that it needs."""
    model, found = transformers.AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True, **settings)
    assert not found["missing_keys"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        tokens = tokenizer(texts, padding=True, return_tensors="pt")
        return model.eval()(**tokens).logits * tokens["attention_mask"].unsqueeze(-1)


def write_tokenizer(path, architecture="bert", vocabulary=None) -> None:
    """Write the tokenizer files; for BERT and DistilBERT vocab.txt alone, like in old checkpoints."""
    vocabulary = list(vocabulary or VOCABULARY)
    if architecture in {"bert", "distilbert"}:
        (path / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
        kind = {"bert": "BertTokenizer", "distilbert": "DistilBertTokenizer"}[architecture]
        (path / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "tokenizer_class": kind}))
    elif architecture == "roberta":
        transformers.RobertaTokenizer(vocab=_bytes(), merges=[]).save_pretrained(path)
    else:
        fast = transformers.BertTokenizer(vocab={token: i for i, token in enumerate(vocabulary)})
        fast.save_pretrained(path)
        config = json.loads((path / "tokenizer_config.json").read_text())
        (path / "tokenizer_config.json").write_text(json.dumps(config | {"tokenizer_class": "PreTrainedTokenizerFast"}))


def _bytes() -> dict[str, int]:
    """Return the vocabulary of a RoBERTa that knows single bytes only: 0 <s>, 1 <pad>, 2 </s>, 3 <unk>, ..., <mask>."""
    letters = [chr(i) for i in range(33, 127)] + [chr(i) for i in range(256, 360)]
    return {token: i for i, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *letters, "<mask>"])}


def _lexmae(form, state, config) -> dict:
    """Add the other tensors of the authors' class to *state*, and return its other settings."""
    if form == "fine_tuned":
        return {"architectures": ["BertSpladeEnocder"], "keep_special_tokens": False, "disable_partitions": None} | config
    layer = {key.split(".layer.0.")[1]: value for key, value in state.items() if ".layer.0." in key}
    state |= {f"decoder_heads.{i}.{key}": value + 1 for i in range(2) for key, value in layer.items()}
    state |= {f"decoder_{key}": value + 1 for key, value in state.items() if key.startswith("cls.")}
    return {"architectures": ["BertForEDMLM"], "n_head_layers": 2, "skip_from": None, "disable_bottleneck": False} | config


def _modules(path, *, old) -> None:
    """Write the files that make *path* a SparseEncoder of sentence-transformers."""
    package = "sentence_transformers.sparse_encoder.models" if old else "sentence_transformers.sparse_encoder.modules"
    first = f"{package}.MLMTransformer" if old else "sentence_transformers.base.modules.transformer.Transformer"
    last = f"{package}.SpladePooling" if old else f"{package}.splade_pooling.SpladePooling"
    names = (("0", "", first), ("1", "1_SpladePooling", last))
    modules = [{"idx": i, "name": name, "path": place, "type": kind} for i, (name, place, kind) in enumerate(names)]
    (path / "modules.json").write_text(json.dumps(modules))
    about = {"model_type": "SparseEncoder", "prompts": {"query": "", "document": ""}, "default_prompt_name": None}
    (path / "config_sentence_transformers.json").write_text(json.dumps(about))
    task = {"max_seq_length": 64, "do_lower_case": False} if old else {"transformer_task": "fill-mask"}
    (path / "sentence_bert_config.json").write_text(json.dumps(task))
    width = "word_embedding_dimension" if old else "embedding_dimension"
    pooling = {"pooling_strategy": "max", "activation_function": "relu", width: None}
    (path / "1_SpladePooling").mkdir(exist_ok=True)
    (path / "1_SpladePooling" / "config.json").write_text(json.dumps(pooling))
