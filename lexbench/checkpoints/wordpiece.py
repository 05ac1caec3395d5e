"""BERT's tokenizer as its files have it, without transformers, whose import takes two seconds.

transformers makes the tokenizer anew, of the vocabulary and tokenizer_config.json. Where tokenizer.json is what would come of
that, as where transformers has written both, it can be taken as it is.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Tokenizer

_SPECIAL = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
_FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
_MORE = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "auto_map")  # for transformers
_OTHERS = ("added_tokens.json", "special_tokens_map.json")  # likewise, files


@dataclass(frozen=True)
class WordPiece:
    """What encoders ask of a tokenizer, under transformers' names."""

    backend_tokenizer: Tokenizer
    pad_token_id: int
    cls_token_id: int
    sep_token_id: int
    sep_token: ClassVar[str] = _SPECIAL["sep_token"]
    truncation_side: ClassVar[str] = "right"

    def get_vocab(self) -> dict[str, int]:
        """Return the number of each token."""
        return dict(self.backend_tokenizer.get_vocab())

    def convert_ids_to_tokens(self, token: int) -> str | None:
        """Return the token of that number, None where there is none."""
        name: str | None = self.backend_tokenizer.id_to_token(token)
        return name


def read_wordpiece(folder: Path) -> WordPiece | None:
    """Return the tokenizer in *folder*; None where its files are not those that transformers writes for BERT's.

    Such ones, damaged ones among them, are transformers' to read.
    """
    if any((folder / name).exists() for name in _OTHERS):
        return None
    try:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        content, config = json.loads(text), json.loads((folder / "tokenizer_config.json").read_bytes())
        if not _is_what_comes_of(config, content):
            return None
        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.no_truncation()
    except Exception:  # noqa: BLE001 - tokenizers raises no class of its own, and transformers says what is wrong
        return None
    ids = content["model"]["vocab"]
    return WordPiece(tokenizer, *(ids[_SPECIAL[role]] for role in ("pad_token", "cls_token", "sep_token")))


def _is_what_comes_of(config: Mapping[str, Any], content: Mapping[str, Any]) -> bool:
    """Whether transformers would make of tokenizer_config.json and the vocabulary what tokenizer.json holds."""
    if config["tokenizer_class"] != "BertTokenizer" or config.get("truncation_side", "right") != "right":
        return False
    if any(config.get(name) for name in _MORE) or any(config.get(role, token) != token for role, token in _SPECIAL.items()):
        return False
    model = content["model"]
    ids = {token: model["vocab"][token] for token in _SPECIAL.values()}
    made = {
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": config.get("tokenize_chinese_chars", True),
            "strip_accents": config.get("strip_accents"),
            "lowercase": config.get("do_lower_case", True),
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": _template({token: ids[token] for token in ("[CLS]", "[SEP]")}),
        "added_tokens": [{"id": ids[token], "content": token, **_FLAGS} for token in sorted(ids, key=ids.__getitem__)],
    }
    pieces = {
        "type": "WordPiece",
        "unk_token": _SPECIAL["unk_token"],
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": model["vocab"],
    }
    return bool(made == {name: content[name] for name in made} and model == pieces)


def _template(ids: Mapping[str, int]) -> dict[str, Any]:
    """Return how [CLS] and [SEP], whose *ids* are given, are put around one text and around two."""

    def special(token: str, segment: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": token, "type_id": segment}}

    def text(name: str, segment: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    single = [special("[CLS]", 0), text("A", 0), special("[SEP]", 0)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, text("B", 1), special("[SEP]", 1)],
        "special_tokens": {token: {"id": token, "ids": [number], "tokens": [token]} for token, number in ids.items()},
    }
