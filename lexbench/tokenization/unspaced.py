"""Cuts text of scripts without spaces between words into overlapping pairs of characters, which needs no dictionary.

Lucene's CJKAnalyzer does this for Chinese, Japanese and Korean. It also applies to Thai, Lao, Burmese and Khmer here, not
to Korean, which has spaces.
"""

import re
from collections.abc import Iterator

_RANGES = (
    (0x0E00, 0x0E7F),  # Thai
    (0x0E80, 0x0EFF),  # Lao
    (0x1000, 0x109F),  # Burmese
    (0x1780, 0x17FF),  # Khmer
    (0x3005, 0x3007),  # marks of repetition, and zero
    (0x3041, 0x30FA),  # Hiragana and Katakana, without the middle dot that follows
    (0x30FC, 0x30FF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),  # Han
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0xFF66, 0xFF9F),  # half-width Katakana
    (0x20000, 0x3FFFF),  # Han of the higher planes
)
_RUN = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in _RANGES)}]+")


def runs(text: str) -> Iterator[tuple[str, str]]:
    """Yield pairs of (text with spaces, run of unspaced script after it) in order; either may be ""."""
    start = 0
    for match in () if text.isascii() else _RUN.finditer(text):
        yield text[start : match.start()], match.group()
        start = match.end()
    yield text[start:], ""


def pairs(run: str) -> list[str]:
    """Return all pairs of neighbouring characters of *run*; a single character is returned alone."""
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
