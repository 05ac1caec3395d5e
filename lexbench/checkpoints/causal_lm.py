"""Causal language models, taken apart for sparse encoding: body, and projection onto the vocabulary.

Read are Llama, Mistral, Qwen2 and Qwen3 as transformers saves their `…ForCausalLM`, and LoRA adapters of them. No code of a
checkpoint is run. Loads torch only to load a model.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lexbench.checkpoints.adapter import adapted_tensors, model_files
from lexbench.checkpoints.files import CheckpointFiles

if TYPE_CHECKING:
    import torch
    import transformers

CAUSAL_LMS = ("llama", "mistral", "qwen2", "qwen3")  # model types
_EMBEDDING, _PROJECTION = "model.embed_tokens.weight", "lm_head.weight"  # (vocabulary, h), one tensor in many models
_CONSTANT = "rotary_emb.inv_freq"  # saved by old versions of transformers


@dataclass(frozen=True)
class CausalLM:
    """What encodes tokens, what turns states into logits (`states @ weight.T`), and the tokenizer."""

    body: "torch.nn.Module"  # body(input_ids, attention_mask, use_cache) -> .last_hidden_state (b, l, h)
    weight: "torch.Tensor"  # (vocabulary, h)
    tokenizer: "transformers.PreTrainedTokenizerFast"
    config: "transformers.PretrainedConfig"


def causal_lm_files(folder: Path) -> CheckpointFiles:
    """Return the files of the causal language model in *folder*.

    MissingData where something is not there, CommandError for other kinds of models.
    """
    return model_files(folder, CAUSAL_LMS)


def load_causal_lm(files: CheckpointFiles, *, dtype: "torch.dtype", device: "torch.device | str" = "cpu") -> CausalLM:
    """Return the model, ready to encode and without gradients.

    InvalidFile where files do not read or the weights do not fit the model that config.json describes.
    """
    from transformers import AutoModelForCausalLM

    from lexbench.checkpoints import weights
    from lexbench.checkpoints.pretrained import load_tokenizer

    tokenizer = load_tokenizer(files.tokenizer_folder)
    model = weights.empty_model(files, AutoModelForCausalLM)
    tensors = {name: tensor for name, tensor in adapted_tensors(files, dtype).items() if not name.endswith(_CONSTANT)}
    if model.config.tie_word_embeddings:
        tensors = weights.tied(tensors, [(_EMBEDDING, _PROJECTION)])
    described = f"{files.folder}: config.json says model_type {files.config['model_type']}"
    weights.check_names_and_shapes(tensors, model.state_dict(), described)
    filled = weights.fill(model, weights.converted(tensors, dtype, device, files.folder), device)
    weight = filled.lm_head.weight.detach()  # type: ignore[union-attr,operator]  # all of CAUSAL_LMS have it
    weights.check_token_ids(tokenizer.get_vocab(), len(weight), files.folder)
    return CausalLM(filled.model, weight, tokenizer, model.config)  # type: ignore[arg-type]  # likewise
