"""Other ways of keeping rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.adapter import Declaration
from conformance.killers.controls.model import control
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.values import LayerConfig, Observation


class _WithoutStorage(OpenLayerAdapter):
    """Does not show its buffers."""

    hidden: tuple[str, ...] = ("storage",)

    @property
    def declaration(self) -> Declaration:
        made = super().declaration
        return replace(made, features=made.features - set(self.hidden))

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return Observation(shown.length, shown.capacity, shown.keys, shown.values)


@control("keeps_position_major", says="rows lie position-major, [B,C,G,d]", strict=False)
class _PositionMajor(_WithoutStorage):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        shape = (batch_size, capacity, config.kv_heads, config.head_width)
        return np.zeros(shape).swapaxes(1, 2), np.zeros(shape).swapaxes(1, 2)


@control("keeps_one_buffer", says="keys and values lie in one buffer", strict=False)
class _OneBuffer(_WithoutStorage):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        both = np.zeros((2, batch_size, config.kv_heads, capacity, config.head_width))
        return both[0], both[1]


@control("growing", says="buffers start with one row and are doubled when they are full", strict=False)
class _Growing(OpenLayerAdapter):
    dropped = ("room",)

    @property
    def declaration(self) -> Declaration:
        return replace(super().declaration, capacity="growing")

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        return super().allocate(config, batch_size, min(capacity, 1))

    def write(self, work: Work) -> None:
        cache = work.cache
        while cache.keys.shape[2] < work.start + work.count:
            cache.keys, cache.values = (
                np.concatenate([part, np.zeros_like(part)], axis=2) for part in (cache.keys, cache.values)
            )
        super().write(work)

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return Observation(shown.length, None, shown.keys, shown.values, shown.storage)


@control("rounded", says="the capacity is rounded up to a multiple of 6", strict=False)
class _Rounded(OpenLayerAdapter):
    @property
    def declaration(self) -> Declaration:
        return replace(super().declaration, capacity="rounded")

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        return super().allocate(config, batch_size, -(-capacity // 6) * 6)

    def bind(self, cache: OpenCache, layer: OpenLayer) -> None:
        super().bind(cache, layer)
        cache.capacity = cache.keys.shape[2]


@control("functional", says="every append makes new arrays and lets go of the old ones", strict=False)
class _Functional(_WithoutStorage):
    hidden = ("storage", "poison")

    def write(self, work: Work) -> None:
        work.cache.keys, work.cache.values = work.cache.keys.copy(), work.cache.values.copy()
        super().write(work)

    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.keys, cache.values = np.zeros_like(cache.keys), np.zeros_like(cache.values)


@control("unrotated_keys", says="keys are kept as projected and rotated at their own positions when read",
         strict=False)  # fmt: skip
class _UnrotatedKeys(OpenLayerAdapter):
    @property
    def declaration(self) -> Declaration:
        return replace(super().declaration, keys="unrotated")

    def stored_keys(self, work: Work) -> Array:
        return work.stages["key"]

    def retained_keys(self, work: Work) -> Array:
        return self.rotate(work.layer.config, super().retained_keys(work), np.arange(work.start))


@control("list_of_rows", says="a cache is a list of rows; nothing is allocated in advance", strict=False)
class _ListOfRows(_WithoutStorage):
    hidden = ("storage", "poison", "fork", "reorder", "truncate")

    def rows(self, cache: OpenCache, part: str) -> Array:
        """The rows of one part, joined."""
        kept = cache.notes.get(part, [])
        empty = getattr(cache, part)[:, :, :0]
        return np.concatenate([empty, *kept], axis=2)

    def retained_keys(self, work: Work) -> Array:
        return self.rows(work.cache, "keys")

    def retained_values(self, work: Work) -> Array:
        return self.rows(work.cache, "values")

    def write(self, work: Work) -> None:
        for part, made in (("keys", self.stored_keys(work)), ("values", self.stored_values(work))):
            work.cache.notes.setdefault(part, []).append(np.array(made))

    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes.clear()

    def observe(self, cache: OpenCache) -> Observation:
        return Observation(cache.length, cache.capacity, self.rows(cache, "keys"), self.rows(cache, "values"))

    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        return self.rows(cache, "keys"), self.rows(cache, "values")
