"""The cache of one layer: two fixed buffers, one length, one binding."""

from __future__ import annotations

import operator

import numpy as np

from reference_impl.layer.binding import Binding
from reference_impl.layer.layer import Layer
from reference_impl.layer.memory import Array, allocate, element_count, read_only
from reference_impl.layer.stages import first_non_finite
from reference_impl.layer.ticket import Place, Ticket
from reference_impl.layer_errors import (
    CacheFullError,
    CandidateNonFiniteError,
    CandidateShapeError,
    CapacityExceedsPositionsError,
    ZeroBatchSizeError,
    ZeroCapacityError,
)


class LayerCache:
    """Rotated keys and unrotated values of one layer; the row of lane b, head g at position p is slot p.

    Two row-major buffers [B,G,C,d], keys allocated before values, +0.0 at first and never replaced. Rows
    come in through `append`, or `prepare` and `commit`; there is no other way to write.
    Source: System 1, State.

    Raises, in this order: ZeroBatchSizeError, ZeroCapacityError, CapacityExceedsPositionsError (equal is
    allowed), ElementCountOverflowError, AllocationFailedError.
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, layer: Layer, batch_size: int, capacity: int) -> None:
        batch_size, capacity = operator.index(batch_size), operator.index(capacity)
        config = layer.config
        if batch_size < 1:
            raise ZeroBatchSizeError(batch_size)
        if capacity < 1:
            raise ZeroCapacityError(capacity)
        if capacity > config.rope.max_positions:
            raise CapacityExceedsPositionsError(capacity, config.rope.max_positions)
        shape = (batch_size, config.kv_heads, capacity, config.head_width)
        element_count(*shape)
        self._own(Binding.of(layer), allocate(shape), allocate(shape), 0)

    def _own(self, binding: Binding, keys: Array, values: Array, length: int) -> None:
        self._binding, self._length = binding, length
        self._keys, self._values = keys, values
        self._key_address, self._value_address = keys.ctypes.data, values.ctypes.data

    @property
    def binding(self) -> Binding:
        """What ties the cache to its layer."""
        return self._binding

    @property
    def batch_size(self) -> int:
        """B, the number of lanes."""
        return int(self._keys.shape[0])

    @property
    def model_width(self) -> int:
        """D of the layer that the cache was built for."""
        return self._binding.model_width

    @property
    def heads(self) -> int:
        """H, the query heads of the layer."""
        return self._binding.heads

    @property
    def kv_heads(self) -> int:
        """G, the key/value heads, of which rows are kept."""
        return self._binding.kv_heads

    @property
    def head_width(self) -> int:
        """d, the features of one row of one head."""
        return self._binding.head_width

    @property
    def capacity(self) -> int:
        """C, the rows that each lane has room for."""
        return int(self._keys.shape[2])

    @property
    def length(self) -> int:
        """n, the rows that each lane holds."""
        return self._length

    @property
    def is_empty(self) -> bool:
        """True when no row is held."""
        return self._length == 0

    @property
    def is_full(self) -> bool:
        """True when no further row fits."""
        return self._length == self.capacity

    @property
    def key_storage(self) -> Array:
        """The whole key buffer [B,G,C,d], unused slots too, for audits; read-only, the memory itself."""
        return read_only(self._keys)

    @property
    def value_storage(self) -> Array:
        """The whole value buffer [B,G,C,d], unused slots too, for audits; read-only, the memory itself."""
        return read_only(self._values)

    @property
    def key_address(self) -> int:
        """Where the key buffer begins in memory; it never moves."""
        return self._key_address

    @property
    def value_address(self) -> int:
        """Where the value buffer begins in memory; it never moves."""
        return self._value_address

    def place(self) -> Place:
        """Where the next rows go: the length, and the addresses of both buffers."""
        return Place(self._length, self._key_address, self._value_address)

    def reset(self) -> None:
        """Set the length to 0 and nothing else: same buffers, same bytes, same binding. Cannot fail."""
        self._length = 0

    def snapshot(self) -> tuple[Array, Array]:
        """Fresh copies of the logical keys and values, each [B,G,n,d].

        Raises ElementCountOverflowError or AllocationFailedError.
        """
        batch_size, kv_heads, _, head_width = self._keys.shape
        copies = []
        for storage in (self._keys, self._values):
            copy = allocate((batch_size, kv_heads, self._length, head_width), zeroed=False)
            np.copyto(copy, storage[:, :, : self._length])
            copies.append(copy)
        return copies[0], copies[1]

    def clone(self) -> LayerCache:
        """An equal cache in memory of its own, unused slots too. Raises AllocationFailedError."""
        twin = LayerCache.__new__(LayerCache)
        keys, values = (allocate(storage.shape, zeroed=False) for storage in (self._keys, self._values))
        np.copyto(keys, self._keys)
        np.copyto(values, self._values)
        twin._own(self._binding, keys, values, self._length)
        return twin

    def __eq__(self, other: object) -> bool:
        """Equal geometry, length, binding and whole buffers, numbers compared as numbers; not addresses."""
        if not isinstance(other, LayerCache):
            return NotImplemented
        return (
            self._binding == other._binding
            and self._length == other._length
            and np.array_equal(self._keys, other._keys)
            and np.array_equal(self._values, other._values)
        )

    def __repr__(self) -> str:
        return f"LayerCache(storage={list(self._keys.shape)}, length={self._length})"

    def _ticket(self, keys: Array, values: Array) -> Ticket:
        """A ticket for rows [B,G,T,d] that may be written next; private, as it is half a raw append.

        Raises, in this order: CandidateShapeError for keys, then values; CacheFullError;
        CandidateNonFiniteError for keys, then values.
        """
        batch_size, kv_heads, capacity, head_width = self._keys.shape
        rows = keys.shape[2] if keys.ndim == 4 else 1
        expected = (batch_size, kv_heads, rows, head_width)
        if keys.shape != expected:
            raise CandidateShapeError("key", expected, keys.shape)
        if values.shape != expected:
            raise CandidateShapeError("value", expected, values.shape)
        if self._length + rows > capacity:
            raise CacheFullError(capacity)
        if (index := first_non_finite(keys)) is not None:
            raise CandidateNonFiniteError(index, float(keys.reshape(-1)[index]), "key")
        if (index := first_non_finite(values)) is not None:
            raise CandidateNonFiniteError(index, float(values.reshape(-1)[index]), "value")
        return Ticket(self.place(), keys, values)

    def _write(self, ticket: Ticket) -> None:
        """Write matching rows into the next slots, keys before values, then raise the length.

        Private, because it checks nothing: `commit_all` has tested the ticket, and nothing here can fail.
        """
        start, stop = self._length, self._length + ticket.keys.shape[2]
        self._keys[:, :, start:stop] = ticket.keys
        self._values[:, :, start:stop] = ticket.values
        self._length = stop
