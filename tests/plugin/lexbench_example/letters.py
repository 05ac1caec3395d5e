"""An encoder: how often each letter occurs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from lexbench import Encoder, Kind


@dataclass(frozen=True)
class Letters(Encoder):
    """A dense vector of letter counts. *case* tells capitals from small letters."""

    case: bool = False
    kind: ClassVar[Kind] = Kind.DENSE

    def encode_document(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return counts (texts, 128) of ASCII characters."""
        rows = [text if self.case else text.lower() for text in texts]
        codes = [np.frombuffer(row.encode("ascii", "ignore"), np.uint8) for row in rows]
        return np.array([np.bincount(each, minlength=128) for each in codes], np.float32).reshape(-1, 128)

    encode_query = encode_document
