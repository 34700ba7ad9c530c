"""A small right layer that can be fed in several dtypes, and ones made from it that compute in less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformance import Declaration, LayerConfig, Precision
from tests.small_layer import Cache, Layer, SmallLayer


class NarrowLayer(SmallLayer):
    """Stores what it is fed in that dtype; 16-bit numbers are computed with in float32."""

    declaration = replace(SmallLayer.declaration, name="narrow", dtypes=("float64", "float32", "float16"))

    def build_cache(self, layer: Layer, batch_size: int, capacity: int) -> Cache:
        cache = super().build_cache(layer, batch_size, capacity)
        cache.keys, cache.values = (a.astype(layer.query.dtype) for a in (cache.keys, cache.values))
        return cache

    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        wide = Layer(layer.config, layer)  # type: ignore[arg-type] - it has the same four weights
        dtype = self.computed_in(rows.dtype)
        for name in ("query", "key", "value", "output"):
            setattr(wide, name, getattr(layer, name).astype(dtype))
        return super().append(wide, cache, rows.astype(dtype)).astype(rows.dtype)

    def computed_in(self, dtype: np.dtype[Any]) -> Any:
        return np.promote_types(dtype, np.float32)

    def rotated(self, rows: Any, position: int, config: LayerConfig) -> Any:
        return super().rotated(rows, position, config).astype(rows.dtype)


def only(dtype: str, base: type[NarrowLayer] = NarrowLayer, precision: Precision | None = None) -> Any:
    """The layer, or one made from it, with this as its only dtype."""
    made = base()
    said = {} if precision is None else {"precision": precision}
    made.declaration = Declaration(
        name=f"narrow-{dtype}", levels=("layer",), features=frozenset({"gqa"}), dtypes=(dtype,), **said
    )
    return made


class HalfInside(NarrowLayer):
    """Fed with float32, it computes in float16 and hands float32 out."""

    def computed_in(self, dtype: np.dtype[Any]) -> Any:
        return np.float16 if dtype == np.float32 else super().computed_in(dtype)


class HalfStored(NarrowLayer):
    """Fed with float32, it stores float16."""

    def build_cache(self, layer: Layer, batch_size: int, capacity: int) -> Cache:
        cache = super().build_cache(layer, batch_size, capacity)
        if layer.query.dtype == np.float32:
            cache.keys, cache.values = cache.keys.astype(np.float16), cache.values.astype(np.float16)
        return cache


class Stuck(NarrowLayer):
    """In every dtype but float64 it rotates at position 0."""

    def rotated(self, rows: Any, position: int, config: LayerConfig) -> Any:
        return super().rotated(rows, position if rows.dtype == np.float64 else 0, config)


class Shouts(NarrowLayer):
    """Hands float64 out whatever it is fed with."""

    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        return super().append(layer, cache, rows).astype(np.float64)
