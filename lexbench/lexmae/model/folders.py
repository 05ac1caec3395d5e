"""Models as ordinary folders of transformers: loading one to train it, and saving one."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForMaskedLM, AutoTokenizer
from transformers.utils import logging as transformers_logging

from lexbench.lexmae.model.encoder import LexiconEncoder
from lexbench.models import exact_terms


def load(folder: Path) -> tuple[Any, Any]:
    """Return the masked-language model in *folder*, in float32 and ready to train, and its tokenizer."""
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model = AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32, trust_remote_code=False)
    model.train()
    return model, AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def load_encoder(folder: Path) -> tuple[LexiconEncoder, Any]:
    """Return the model in *folder* as an encoder, with its exact terms if it has some, and its tokenizer."""
    model, tokenizer = load(folder)
    return LexiconEncoder(model, exact_terms.read(folder, model.config.vocab_size)), tokenizer


def save(encoder: LexiconEncoder, tokenizer: Any, folder: Path) -> None:
    """Write the model of *encoder* and its tokenizer into *folder*, which exists; all files get the same permissions."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    encoder.language_model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    if encoder.exact_terms is not None:
        exact_terms.write(encoder.exact_terms, folder)
    for path in folder.glob("*.safetensors"):  # which safetensors lets nobody but the user read
        path.chmod((folder / "config.json").stat().st_mode)


def unique_parameters(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters of *module* on the processor, each once: tied ones have one name."""
    parameters: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        parameters[name] = parameter.detach().to("cpu", copy=True).contiguous()
    return parameters
