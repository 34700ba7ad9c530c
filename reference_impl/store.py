"""Stores: rows go in, the whole prefix of each layer comes back bit for bit.

Three of them. `SlotCache` is the cache of System 2 as it stands in forge: one slot per layer, unchecked.
`GrowingStore` puts checked appends on top of it. `FixedStore` keeps every layer in buffers of a fixed
capacity that are never replaced. Source: Systems 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from reference_impl.layer.memory import element_count
from reference_impl.layer_errors import AllocationFailedError, CacheFullError
from reference_impl.row_checks import RowShape, require_exact, require_lanes, require_length, require_size

Array = NDArray[Any]
Pair = tuple[Array, Array]
"""Keys [B,G,n,dk] and values [B,G,n,dv] of one layer."""


class SlotCache:
    """A list with one slot per layer, each empty at first. Nothing is checked and nothing is copied."""

    def __init__(self, layers: int) -> None:
        self._slots: list[Pair | None] = [None] * layers

    def __len__(self) -> int:
        return len(self._slots)

    def get(self, layer: int) -> Pair | None:
        """The stored pair itself, or None while the slot is empty."""
        return self._slots[layer]

    def update(self, layer: int, pair: Pair) -> None:
        """Replace the pair of one layer by what is given."""
        self._slots[layer] = pair

    def reset(self) -> None:
        """Empty every slot: a fresh list with the same number of slots."""
        self._slots = [None] * len(self._slots)


class GrowingStore:
    """forge's slots with checked appends: an array longer by the new rows replaces the old, without limit.

    Stored arrays are read-only, so that whoever holds one cannot change the history.
    """

    def __init__(self, layers: int, shape: RowShape) -> None:
        self.layers, self.shape = layers, shape
        self.slots = SlotCache(layers)

    def append(self, layer: int, keys: Array, values: Array) -> Pair:
        """Append keys [B,G,T,dk] and values [B,G,T,dv] to one layer; return its whole prefix.

        Raises TypeError for rows of a dtype that the stored one would round; then nothing changes.
        """
        held = self.get(layer)
        keys, values = np.asarray(keys), np.asarray(values)
        self.shape.require(keys, values)
        # The first append is a concatenation too, hence a copy: the caller's arrays stay the caller's.
        past = held or (keys[:, :, :0], values[:, :, :0])
        require_exact(keys, past[0].dtype)
        require_exact(values, past[1].dtype)
        pair = _frozen(np.concatenate([past[0], keys], axis=2), np.concatenate([past[1], values], axis=2))
        self.slots.update(layer, pair)
        return pair

    def get(self, layer: int) -> Pair | None:
        """The stored pair itself, read-only, or None while the layer holds nothing."""
        _require_layer(layer, self.layers)
        return self.slots.get(layer)

    def length(self, layer: int) -> int:
        """Rows held by one layer."""
        pair = self.get(layer)
        return pair[0].shape[2] if pair else 0

    def truncate(self, length: int) -> None:
        """Keep the first `length` rows of every layer; each must hold that many."""
        require_length(length, min(map(self.length, range(self.layers))))
        if length == 0:
            self.reset()
            return
        # Copies, so that the rows given up do not stay in memory behind a view.
        self._replace(lambda array: array[:, :, :length].copy())

    def reorder(self, lanes: Sequence[int]) -> None:
        """Lane b becomes a copy of lane `lanes[b]` in every layer; lanes may repeat or be left out."""
        chosen = require_lanes(lanes, self.shape.batch_size)
        self._replace(lambda array: array[chosen])

    def fork(self) -> GrowingStore:
        """A store with the same prefix and a future of its own; the read-only history is shared."""
        child = GrowingStore(self.layers, self.shape)
        for layer in range(self.layers):
            if pair := self.slots.get(layer):
                child.slots.update(layer, pair)
        return child

    def reset(self) -> None:
        """Empty every layer."""
        self.slots.reset()

    def _replace(self, change: Callable[[Array], Array]) -> None:
        for layer in range(self.layers):
            if pair := self.slots.get(layer):
                self.slots.update(layer, _frozen(change(pair[0]), change(pair[1])))


class FixedStore:
    """Buffers of `capacity` rows per layer, keys before values, filled with +0.0 and never replaced.

    storage: the buffers [B,G,C,dk], [B,G,C,dv] of layer 0, then those of layer 1, and so on.
    Raises, in this order: ZeroBatchSizeError, ZeroCapacityError, ElementCountOverflowError,
    AllocationFailedError.
    """

    def __init__(
        self, layers: int, shape: RowShape, capacity: int, *, dtype: DTypeLike = np.float64
    ) -> None:
        require_size(shape.batch_size, capacity)
        self.layers, self.shape, self.capacity, self.dtype = layers, shape, capacity, np.dtype(dtype)
        lead = (shape.batch_size, shape.kv_heads, capacity)
        widths = (shape.key_width, shape.value_width) * layers
        self.storage = tuple(_zeros((*lead, width), self.dtype) for width in widths)
        self._lengths = [0] * layers

    def append(self, layer: int, keys: Array, values: Array) -> None:
        """Write keys [B,G,T,dk] and values [B,G,T,dv] behind the rows of one layer.

        Refuses a row too many as `full`, and raises TypeError for rows of a dtype that would be rounded;
        then nothing is written.
        """
        start = self.length(layer)
        keys, values = np.asarray(keys), np.asarray(values)
        stop = start + self.shape.require(keys, values)
        if stop > self.capacity:
            raise CacheFullError(self.capacity)
        require_exact(keys, self.dtype)
        require_exact(values, self.dtype)
        for buffer, rows in zip(self._buffers(layer), (keys, values), strict=True):
            buffer[:, :, start:stop] = rows
        self._lengths[layer] = stop

    def get(self, layer: int) -> Pair | None:
        """Read-only views of the rows held, or None while the layer holds nothing."""
        length = self.length(layer)
        keys, values = self._buffers(layer)
        return _frozen(keys[:, :, :length], values[:, :, :length]) if length else None

    def length(self, layer: int) -> int:
        """Rows held by one layer."""
        _require_layer(layer, self.layers)
        return self._lengths[layer]

    def truncate(self, length: int) -> None:
        """Keep the first `length` rows of every layer; each must hold that many. No byte changes."""
        require_length(length, min(self._lengths))
        self._lengths = [length] * self.layers

    def reorder(self, lanes: Sequence[int]) -> None:
        """Lane b becomes a copy of lane `lanes[b]` in every layer; lanes may repeat or be left out."""
        chosen = require_lanes(lanes, self.shape.batch_size)
        for layer, length in enumerate(self._lengths):
            for buffer in self._buffers(layer):
                # Indexing with an array copies before anything is written, so sources are never overwritten.
                buffer[:, :, :length] = buffer[chosen, :, :length]

    def fork(self) -> FixedStore:
        """A store of the same capacity with the same rows, in buffers of its own."""
        child = FixedStore(self.layers, self.shape, self.capacity, dtype=self.dtype)
        for layer, length in enumerate(self._lengths):
            for mine, its in zip(self._buffers(layer), child._buffers(layer), strict=True):
                its[:, :, :length] = mine[:, :, :length]
        child._lengths = list(self._lengths)
        return child

    def reset(self) -> None:
        """Empty every layer: the lengths become 0; buffers and bytes stay."""
        self._lengths = [0] * self.layers

    def _buffers(self, layer: int) -> Pair:
        return self.storage[2 * layer], self.storage[2 * layer + 1]


def _require_layer(layer: int, layers: int) -> None:
    # A negative index would silently be another layer.
    if not 0 <= layer < layers:
        raise IndexError(f"layer {layer} was asked for; the store has layers 0 to {layers - 1}")


def _zeros(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    elements = element_count(*shape)
    try:
        return np.zeros(shape, dtype)
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than an array can have
        raise AllocationFailedError(elements) from error


def _frozen(keys: Array, values: Array) -> Pair:
    views = keys.view(), values.view()
    for view in views:
        view.setflags(write=False)
    return views
