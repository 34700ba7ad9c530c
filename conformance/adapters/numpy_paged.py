"""The embedded layer on paged storage, behind the adapter of its level."""

from __future__ import annotations

from typing import Any

import numpy as np

import reference_impl.layer as reference
from conformance.adapter import Declaration
from conformance.adapters.numpy_layer import NumpyLayerAdapter, rejecting, step_of
from conformance.values import Observation, Step
from reference_impl import paged

SEQUENCES = 3
"""Sequences that a pool has room for when none is asked for: a cache, a fork of it, and one beside."""


class NumpyPagedAdapter(NumpyLayerAdapter):
    """The NumPy layer with its cache in blocks of `block_size` rows, physical blocks shuffled by `seed`.

    A reset gives the blocks back, so nothing is promised of stored bytes after it.
    """

    def __init__(self, block_size: int = 4, seed: int = 0) -> None:
        super().__init__("any")
        self.block_size, self.seed = block_size, seed
        features = self.declaration.features - {"storage"} | {"paged"}
        self.declaration = Declaration(
            name=f"numpy-paged, blocks of {block_size}",
            version=f"NumPy {np.__version__}",
            levels=("layer",),
            features=features,
            rows_per_append="any",
        )

    def build_cache(self, layer: reference.Layer, batch_size: int, capacity: int) -> Any:
        """An empty cache over a pool of its own."""
        with rejecting():
            return paged.PagedLayerCache(
                layer, batch_size, capacity, block_size=self.block_size, sequences=SEQUENCES, seed=self.seed
            )

    def build_paged(
        self, layer: reference.Layer, batch_size: int, capacity: int, *, block_size: int, blocks: int,
        shared_with: Any = None,
    ) -> Any:  # fmt: skip
        """An empty cache over a pool of `blocks` blocks, or in the pool of the cache `shared_with`."""
        config = layer.config
        with rejecting():
            pool = shared_with.pool if shared_with is not None else paged.BlockPool(
                blocks=blocks, block_size=block_size, kv_heads=config.kv_heads,
                key_width=config.head_width, value_width=config.head_width, seed=self.seed,
            )  # fmt: skip
            return paged.PagedLayerCache(layer, batch_size, capacity, pool=pool)

    def append(self, layer: reference.Layer, cache: Any, rows: Any) -> Step:
        """Append rows [B,T,D]; every field of the step is given."""
        with rejecting():
            return step_of(paged.append(layer, cache, rows, rows_per_append="any"))

    def observe(self, cache: Any) -> Observation:
        """The logical rows, gathered, and the tables and pool behind them."""
        keys, values = cache.snapshot()
        return Observation(
            cache.length,
            cache.capacity,
            keys,
            values,
            extra={
                "block_size": cache.pool.block_size,
                "block_tables": cache.tables,
                "free_blocks": len(cache.pool.free),
                "pool_blocks": cache.pool.blocks,
            },
        )

    def poison(self, cache: Any, value: float) -> None:
        """Fill every stored number that nobody may read."""
        cache.poison(value)

    def truncate(self, cache: Any, length: int) -> None:
        """Keep the first `length` rows; blocks no longer needed go back."""
        with rejecting():
            cache.truncate(length)

    def fork(self, cache: Any) -> Any:
        """A cache that shares the blocks until one of both writes into them."""
        return cache.fork()

    def reorder(self, cache: Any, lanes: Any) -> None:
        """Lane b takes what lane `lanes[b]` held."""
        with rejecting():
            cache.reorder(lanes)


def numpy_paged() -> NumpyPagedAdapter:
    """The built-in adapter `numpy-paged`."""
    return NumpyPagedAdapter()
