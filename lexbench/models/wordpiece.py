"""BERT's tokenizer without transformers, whose import takes two seconds.

`read_wordpiece` returns None for everything unusual, so that transformers is used instead. Used by `architectures`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from tokenizers import Tokenizer, decoders
from tokenizers.models import WordPiece as WordPieceModel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing

_SPECIAL = {"unk_token": "[UNK]", "sep_token": "[SEP]", "pad_token": "[PAD]", "cls_token": "[CLS]", "mask_token": "[MASK]"}
_PARTS = ("normalizer", "pre_tokenizer", "post_processor", "added_tokens", "model")  # of tokenizer.json
_MORE_SETTINGS = (
    "added_tokens_decoder", "additional_special_tokens", "extra_special_tokens", "auto_map", "split_special_tokens",
)  # fmt: skip
_SPECIAL_FILE = "special_tokens_map.json"


@dataclass(frozen=True)
class WordPiece:
    """The attributes of a tokenizer that encoders use, with the names of transformers."""

    backend_tokenizer: Tokenizer
    unk_token_id: int
    sep_token_id: int
    pad_token_id: int
    cls_token_id: int
    mask_token_id: int
    eos_token_id: ClassVar[None] = None
    sep_token: ClassVar[str] = _SPECIAL["sep_token"]
    truncation_side: ClassVar[str] = "right"

    def get_vocab(self) -> dict[str, int]:
        """Return the id of each token."""
        return dict(self.backend_tokenizer.get_vocab())

    def convert_tokens_to_ids(self, tokens: str | list[str]) -> Any:
        """Return the id of a token, or the ids of several. A token outside the vocabulary has the id of [UNK]."""
        if not isinstance(tokens, str):
            return [self.convert_tokens_to_ids(token) for token in tokens]
        number = self.backend_tokenizer.token_to_id(tokens)
        return self.unk_token_id if number is None else number

    def convert_ids_to_tokens(self, token: int) -> str | None:
        """Return the token with that id, None if there is none."""
        name: str | None = self.backend_tokenizer.id_to_token(token)
        return name


def read_wordpiece(folder: Path) -> WordPiece | None:
    """Return the tokenizer in *folder*; None unless its files are exactly those that transformers writes for BERT.

    transformers builds the tokenizer from the vocabulary and tokenizer_config.json, and so does this function. It returns
    None if tokenizer.json describes another one.
    """
    if (folder / "added_tokens.json").exists():
        return None
    try:
        content, config = (json.loads((folder / name).read_bytes()) for name in ("tokenizer.json", "tokenizer_config.json"))
        special = json.loads((folder / _SPECIAL_FILE).read_bytes()) if (folder / _SPECIAL_FILE).exists() else _SPECIAL
        side = config.get("truncation_side", str((content.get("truncation") or {}).get("direction", "right")).lower())
        usual = (
            (config["tokenizer_class"], side, special) == ("BertTokenizer", "right", _SPECIAL)
            and not any(map(config.get, _MORE_SETTINGS))
            and all(config.get(role, token) == token for role, token in _SPECIAL.items())
        )
        ids = content["model"]["vocab"]
        tokenizer = _bert_tokenizer(ids, config)
        built = json.loads(tokenizer.to_str())
    except Exception:  # noqa: BLE001 - damaged files: tokenizers raises plain Exception, and transformers has the error message
        return None
    if not usual or any(built[part] != content.get(part) for part in _PARTS):
        return None
    return WordPiece(tokenizer, **{f"{role}_id": ids[token] for role, token in _SPECIAL.items()})


def _bert_tokenizer(ids: dict[str, int], config: Mapping[str, Any]) -> Tokenizer:
    """Return the tokenizer that transformers builds from the *ids* of tokens and tokenizer_config.json."""
    tokenizer = Tokenizer(WordPieceModel(ids, unk_token=_SPECIAL["unk_token"], max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(
        handle_chinese_chars=config.get("tokenize_chinese_chars", True),
        strip_accents=config.get("strip_accents"),
        lowercase=config.get("do_lower_case", True),
    )
    tokenizer.pre_tokenizer = BertPreTokenizer()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[(token, ids[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(sorted(_SPECIAL.values(), key=ids.__getitem__))
    return tokenizer
