"""What a cache shows of itself or hands out is wrong; what it computes with is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.rejections import Rejected
from conformance.values import LayerConfig, Observation, Step


@killer(
    "shown_keys_negated",
    fault="UPDATE-NOT-VISIBLE",
    violates="STORE-KEYS",
    says="the keys that are shown are not the ones that are read",
)
class _KeysNegated(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return replace(shown, keys=-shown.keys)


@killer(
    "shown_values_negated",
    fault="UPDATE-NOT-VISIBLE",
    violates="STORE-VALUES",
    says="the values that are shown are not the ones that are read",
)
class _ValuesNegated(OpenLayerAdapter):
    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return replace(shown, values=-shown.values)


@killer(
    "snapshot_keys_unrotated",
    fault="ROPE-WRONG-ROWS",
    violates="STORE-KEYS",
    says="the keys of a snapshot are in reverse order",
)
class _SnapshotKeys(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        keys, values = super().snapshot(cache)
        return keys[..., ::-1].copy(), values


@killer(
    "snapshot_values_of_other_lane",
    fault="LANE-MIXED",
    violates="STORE-VALUES",
    says="the values of a snapshot are those of another lane",
)
class _SnapshotValues(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        keys, values = super().snapshot(cache)
        return keys, values[::-1].copy()


@killer(
    "snapshot_is_locked_view",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-HANDED-OUT",
    says="a snapshot is a view of the buffers that cannot be written, and changes under its owner",
)
class _LockedView(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        seen = cache.keys[:, :, : cache.length], cache.values[:, :, : cache.length]
        for part in seen:
            part.flags.writeable = False
        return seen


@killer(
    "shown_rows_follow_snapshot",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-HANDED-OUT",
    says="the rows that are shown are the arrays of the last snapshot, which its owner may write over",
)
class _ShownFollow(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        made = super().snapshot(cache)
        cache.notes["out"] = made[0]
        return made

    def advance(self, work: Work) -> None:
        super().advance(work)
        work.cache.notes.pop("out", None)

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        return replace(shown, keys=cache.notes.get("out", shown.keys))


@killer(
    "shown_values_follow_input",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-CALLER-ARRAY",
    says="the newest value row is shown from the caller's array until the next call",
)
class _ShownFollowInput(OpenLayerAdapter):
    def advance(self, work: Work) -> None:
        super().advance(work)
        work.cache.notes["newest"] = work

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        work: Any = cache.notes.get("newest")
        if work is None or cache.length != work.start + work.count:
            return shown
        values = shown.values.copy()
        values[:, :, work.start :] = self.value(work)
        return replace(shown, values=values)


@killer(
    "heads_repeated_in_storage",
    fault="GQA-REPEAT-ORDER",
    violates="GQA-STORED-HEADS",
    says="storage has room for H heads where G are kept",
)
class _RoomForAllHeads(OpenLayerAdapter):
    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        keys, values = super().allocate(replace(config, kv_heads=config.heads), batch_size, capacity)
        return keys[:, : config.kv_heads], values[:, : config.kv_heads]

    def observe(self, cache: OpenCache) -> Observation:
        shown = super().observe(cache)
        whole = tuple(part if part.base is None else part.base for part in (cache.keys, cache.values))
        return replace(shown, storage=whole)


@killer(
    "reset_frees_one_slot_too_many",
    fault="RESET-TOUCHES-STORAGE",
    violates="RESET-CAPACITY",
    says="after a reset one row more is taken than the cache has slots, and lost",
)
class _OneSlotTooMany(OpenLayerAdapter):
    dropped = ("room",)

    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes["extra"] = 1

    def admit(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> None:
        super().admit(layer, cache, rows)
        if cache.length + rows.shape[1] > cache.capacity + cache.notes.get("extra", 0):
            raise Rejected("full", "no slot is left")

    def write(self, work: Work) -> None:
        free = work.cache.capacity - work.start
        work.cache.keys[:, :, work.start :][:, :, : work.count] = self.stored_keys(work)[:, :, :free]
        work.cache.values[:, :, work.start :][:, :, : work.count] = self.stored_values(work)[:, :, :free]


@killer(
    "fork_moves_last_bits_of_keys",
    fault="FORK-LOSES-STATE",
    violates="FORK-EQUAL",
    says="the keys of a fork differ from those of its origin in their last bits",
)
class _ForkMovesKeys(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        made.keys = np.nextafter(made.keys, np.inf)
        return made


@killer(
    "fork_moves_last_bits_of_values",
    fault="FORK-LOSES-STATE",
    violates="FORK-EQUAL",
    says="the values of a fork differ from those of its origin in their last bits",
)
class _ForkMovesValues(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        made.values = np.nextafter(made.values, np.inf)
        return made


@killer(
    "reorder_values_only",
    fault="BATCH-REORDER",
    violates="REORDER-LANES",
    says="only the values are reordered",
)
class _ValuesOnly(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        keys = cache.keys.copy()
        super().reorder(cache, lanes)
        cache.keys[...] = keys


@killer(
    "truncate_clears_last_kept_key",
    fault="CROP-EDGE",
    violates="TRUNCATE-KEEPS",
    says="keys are cleared from one row too early",
)
class _KeyCleared(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length)
        cache.keys[:, :, max(length - 1, 0) :] = 0.0


@killer(
    "positions_in_seven_bits",
    fault="LONG-HISTORY",
    violates="AGREE-OUTPUT",
    says="positions are kept in seven bits: row 128 is rotated at 0",
)
class _SevenBits(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return super().positions(work) % 128


@killer(
    "tile_of_sixty_four_dropped",
    fault="LONG-HISTORY",
    violates="AGREE-OUTPUT",
    says="a history of more than one tile of 64 rows loses the last row of its first tile",
)
class _TileDropped(OpenLayerAdapter):
    def masked(self, work: Work) -> Array:
        made = super().masked(work)
        if made.shape[-1] > 64:
            made[..., 63] = -np.inf
        return made


class _OldRowsMove(OpenLayerAdapter):
    """Once the history is long, an old row of one part moves by its last bits."""

    part = ""

    def advance(self, work: Work) -> None:
        super().advance(work)
        if work.cache.length > 70:
            row = getattr(work.cache, self.part)[:, :, 5]
            row[...] = np.nextafter(row, np.inf)


for _part in ("keys", "values"):
    killer(
        f"old_{_part}_move_in_long_history",
        fault="LONG-HISTORY",
        violates="STORE-EARLIER-ROWS",
        says=f"from 70 rows on each call moves the last bits of old {_part}",
    )(type(f"OldRowsMove_{_part}", (_OldRowsMove,), {"part": _part}))


@killer(
    "rounded_capacity_refuses_early",
    fault="FULL-OVERRUN",
    violates="CAPACITY-FITS",
    says="a capacity that is rounded up is shown, and refused from the asked one on",
)
class _RoundedRefusesEarly(OpenLayerAdapter):
    @property
    def declaration(self) -> Declaration:
        return replace(super().declaration, capacity="rounded")

    def allocate(self, config: LayerConfig, batch_size: int, capacity: int) -> tuple[Array, Array]:
        return super().allocate(config, batch_size, -(-capacity // 6) * 6)

    def observe(self, cache: OpenCache) -> Observation:
        return replace(super().observe(cache), capacity=cache.keys.shape[2])


@killer(
    "work_claims_two_new_rows",
    fault="WORK-CLAIM",
    violates="REUSE-WORK-STEP",
    says="two incremental rows are declared for one",
)
class _TwoNewRows(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        return replace(
            made, work=None if made.work is None else replace(made.work, incremental_rows=work.count + 1)
        )
