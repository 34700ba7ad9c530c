"""A clean store of fixed capacity, one method an idea: the base of store killers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.rejections import Rejected
from conformance.values import Observation, StoreConfig

Array = NDArray[Any]


@dataclass(eq=False)
class Store:
    """Buffers [B,G,C,*] and a length for each layer. `notes` are for faults."""

    config: StoreConfig
    lanes: int
    capacity: int
    keys: list[Array]
    values: list[Array]
    lengths: list[int]
    notes: dict[str, Any] = field(default_factory=dict)


class OpenStoreAdapter:
    """Level store with every feature of the level; the clean class passes all that it declares."""

    name = "open-store"

    @property
    def declaration(self) -> Declaration:
        """As the class stands."""
        features = frozenset({"truncate", "fork", "reorder", "snapshot", "storage"})
        return Declaration(name=self.name, levels=("store",), features=features, rows_per_append="any")

    def build_store(self, config: StoreConfig, batch_size: int, capacity: int | None = None) -> Store:
        """Empty buffers."""
        rows = capacity or 64
        keys = [self.buffer(config, batch_size, rows, config.key_width) for _ in range(config.layers)]
        values = [self.buffer(config, batch_size, rows, config.value_width) for _ in range(config.layers)]
        return Store(config, batch_size, rows, keys, values, self.first_lengths(config))

    def buffer(self, config: StoreConfig, lanes: int, rows: int, width: int) -> Array:
        """One buffer of +0.0."""
        return np.zeros((lanes, config.kv_heads, rows, width))

    def first_lengths(self, config: StoreConfig) -> list[int]:
        """Lengths of a new store."""
        return [0] * config.layers

    def append(self, store: Store, layer: int, keys: Array, values: Array) -> Any:
        """Rows behind those of the layer."""
        start = store.lengths[layer]
        self.check_room(store, start, keys.shape[2])
        self.write(store, layer, start, (keys, values))
        self.raise_length(store, layer, start + keys.shape[2])

    def check_room(self, store: Store, start: int, count: int) -> None:
        """Refuse the row too many."""
        if start + count > store.capacity:
            raise Rejected("full", f"{count} rows behind {start} of {store.capacity}")

    def write(self, store: Store, layer: int, start: int, rows: tuple[Array, Array]) -> None:
        """Both buffers of one layer."""
        stop = start + rows[0].shape[2]
        store.keys[layer][:, :, start:stop], store.values[layer][:, :, start:stop] = rows

    def raise_length(self, store: Store, layer: int, length: int) -> None:
        """After the write."""
        store.lengths[layer] = length

    def observe(self, store: Store, layer: int) -> Observation:
        """Views; the player copies."""
        seen = slice(0, store.lengths[layer])
        keys, values = store.keys[layer], store.values[layer]
        return Observation(
            store.lengths[layer], store.capacity, keys[:, :, seen], values[:, :, seen],
            (*store.keys, *store.values),
        )  # fmt: skip

    def snapshot(self, store: Store) -> tuple[Array, Array]:
        """Copies of layer 0."""
        seen = slice(0, store.lengths[0])
        return store.keys[0][:, :, seen].copy(), store.values[0][:, :, seen].copy()

    def reset(self, store: Store) -> None:
        """Every length to 0."""
        store.lengths = [0] * store.config.layers

    def truncate(self, store: Store, length: int) -> None:
        """Keep the first rows of every layer."""
        if not 0 <= length <= min(store.lengths):
            raise Rejected("invalid_length", f"{length} of {min(store.lengths)}")
        store.lengths = [length] * store.config.layers

    def fork(self, store: Store) -> Store:
        """Buffers of its own."""
        keys, values = ([buffer.copy() for buffer in part] for part in (store.keys, store.values))
        return Store(store.config, store.lanes, store.capacity, keys, values, list(store.lengths))

    def reorder(self, store: Store, lanes: list[int]) -> None:
        """Lane i takes what lane lanes[i] held."""
        if len(lanes) != store.lanes or any(not 0 <= lane < store.lanes for lane in lanes):
            raise Rejected("lane_out_of_range", f"lanes {lanes} of {store.lanes}")
        for buffer in (*store.keys, *store.values):
            buffer[...] = buffer[lanes]
