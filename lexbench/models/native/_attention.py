"""Attention for the architectures of this package: all positions or a window, rotary positions, real tokens without padding."""

from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional


class States(NamedTuple):
    """The output of a body, named as in transformers."""

    last_hidden_state: Tensor  # (texts, length, width)


class Logits(NamedTuple):
    """The output of a classifier, named as in transformers."""

    logits: Tensor  # (texts, classes)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Return the attended values (texts, heads, length, width of a head); *mask* is true where a position sees another.

    On a processor, torch's function takes up to twice as long as plain steps in bfloat16, which round the scores.
    """
    if query.dtype != torch.bfloat16 or query.device.type != "cpu":
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-1, -2)
    if mask is not None:
        seen = mask[:, :, :1] if mask.stride(2) == 0 else mask  # usually all positions of a text see the same ones
        scores += seen.to(scores.dtype).log()  # 0, or minus infinity
    attended: Tensor = scores.softmax(-1) @ value
    return attended


class Packing(NamedTuple):
    """Where the texts are in states (tokens, width) that have no padding."""

    starts: Tensor  # (texts + 1,) int32
    longest: int  # tokens of a text


def attend_packed(query: Tensor, key: Tensor, value: Tensor, packing: Packing, reach: int | None = None) -> Tensor:
    """Return the attended values (tokens, heads, width of a head) of texts without padding, by torch's flash attention.

    With *reach* a position sees those at most so many positions away.
    """
    from torch.nn.attention.varlen import varlen_attn

    near = {} if reach is None else {"window_size": (reach, reach)}
    starts, longest = packing
    attended: Tensor = varlen_attn(query, key, value, starts, starts, longest, longest, **near)  # type: ignore[assignment,arg-type]
    return attended


@cache
def packed_attention_works(device: torch.device, dtype: torch.dtype, width: int, reach: int | None = None) -> bool:
    """Return whether `attend_packed` works for heads of *width* here, and gives what `attend` gives.

    torch has it from 2.10 on, with a *reach* later, for GPUs and in half precision.
    """
    if device.type != "cuda" or dtype not in (torch.float16, torch.bfloat16):
        return False
    states = torch.linspace(-1, 1, 5 * 2 * width, device=device).view(5, 2, width).to(dtype)
    packing = Packing(torch.tensor([0, 2, 5], dtype=torch.int32, device=device), 3)
    texts = [states[None, start:stop].transpose(1, 2) for start, stop in ((0, 2), (2, 5))]
    tried = None if reach is None else 1  # of three positions, the outer ones do not see each other
    try:
        found = attend_packed(states, states, states, packing, tried)
    except (ImportError, AttributeError, NotImplementedError, RuntimeError, TypeError):  # this torch or this GPU lacks it
        return False
    places = torch.arange(3, device=device)
    near = None if tried is None else (places[:, None] - places).abs() <= tried
    right = [attend(text, text, text, near if near is None else near[: text.shape[2], : text.shape[2]]) for text in texts]
    return torch.allclose(found, torch.cat([one.transpose(1, 2)[0] for one in right]), rtol=0.02, atol=0.01)


def exporting() -> bool:
    """Return whether torch records a program, e.g. for OpenVINO, instead of computing; it fits texts of any length."""
    return bool(torch.compiler.is_compiling())


class RealTokens:
    """The real tokens of a batch, and where they are in its padded form (texts, length)."""

    def __init__(self, shape: torch.Size, mask: Tensor | None, *, padding: bool = False) -> None:
        """Take the *shape* of the ids, and the *mask* (texts, length) that is 0 for padding; None: nothing is padded.

        With *padding*, its states are computed, too. They see the real tokens, and no token sees them.
        """
        self.texts, self.length = shape
        self.padding = padding
        self.real = None if mask is None else mask.bool()
        # A program that torch exports for other runtimes has no numbers of tokens that depend on values.
        self.places = None if self.real is None or padding or exporting() else self.real.flatten().nonzero().squeeze(1)
        self._packing: Packing | None = None

    def packed(self, padded: Tensor) -> Tensor:
        """Return the values (tokens, ...) of the real tokens of *padded* (texts, length, ...)."""
        flat = padded.flatten(0, 1)
        return flat if self.places is None else flat.index_select(0, self.places)

    def padded(self, packed: Tensor) -> Tensor:
        """Return (texts, length, ...) with the values *packed* (tokens, ...); padding has zeros."""
        if self.places is not None:
            whole = packed.new_zeros(self.texts * self.length, *packed.shape[1:])
            packed = whole.index_copy_(0, self.places, packed)
        return packed.view(self.texts, self.length, *packed.shape[1:])

    def packing(self, device: torch.device) -> Packing:
        """Return where the texts are without padding."""
        if self._packing is None:
            if self.real is None:
                starts = torch.arange(0, self.texts * self.length + 1, self.length, dtype=torch.int32, device=device)
            else:
                starts = functional.pad(self.real.sum(1, dtype=torch.int32).cumsum(0, dtype=torch.int32), (1, 0))
            self._packing = Packing(starts, self.length)
        return self._packing

    def positions(self, device: torch.device) -> Tensor:
        """Return the position of each real token in its text (tokens,)."""
        places = torch.arange(self.texts * self.length, device=device) if self.places is None else self.places
        return places % self.length

    def seen(self) -> Tensor | None:
        """Return the mask of attention to all real positions, (texts, 1, length, length); None if nothing is padded."""
        return None if self.real is None else self.real[:, None, None].expand(-1, 1, self.length, -1)


def frequencies(theta: float, width: int) -> Tensor:
    """Return the frequencies (width / 2,) of rotary positions with the base *theta*, for heads of that *width*."""
    return 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.float32) / width)


class Rotation(NamedTuple):
    """Rotary positions (J. Su et al., 2021): the halves of a head's numbers, as pairs, are turned by position x frequency."""

    cosines: Tensor  # float32 (length, 1, width of a head / 2)
    sines: Tensor

    @classmethod
    def for_length(cls, length: int, frequencies: Tensor) -> "Rotation":
        """Return the rotation of the positions 0 to *length* - 1 by *frequencies* (width of a head / 2,)."""
        angles = torch.arange(length, device=frequencies.device, dtype=torch.float32)[:, None, None] * frequencies
        return cls(angles.cos(), angles.sin())

    def at(self, positions: Tensor) -> "Rotation":
        """Return the rotation of other *positions*, which are below the length."""
        return Rotation(self.cosines[positions], self.sines[positions])

    def turned(self, states: Tensor) -> Tensor:
        """Return *states* (..., positions, heads, width of a head), turned."""
        # As in transformers, tables are rounded to the type of the states, and products are in float32.
        cosines, sines = (table.to(states.dtype).float() for table in self)
        first, second = states.float().chunk(2, dim=-1)
        if exporting():
            return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1).to(states.dtype)
        turned = torch.empty_like(states, dtype=torch.float32)
        half = first.shape[-1]
        # Each product is rounded, as in transformers: `addcmul_` rounds a product and its sum once, which gives other bits.
        torch.mul(first, cosines, out=turned[..., :half]).sub_(second * sines)
        torch.mul(second, cosines, out=turned[..., half:]).add_(first * sines)
        return turned.to(states.dtype)


class Window(NamedTuple):
    """Local attention: a position sees those at most *reach* positions away, and the tokens of its own text alone."""

    reach: int
    tokens: RealTokens
    blocks: int  # blocks of *reach* positions for long texts; 0 if one mask for all pairs of positions is less work
    mask: Tensor | None  # of attention in blocks, (texts or 1, blocks, reach, 3 reach), else (texts or 1, 1, length, length)

    @classmethod
    def for_tokens(cls, reach: int, tokens: RealTokens, device: torch.device) -> "Window":
        """Return the window for *tokens*."""
        length, real = tokens.length, tokens.real
        if not exporting() and length <= reach + 1:  # everything is near
            return cls(reach, tokens, 0, tokens.seen())
        if exporting() or length <= 3 * reach:
            places = torch.arange(length, device=device)
            near = ((places[:, None] - places).abs() <= reach)[None, None]
            return cls(reach, tokens, 0, near if real is None else near & real[:, None, None])
        blocks = -(-length // reach)
        own, other = torch.arange(reach, device=device)[:, None], torch.arange(-reach, 2 * reach, device=device)
        near = (own - other).abs() <= reach  # (reach, 3 reach)
        there = torch.ones(1, length, dtype=torch.bool, device=device) if real is None else real
        there = functional.pad(there, (reach, (blocks + 1) * reach - length)).unfold(1, 3 * reach, reach)
        return cls(reach, tokens, blocks, near & there[:, :, None])

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return the attended values (texts, heads, length, width of a head); 0 for a position that sees nothing."""
        if not self.blocks:
            return self._attended(query, key, value, self.mask)
        texts, heads, length, width = query.shape
        rest = self.blocks * self.reach - length

        def in_blocks(states: Tensor) -> Tensor:  # (texts x blocks, heads, reach, width)
            padded = functional.pad(states, (0, 0, 0, rest)).view(texts, heads, self.blocks, self.reach, width)
            return padded.transpose(1, 2).flatten(0, 1)

        def around(states: Tensor) -> Tensor:  # (texts x blocks, heads, 3 reach, width)
            padded = functional.pad(states, (0, 0, self.reach, rest + self.reach))
            return padded.unfold(2, 3 * self.reach, self.reach).permute(0, 2, 1, 4, 3).flatten(0, 1).contiguous()

        assert self.mask is not None
        mask = self.mask.expand(texts, -1, -1, -1).flatten(0, 1).unsqueeze(1)
        attended = self._attended(in_blocks(query), around(key), around(value), mask)
        return attended.view(texts, self.blocks, heads, self.reach, width).transpose(1, 2).flatten(2, 3)[:, :, :length]

    def _attended(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        attended = attend(query, key, value, mask)
        if mask is None or not self.tokens.padding:  # otherwise only padding sees nothing, and is left out
            return attended
        return attended.masked_fill(~mask.any(-1, keepdim=True), 0)  # the plain steps of `attend` give NaN


class Context(NamedTuple):
    """What the layers of one kind, global or local, need to know of a batch."""

    tokens: RealTokens
    rotation: Rotation
    window: Window | None  # of a local layer

    def attended(self, inputs: Tensor, heads: int) -> Tensor:
        """Return the attended states (tokens, width) for query, key and value in *inputs* (tokens, 3 x width)."""
        reach, device = None if self.window is None else self.window.reach, inputs.device
        width = inputs.shape[1] // (3 * heads)
        if not self.tokens.padding and packed_attention_works(device, inputs.dtype, width, reach):
            packed = inputs.view(-1, 3 * heads, width)
            turned = self.rotation.at(self.tokens.positions(device)).turned(packed[:, : 2 * heads])
            query, key = turned.chunk(2, dim=1)
            return attend_packed(query, key, packed[:, 2 * heads :], self.tokens.packing(device), reach).flatten(1)
        states = self.tokens.padded(inputs).view(
            self.tokens.texts, self.tokens.length, 3 * heads, -1
        )  # (texts, length, 3 x heads, width of a head)
        turned = self.rotation.turned(states[:, :, : 2 * heads])
        query, key, value = (one.transpose(1, 2) for one in (*turned.chunk(2, dim=2), states[:, :, 2 * heads :]))
        seen = self.tokens.seen() if self.window is None else None
        gathered = attend(query, key, value, seen) if self.window is None else self.window.attend(query, key, value)
        return self.tokens.packed(gathered.transpose(1, 2).flatten(2))
