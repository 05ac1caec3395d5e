"""Exact search on GPUs, for `flat` and `maxsim`: products and the best k, in blocks of documents that fit.

The vectors stay in their file. A block of them is copied to a device once and kept there while there is room; other blocks are
copied at each search, the next one while the present one is computed. Several devices share the blocks. What torch does here it
also does on a processor, which is how the tests run it. torch is imported when a search needs it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lexbench import devices
from lexbench.arrays.vectors import pieces
from lexbench.display.progress import give_warning
from lexbench.engines.kernels.checks import in_threads, no_hits
from lexbench.errors import CannotStart, CommandError, LexbenchError
from lexbench.types import Hits

if TYPE_CHECKING:
    import torch
    from torch import Tensor

PRECISIONS = ("float32", "tf32", "bfloat16")
_WORTH = 64 << 20  # bytes of an index: "auto" searches a smaller one on the processor, before torch would be imported
_ROOM = 8 << 30  # the most bytes of a device that products and candidates take; a quarter of what is free if that is less
_LEAST_ROOM = 4 << 20  # a device with less room is too small
_BLOCK = 1 << 30  # the most bytes of a block, as float32: each costs a millisecond, however few queries there are
_QUERIES = 8192  # searched in one pass over the index
_GROUP = 64  # scores that are compared with the bar at once, by their largest
_NOTHING = -(1 << 63)  # the key of no document
_LOW = 0xFFFFFFFF  # the bits of a key that hold the position
_SIZE = 0x7FFFFFFF  # the bits of a float32 without its sign
_INSTEAD = 'type device="cpu", or the same command when the device is back; what is in the store stays'


# ---- settings --------------------------------------------------------------------------------------------------------------


def check_settings(engine: str, device: str, precision: str) -> None:
    """Raise CommandError unless *engine* can have these settings."""
    devices.check_names(engine, device, several=True, also=())
    if precision not in PRECISIONS:
        raise CommandError(f"{engine}(precision={precision!r}): there is {', '.join(PRECISIONS)}")


def places(device: str, precision: str, size: int) -> list["torch.device"]:
    """Return the devices that search an index of *size* bytes; none if numpy does it on the processor.

    Raises CannotStart if this machine lacks one of them, or if one cannot compute in *precision*.
    """
    exact = precision == "float32"
    here = device == "cpu" or (device == "auto" and ((exact and size < _WORTH) or not devices.has_gpu()))
    if here and exact:
        return []
    found = [devices.torch_device("cpu" if here else name) for name in device.split(",")]
    import torch

    if precision == "bfloat16" and any(one.type == "cuda" for one in found) and not hasattr(torch.ops.aten.mm, "dtype"):
        raise CannotStart(
            f"precision=bfloat16: torch {torch.__version__} rounds the sums too; type precision=tf32, or update torch"
        )
    if precision == "tf32":
        for one in found:
            if one.type != "cuda" or torch.cuda.get_device_capability(one) < (8, 0):
                raise CannotStart(f"precision=tf32 is for NVIDIA GPUs from 2020 on, and the device is {one}; leave it out")
    return found


@contextmanager
def _float32_products(precision: str) -> Iterator[None]:
    """Context in which torch multiplies float32 as *precision* says, whatever another part of this process has set."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


# ---- the best k on one device ----------------------------------------------------------------------------------------------


class _Best:
    """The best *k* documents so far of each of so many *queries*, as keys on a device; the larger key ranks first.

    A key is an int64 that orders like `lexbench.engines.kernels.dense.Best`: the score above, and below it the position with
    its bits flipped, because the lower position wins ties. Only scores above a query's bar, its k-th best score when its keys
    were last sorted out, become keys. There is room for a few times k keys, so that sorting out is rare.
    """

    def __init__(self, queries: int, k: int, device: "torch.device") -> None:
        import torch

        self.k = k
        self._step = -(-3 * k // _GROUP) * _GROUP  # keys beyond the best k
        self._keys = torch.full((queries, k + self._step), _NOTHING, device=device)
        self._counts = torch.zeros(queries, dtype=torch.int64, device=device)
        self._bars = torch.full((queries,), -torch.inf, device=device)
        self._seen = np.zeros(queries, np.int64)  # documents

    @staticmethod
    def bytes_per_query(k: int) -> int:
        """Return about how many bytes of the device a query takes, with its candidates and their sorting."""
        return 10 * 8 * (4 * k + _GROUP)

    def add(self, scores: "Tensor", position: int, query: int) -> None:
        """Add *scores* (n, documents) of the queries from *query* on and the documents from *position* on.

        The number of columns is a multiple of 64; -inf stands for no document. Blocks come in order of position. A NaN is never
        among the best.
        """
        rows = slice(query, query + len(scores))
        while scores.shape[1]:
            # Of documents in any order, twice as many as before have about 2 k scores above the bar, for which there is room.
            seen = int(self._seen[rows].min())
            width = min(2 * seen, scores.shape[1])
            if seen < self._step or not self._add_few(scores[:, :width], position, rows, grouped=seen > 2 * _GROUP * self.k):
                width = min(self._step, scores.shape[1])
                self._add_all(scores[:, :width], position, rows)
            scores, position = scores[:, width:], position + width
            self._seen[rows] += width

    def _add_few(self, scores: "Tensor", position: int, rows: slice, *, grouped: bool) -> bool:
        """Add the scores above the bars and return True; do nothing and return False if these are many.

        Scores are compared one by one, or *grouped*, which is faster if few groups of 64 have one above the bar.
        """
        import torch

        bars = self._bars[rows, None]
        if grouped:
            # A group has every n-th score, because a GPU takes the maxima of neighbouring scores at once.
            groups = scores.view(len(scores), _GROUP, -1)
            # The group of a NaN, whose largest is NaN, is looked at as well.
            row, group = torch.logical_not(groups.amax(1) <= bars).nonzero(as_tuple=True)
            grouped = len(row) * _GROUP <= scores.numel() // 2
        if grouped:
            values = groups[row, :, group]
            pair, place = (values > bars[row]).nonzero(as_tuple=True)
            row, column, values = row[pair], place * groups.shape[2] + group[pair], values[pair, place]
        else:
            above = scores > bars
            if int(above.count_nonzero()) > len(scores) * self._step:
                return False
            row, column = above.nonzero(as_tuple=True)
            values = scores[row, column]
        starts = torch.searchsorted(row, torch.arange(len(scores) + 1, device=row.device))  # rows ascend
        added = starts.diff()
        if not self._has_room(added, rows):
            self._sort_out(rows)
            if not self._has_room(added, rows):
                return False
        at = self._counts[rows][row] + torch.arange(len(row), device=row.device) - starts[row]
        self._keys[rows].index_put_((row, at), _keys_of(values, position + column))
        self._counts[rows] += added
        return True

    def _has_room(self, added: "Tensor", rows: slice) -> bool:
        return int((self._counts[rows] + added).max()) <= self._keys.shape[1]

    def _add_all(self, scores: "Tensor", position: int, rows: slice) -> None:
        """Add at most as many columns of scores as there is room for behind the best k."""
        import torch

        self._sort_out(rows)
        keys = _keys_of(scores, position + torch.arange(scores.shape[1], device=scores.device))
        self._keys[rows, self.k : self.k + scores.shape[1]] = keys
        self._sort_out(rows)

    def _sort_out(self, rows: slice) -> None:
        """Keep the best k keys of the queries *rows*, and raise their bars."""
        best = self._keys[rows].topk(self.k, sorted=False).values
        self._keys[rows, : self.k] = best
        self._keys[rows, self.k :] = _NOTHING
        self._counts[rows] = self.k
        self._bars[rows] = _scores_of(best.amin(1))

    def keys(self) -> "Tensor":
        """Return the best keys (queries, k) in the memory of the processor, the largest first."""
        import torch

        best = self._keys.topk(self.k).values
        # Pinned memory takes a copy many times as fast as other memory does.
        return torch.empty(best.shape, dtype=best.dtype, pin_memory=best.device.type == "cuda").copy_(best)


def _keys_of(scores: "Tensor", positions: "Tensor") -> "Tensor":
    """Return the keys of float32 *scores* of documents at *positions*."""
    import torch

    bits = (scores + 0.0).view(torch.int32).long()  # adding makes 0.0 of -0.0
    ordered = torch.where(bits < 0, bits ^ _SIZE, bits)
    return torch.where(scores > -torch.inf, (ordered << 32) | (_LOW - positions), _NOTHING)


def _scores_of(keys: "Tensor") -> "Tensor":
    """Return the scores of *keys*; -inf for no document."""
    import torch

    ordered = keys >> 32
    bits = torch.where(ordered < 0, ordered ^ _SIZE, ordered).int()
    return torch.where(keys == _NOTHING, -torch.inf, bits.view(torch.float32))


def _hits_of(keys: "Tensor") -> Hits:
    """Return *keys* (queries, k), the largest first, as hits."""
    import torch

    positions = torch.where(keys == _NOTHING, -1, _LOW - (keys & _LOW))
    return Hits(positions.int().numpy(), _scores_of(keys).numpy())


# ---- one device ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Vectors:
    """Vectors of documents, or of queries."""

    values: Any  # (vectors, dimensions), an array or a tensor
    offsets: NDArray[np.int64] | None  # (texts + 1,); None: one vector per text

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def rows(self, part: slice) -> slice:
        """Return the rows of the vectors of some texts."""
        return part if self.offsets is None else slice(int(self.offsets[part.start]), int(self.offsets[part.stop]))

    def counts(self, part: slice) -> NDArray[np.int64]:
        """Return the number of vectors of each of some texts, which have offsets."""
        assert self.offsets is not None
        return np.diff(self.offsets[part.start : part.stop + 1])

    def cut(self, most: int) -> list[slice]:
        """Return consecutive texts with at most *most* vectors together, or one text of more."""
        if self.offsets is not None:
            return list(pieces(self.offsets, most))
        return [slice(start, min(start + most, len(self))) for start in range(0, len(self), most)]


@dataclass(eq=False)
class _Device:
    """A device, the blocks of documents that it keeps, and how much room it has."""

    device: "torch.device"
    documents: _Vectors
    precision: str
    room: int = 0  # bytes for products and candidates
    kept: dict[tuple[int, int], Any] = field(default_factory=dict)  # blocks, by the documents in them
    _left: int = 0  # bytes for more blocks
    _kept_type: Any = None

    def __post_init__(self) -> None:
        """Ask for the free memory. Some of it is left to others, e.g. an encoder of queries."""
        import torch

        self._type = torch.bfloat16 if self.precision == "bfloat16" and self.device.type == "cuda" else torch.float32
        free = devices.free_memory(self.device)
        self.room = min(free // 4, _ROOM)
        self._left = (free - self.room) * 3 // 4
        # Blocks are kept as they are computed with, so that no search converts them, unless too few would fit.
        values = self.documents.values
        fits = values.size * self._type.itemsize <= self._left
        self._kept_type = torch.float16 if values.dtype == np.float16 and not fits else self._type

    def best(self, queries: _Vectors, parts: Sequence[slice], k: int) -> "Tensor":
        """Return the keys of the best *k* documents (queries, k) in the blocks *parts*, which ascend; the largest first."""
        import torch

        with torch.inference_mode():
            values = self._rounded(torch.tensor(queries.values, dtype=torch.float32, device=self.device))
            best = _Best(len(queries), k, self.device)
            for part, documents in self._blocks(parts):
                self._add(best, part, self._rounded(documents), _Vectors(values, queries.offsets))
            return best.keys()

    def _rounded(self, values: "Tensor") -> "Tensor":
        """Return *values* in the type that products take; a processor multiplies rounded numbers as float32."""
        import torch

        return values.to(torch.bfloat16).to(self._type) if self.precision == "bfloat16" else values.to(self._type)

    def _add(self, best: _Best, part: slice, documents: "Tensor", queries: _Vectors) -> None:
        """Add the scores of the documents *part* for all *queries* to *best*, some queries at a time."""
        import torch

        count = part.stop - part.start
        width = -(-count // _GROUP) * _GROUP
        # A query vector takes a row of scores, or a column of products and then, in three forms, its maxima.
        needed = 4 * width if queries.offsets is None else 4 * len(documents) + 24 * width
        for some in queries.cut(max(1, self.room // (2 * needed))):
            scores = torch.empty((some.stop - some.start, width), device=self.device)
            scores[:, count:] = -torch.inf
            asking = queries.values[queries.rows(some)]
            if queries.offsets is None:
                self._multiply(asking, documents.T, scores[:, :count])
            else:
                products = torch.empty((len(documents), len(asking)), device=self.device)
                self._multiply(documents, asking.T, products)
                counts = self.documents.counts(part), queries.counts(some)
                scores[:, :count] = _sums_of_maxima(products, *(torch.from_numpy(one).to(self.device) for one in counts))
            best.add(scores, part.start, some.start)

    def _multiply(self, left: "Tensor", right: "Tensor", out: "Tensor") -> None:
        """Write the products of two matrices into *out*, float32, in which they are added up."""
        import torch

        if self._type == torch.bfloat16:
            torch.mm(left, right, out_dtype=torch.float32, out=out)
        else:
            torch.mm(left, right, out=out)

    # ---- blocks ------------------------------------------------------------------------------------------------------------

    def _blocks(self, parts: Sequence[slice]) -> Iterator[tuple[slice, "Tensor"]]:
        """Yield the blocks *parts* on the device; while one is computed the next one is copied."""
        import torch

        missing = [part for part in parts if (part.start, part.stop) not in self.kept]
        if not missing:
            yield from ((part, self.kept[part.start, part.stop]) for part in parts)
            return
        cuda = self.device.type == "cuda"
        copies = torch.cuda.Stream(self.device) if cuda else None  # type: ignore[no-untyped-call]
        with ThreadPoolExecutor(1) as loader:
            coming = loader.submit(self._copied, missing[0], copies)
            for part in parts:
                if (part.start, part.stop) in self.kept:
                    yield part, self.kept[part.start, part.stop]
                    continue
                block, ready = coming.result()
                missing.pop(0)
                if missing:
                    coming = loader.submit(self._copied, missing[0], copies)
                if ready is not None:
                    here = torch.cuda.current_stream(self.device)
                    here.wait_event(ready)
                    block.record_stream(here)
                if (size := block.numel() * block.element_size()) <= self._left:
                    self.kept[part.start, part.stop], self._left = block, self._left - size
                yield part, block

    def _copied(self, part: slice, stream: "torch.cuda.Stream | None") -> tuple["Tensor", Any]:
        """Return the vectors of some documents on the device, and the event after which they are there."""
        import torch

        values = self.documents.values[self.documents.rows(part)]
        kind = torch.float16 if values.dtype == np.float16 else torch.float32
        host = torch.empty(values.shape, dtype=kind, pin_memory=stream is not None)
        host.numpy()[...] = values
        with torch.cuda.stream(stream) if stream is not None else nullcontext():
            block = host.to(self.device, non_blocking=True).to(self._kept_type)
            return block, None if stream is None else stream.record_event()

    def drop(self) -> None:
        """Keep no blocks any more."""
        self._left += sum(block.numel() * block.element_size() for block in self.kept.values())
        self.kept.clear()

    def shrink(self) -> None:
        """Keep no blocks, and use half as much memory from now on, because it was short."""
        self.drop()
        self.room, self._left = self.room // 2, self._left // 2


def _sums_of_maxima(products: "Tensor", documents: "Tensor", queries: "Tensor") -> "Tensor":
    """Return MaxSim scores (queries, documents), float32; -inf where one has no token.

    *products* (tokens of documents, tokens of queries); *documents* and *queries* are the numbers of tokens of each.
    """
    import torch

    largest = torch.segment_reduce(products, "max", lengths=documents, axis=0, unsafe=True)
    # In float64, so that the order of the tokens hardly matters.
    sums = torch.segment_reduce(largest.T.double().contiguous(), "sum", lengths=queries, axis=0, unsafe=True)
    return sums.masked_fill(queries[:, None] == 0, -torch.inf).float()


# ---- several devices -------------------------------------------------------------------------------------------------------


class DeviceVectors:
    """The vectors of documents, to be searched on one device or several."""

    def __init__(
        self, values: NDArray[Any], offsets: NDArray[np.int64] | None, found: Sequence["torch.device"], precision: str
    ) -> None:
        self._documents = _Vectors(values, offsets)
        self._found, self._precision = found, precision
        self._devices: list[_Device] = []
        self._parts: list[slice] = []

    def search(self, queries: NDArray[np.float32], offsets: NDArray[np.int64] | None, k: int) -> Hits:
        """Return the *k* largest scores of each query; of equal ones the lower position first.

        *queries* (vectors, dimensions) have *offsets* if the documents do. Scores are those of a processor but for the last
        digits of products. A device that is lost, or has too little memory for the smallest blocks, leaves its blocks to the
        others, with a warning; LexbenchError if none is left.
        """
        asked = _Vectors(queries, offsets)
        k = min(k, len(self._documents))
        hits = no_hits(len(asked), k)
        if not k or not len(asked):
            return hits
        with _float32_products(self._precision):
            if not self._devices:
                self._devices = [_Device(one, self._documents, self._precision) for one in self._found]
                self._cut()
            start = 0
            while start < len(asked):
                room = min(one.room for one in self._devices)
                some = slice(start, min(start + max(1, min(_QUERIES, room // 2 // _Best.bytes_per_query(k))), len(asked)))
                own = None if offsets is None else offsets[some.start : some.stop + 1] - offsets[some.start]
                if (keys := self._keys(_Vectors(queries[asked.rows(some)], own), k)) is None:
                    continue  # the same queries, with fewer of them or smaller blocks
                hits.docs[some], hits.scores[some] = _hits_of(keys)
                start = some.stop
        return hits

    def _cut(self) -> None:
        """Cut the documents into blocks for the device with the least room."""
        room = min(one.room for one in self._devices)
        vector = 4 * max(1, self._documents.values.shape[1])
        most = max(1, min(_BLOCK, room // 8) // vector)
        # The fast products of GPUs need even shapes.
        self._parts = self._documents.cut(most - most % _GROUP if most > _GROUP else most)

    def _keys(self, queries: _Vectors, k: int) -> "Tensor | None":
        """Return the best keys (queries, k) of all blocks, the largest first.

        None if they do not fit into memory, and blocks will be smaller.
        """
        import torch

        found, left = [], self._parts
        while left:
            shares = [left[number :: len(self._devices)] for number in range(len(self._devices))]
            work = [(one, share) for one, share in zip(self._devices, shares, strict=True) if share]
            left = []
            for (device, share), answer in zip(work, in_threads(partial(_attempt, queries, k), work, len(work)), strict=True):
                if isinstance(answer, str):
                    self._give_up(device, answer)
                    left += share
                elif answer is not None:
                    found.append(answer)
                elif device.room >= _LEAST_ROOM:
                    for one in self._devices:
                        one.drop()
                    self._cut()
                    return None
                else:
                    self._give_up(device, "its memory is too small")
                    left += share
            left.sort(key=lambda part: part.start)
        return found[0] if len(found) == 1 else torch.cat(found, 1).topk(k).values

    def _give_up(self, device: _Device, why: str) -> None:
        """Use *device* no more. Raises LexbenchError if it was the last one."""
        if self._devices == [device]:
            self._devices = []  # the next search tries again
            raise LexbenchError(f"searching on {device.device} failed: {why}; {_INSTEAD}")
        self._devices.remove(device)
        give_warning(f"searching on {device.device} failed, and other devices do its work: {why}", stacklevel=2)


def _attempt(queries: _Vectors, k: int, work: tuple[_Device, Sequence[slice]]) -> "Tensor | str | None":
    """Return the best keys of some blocks on a device; why it cannot be used any more; or None if memory is short."""
    import torch

    device, parts = work
    try:
        return device.best(queries, parts, k)
    except (torch.OutOfMemoryError, MemoryError):
        device.shrink()
        return None
    except RuntimeError as error:  # e.g. torch.AcceleratorError, if the GPU fell off the bus
        return str(error).partition("\n")[0]
