"""A small right layer cache, and broken ones made from it: each one change, none of them ours elsewhere."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from conformance import Declaration, LayerConfig, LayerParameters, Observation, Rejected


class Layer:
    def __init__(self, config: LayerConfig, parameters: LayerParameters) -> None:
        self.config = config
        self.query, self.key, self.value, self.output = (
            np.array(w) for w in (parameters.query, parameters.key, parameters.value, parameters.output)
        )


class Cache:
    def __init__(self, layer: Layer, batch_size: int, capacity: int) -> None:
        c = layer.config
        shape = (batch_size, c.kv_heads, capacity, c.head_width)
        self.config, self.keys, self.values, self.length = c, np.zeros(shape), np.zeros(shape), 0


class SmallLayer:
    """A layer cache that takes one row at a time and declares no feature but gqa."""

    declaration = Declaration(name="small", levels=("layer",), features=frozenset({"gqa"}))

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> Layer:
        return Layer(config, parameters)

    def build_cache(self, layer: Layer, batch_size: int, capacity: int) -> Cache:
        if capacity > layer.config.rope.max_positions:
            raise Rejected("capacity_exceeds_positions")
        return Cache(layer, batch_size, capacity)

    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        c, p = layer.config, cache.length
        if p == cache.keys.shape[2]:
            raise Rejected("full", f"the cache holds {p} rows")
        query, key, value = (
            (rows @ w).reshape(rows.shape[0], 1, -1, c.head_width).transpose(0, 2, 1, 3)
            for w in (layer.query, layer.key, layer.value)
        )
        query, key = self.rotated(query, p, c), self.rotated(key, p, c)
        keys = np.concatenate([cache.keys[:, :, :p], key], axis=2)
        values = np.concatenate([cache.values[:, :, :p], value], axis=2)
        group = c.heads // c.kv_heads
        scores = query @ np.repeat(keys, group, axis=1).swapaxes(2, 3) / np.sqrt(c.head_width)
        weights = np.exp(scores - scores.max(axis=3, keepdims=True))
        weights /= weights.sum(axis=3, keepdims=True)
        heads = weights @ np.repeat(values, group, axis=1)
        output = heads.transpose(0, 2, 1, 3).reshape(rows.shape[0], 1, -1) @ layer.output
        if not all(np.isfinite(a).all() for a in (scores, key, value, output)):
            raise Rejected("non_finite")
        cache.keys[:, :, p : p + 1], cache.values[:, :, p : p + 1] = key, value
        cache.length = p + 1
        return output

    def rotated(self, rows: Any, position: int, config: LayerConfig) -> Any:
        half = config.head_width // 2
        angles = position * config.rope.base ** (-2.0 * np.arange(half) / config.head_width)
        cos, sin = np.cos(angles), np.sin(angles)
        turned = np.empty_like(rows)
        adjacent = config.rope.pairing == "adjacent"
        left = np.s_[..., 0::2] if adjacent else np.s_[..., :half]
        right = np.s_[..., 1::2] if adjacent else np.s_[..., half:]
        turned[left] = rows[left] * cos - rows[right] * sin
        turned[right] = rows[left] * sin + rows[right] * cos
        return turned

    def observe(self, cache: Cache) -> Observation:
        n = cache.length
        return Observation(n, cache.keys.shape[2], keys=cache.keys[:, :, :n], values=cache.values[:, :, :n])

    def reset(self, cache: Cache) -> None:
        cache.length = 0


class WrongScale(SmallLayer):
    """Every output is a little off."""

    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        return super().append(layer, cache, rows) * (1 + 1e-9)


class StuckPosition(SmallLayer):
    """Every row is rotated at position 0."""

    def rotated(self, rows: Any, position: int, config: LayerConfig) -> Any:
        return super().rotated(rows, 0, config)


class WrongShape(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        return super().append(layer, cache, rows)[:, 0]


class WrongDtype(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        return super().append(layer, cache, rows).astype(np.float32)


class ComplexDtype(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        return super().append(layer, cache, rows).astype(complex)


class Nans(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        return super().append(layer, cache, rows) * np.nan


class Nothing(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        super().append(layer, cache, rows)


class Lists(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        return super().append(layer, cache, rows).tolist()


class Exits(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        raise SystemExit(0)


class Interrupts(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        raise KeyboardInterrupt


class Raises(SmallLayer):
    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        raise RuntimeError("the kernel could not be launched")


class Warns(SmallLayer):
    """Right, but noisy: under -W error a warning of its own must not count against it."""

    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        warnings.warn("an old call", DeprecationWarning, stacklevel=2)
        return super().append(layer, cache, rows)


class ObservesNothing(SmallLayer):
    def observe(self, cache: Cache) -> Any:
        return None


class Dies(SmallLayer):
    """Ends its whole process, as a crash in native code does."""

    def append(self, layer: Layer, cache: Cache, rows: Any) -> Any:
        os._exit(11)


def factory_exits() -> Any:
    raise SystemExit("no such device")


def factory_interrupts() -> Any:
    raise KeyboardInterrupt


def factory_raises() -> Any:
    raise RuntimeError("no such device")


def factory_returns_none() -> Any:
    return None


NUMBER = 3
