"""Layers, rows and poisons that the tests of the NumPy layer share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reference_impl.layer import PARAMETER_NAMES, Layer, LayerCache, LayerConfig, RopeConfig, append

Array = NDArray[np.float64]
LARGE = 2.0**400
"""A finite number whose square times LARGE overflows by far more than any order of summation could hide."""


def config(**changes: Any) -> LayerConfig:
    """Grouped heads, four rows of positions to spare, D different from H*d."""
    rope = RopeConfig(
        base=changes.pop("base", 100.0),
        pairing=changes.pop("pairing", "adjacent"),
        max_positions=changes.pop("max_positions", 16),
    )
    shape = {"model_width": 10, "heads": 4, "kv_heads": 2, "head_width": 6, **changes}
    return LayerConfig(rope=rope, **shape)


def layer(seed: int = 1, **changes: Any) -> Layer:
    """A layer with random weights; the same seed and shapes give the same numbers."""
    random = np.random.default_rng(seed)
    made = config(**changes)
    return Layer.build(
        made, **{name: random.standard_normal(made.shape_of(name)) / 2 for name in PARAMETER_NAMES}
    )


def rows(of: Layer, count: int, *, batch_size: int = 2, seed: int = 2) -> Array:
    """Random input rows [B,count,D]."""
    return np.random.default_rng(seed).standard_normal((batch_size, count, of.config.model_width))


def filled(of: Layer, count: int, *, batch_size: int = 2, capacity: int = 8) -> LayerCache:
    """A cache that holds the first `count` random rows."""
    cache = LayerCache(of, batch_size, capacity)
    for t in range(count):
        append(of, cache, rows(of, count, batch_size=batch_size)[:, t : t + 1])
    return cache


def image(cache: LayerCache) -> tuple[Any, ...]:
    """Everything about a cache that a refused call must leave as it was: length, bytes, addresses."""
    return (
        cache.length,
        cache.key_storage.tobytes(),
        cache.value_storage.tobytes(),
        cache.key_address,
        cache.value_address,
        cache.binding,
    )


def diagonal(*, heads: int = 2, head_width: int = 2, **weights: Array) -> Layer:
    """An identity layer with D = H*d = G*d; weights given by name take the identity's place."""
    width = heads * head_width
    made = config(model_width=width, heads=heads, kv_heads=heads, head_width=head_width)
    return Layer.build(made, **{name: weights.get(name, np.eye(width)) for name in PARAMETER_NAMES})
