"""Scripts that are written without spaces between words: their text is cut into overlapping pairs of characters.

Lucene's CJKAnalyzer makes such pairs of Chinese, Japanese and Korean; they need no dictionary. Here they are also made of Thai,
Lao, Burmese and Khmer, and Korean, which has spaces, is left to Unicode's words.
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
    """Yield the parts of *text* in order: what has spaces, and the run of unspaced script that follows; either may be ""."""
    start = 0
    for match in () if text.isascii() else _RUN.finditer(text):
        yield text[start : match.start()], match.group()
        start = match.end()
    yield text[start:], ""


def pairs(run: str) -> list[str]:
    """Return every two neighbouring characters of *run*; one character alone is returned as it is."""
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]
