"""Isolation: lanes, caches, and the arrays of the caller, in both directions."""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.values import LayerConfig, Observation, Step


@killer(
    "write_batch0_only", fault="LANE-MIXED", violates="STORE-VALUES", says="lane 0 is written into every lane"
)
class _LaneZeroWritten(OpenLayerAdapter):
    def stored_keys(self, work: Work) -> Array:
        return np.broadcast_to(super().stored_keys(work)[:1], work.stages["rotated_key"].shape)

    def stored_values(self, work: Work) -> Array:
        return np.broadcast_to(super().stored_values(work)[:1], work.stages["value"].shape)


@killer(
    "batch_swapped_read", fault="LANE-MIXED", violates="ISOLATE-LANES", says="lanes are read in reverse order"
)
class _LanesReversed(OpenLayerAdapter):
    def retained_keys(self, work: Work) -> Array:
        return super().retained_keys(work)[::-1]

    def retained_values(self, work: Work) -> Array:
        return super().retained_values(work)[::-1]


@killer(
    "batch_mean",
    fault="LANE-MIXED",
    violates="ISOLATE-LANES",
    says="every lane reads the mean of the keys over lanes",
)
class _LanesAveraged(OpenLayerAdapter):
    def all_keys(self, work: Work) -> Array:
        keys = super().all_keys(work)
        return np.broadcast_to(keys.mean(axis=0, keepdims=True), keys.shape)


class _SharedBuffers(OpenLayerAdapter):
    """All caches of one shape share what `shared` names."""

    shared: tuple[int, ...] = (0, 1)

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Array, Array]] = {}

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        own = super().allocate(config, batch_size, capacity)
        kept = self.kept.setdefault((config, batch_size, capacity), own)
        for part in kept:
            part[...] = 0.0
        return kept[0] if 0 in self.shared else own[0], kept[1] if 1 in self.shared else own[1]


@killer(
    "layers_share_cache",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-CACHES",
    says="two caches share their buffers",
)
class _BuffersShared(_SharedBuffers):
    pass


@killer(
    "caches_share_values",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-CACHES",
    says="two caches share the buffer of their values",
)
class _ValuesShared(_SharedBuffers):
    shared = (1,)


@killer(
    "reset_reaches_other_caches",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-CACHES",
    says="the reset of one cache empties all caches of its layer",
)
class _ResetReachesAll(OpenLayerAdapter):
    def bind(self, cache: OpenCache, layer: OpenLayer) -> None:
        super().bind(cache, layer)
        cache.notes["all"] = layer.notes.setdefault("all", [])
        cache.notes["all"].append(cache)

    def reset(self, cache: OpenCache) -> None:
        for each in cache.notes.get("all", [cache]):
            super().reset(each)


# -- arrays that come in ------------------------------------------------------------------------------------


@killer(
    "alias_input",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-CALLER-ARRAY",
    says="value rows follow later changes of the caller's input array",
)
class _FollowsInput(OpenLayerAdapter):
    def write(self, work: Work) -> None:
        super().write(work)
        work.cache.notes.setdefault("inputs", {})[work.start] = work

    def _refresh(self, cache: OpenCache) -> None:
        for start, work in cache.notes.get("inputs", {}).items():
            if start < cache.length:
                again = self.value(work)
                cache.values[:, :, start : start + work.count] = again

    def held(self, cache: OpenCache) -> int:
        self._refresh(cache)
        return super().held(cache)

    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes.pop("inputs", None)

    def observe(self, cache: OpenCache) -> Observation:
        self._refresh(cache)
        return super().observe(cache)


@killer(
    "rotates_in_callers_array",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-INPUTS",
    says="the call scales its input in place and does not put it back",
)
class _ScalesInPlace(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        work.rows *= 2.0
        return made


# -- arrays that go out -------------------------------------------------------------------------------------


@killer(
    "snapshot_is_view",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-HANDED-OUT",
    says="a snapshot is a view of the buffers",
)
class _SnapshotView(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        return cache.keys[:, :, : cache.length], cache.values[:, :, : cache.length]


@killer(
    "snapshot_values_are_view",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-HANDED-OUT",
    says="a snapshot copies its keys and hands out its values as a view",
)
class _SnapshotValuesView(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        return cache.keys[:, :, : cache.length].copy(), cache.values[:, :, : cache.length]


@killer(
    "step_hands_out_stored_key",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-HANDED-OUT",
    says="the rotated key of a step is a view of its slot",
)
class _StepView(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        stored = work.cache.keys[:, :, work.start : work.start + work.count]
        return Step(**{**vars(made), "rotated_key": stored})


@killer(
    "snapshot_stays_tied",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-HANDED-OUT",
    says="what the caller writes into a snapshot is taken into the cache at the next call",
)
class _SnapshotTied(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        made = super().snapshot(cache)
        cache.notes["out"] = made
        return made

    def observe(self, cache: OpenCache) -> Observation:
        self._take(cache)
        return super().observe(cache)

    def held(self, cache: OpenCache) -> int:
        self._take(cache)
        return super().held(cache)

    def _take(self, cache: OpenCache) -> None:
        if "out" in cache.notes:
            keys, _ = cache.notes["out"]
            rows = min(keys.shape[2], cache.length)
            cache.keys[:, :, :rows] = keys[:, :, :rows]


@killer(
    "observe_advances",
    fault="READONLY-MUTATION",
    violates="STORE-LENGTH",
    says="looking at the cache raises its length",
)
class _ObserveAdvances(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        if 0 < cache.length < cache.capacity:
            cache.length += 1
        return shown


@killer(
    "full_prefix_appends",
    fault="READONLY-MUTATION",
    violates="STORE-LENGTH",
    says="the uncached pass appends to the cache that was used last",
)
class _FullPrefixAppends(OpenLayerAdapter):
    def advance(self, work: Work) -> None:
        super().advance(work)
        work.layer.notes["last"] = work.cache

    def full_prefix(self, layer: OpenLayer, rows: Array) -> Array:
        last = layer.notes.get("last")
        if last is not None and last.length < last.capacity:
            self.commit(self.compute(layer, last, rows[:, :1]))
        return super().full_prefix(layer, rows)
