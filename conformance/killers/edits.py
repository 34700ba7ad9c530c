"""Rollback, fork, reorder."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import OpenCache, Work

# -- rollback -----------------------------------------------------------------------------------------------


@killer("truncate_noop", fault="ROLLBACK-NOOP", violates="TRUNCATE-LENGTH", says="truncate does nothing")
class _TruncateNothing(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        kept = cache.length
        super().truncate(cache, length)
        cache.length = kept


@killer(
    "truncate_resets", fault="ROLLBACK-NOOP", violates="TRUNCATE-LENGTH", says="truncate empties the cache"
)
class _TruncateResets(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length)
        cache.length = 0


@killer(
    "truncate_keeps_slot",
    fault="ROLLBACK-NOOP",
    violates="TRUNCATE-FORGETS",
    says="truncate lowers the length but not the place where the next row is written",
)
class _KeepsSlot(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        cache.notes["slot"] = cache.length
        super().truncate(cache, length)

    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes.pop("slot", None)

    def slot(self, work: Work) -> int:
        at = int(work.cache.notes.get("slot", super().slot(work)))
        if "slot" in work.cache.notes:
            work.cache.notes["slot"] = at + work.count
        return min(at, work.cache.capacity - work.count)


@killer(
    "truncate_zero_is_nothing",
    fault="CROP-EDGE",
    violates="TRUNCATE-LENGTH",
    says="a length of 0 is read as nothing to remove",
)
class _ZeroIsNothing(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length or cache.length)


@killer(
    "truncate_counts_from_end",
    fault="CROP-EDGE",
    violates="TRUNCATE-LENGTH",
    says="the number is read as how many rows to remove",
)
class _CountsFromEnd(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length)
        cache.length = max(cache.length + (self.before(cache) - 2 * length), 0)

    def before(self, cache: OpenCache) -> int:
        """The rows that were held."""
        return cache.high_water


@killer(
    "truncate_negative_relative",
    fault="CROP-EDGE",
    violates="TRUNCATE-REFUSED",
    says="a negative length is read as how many rows to remove",
)
class _NegativeRelative(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length if length >= 0 else max(cache.length + length, 0))


@killer(
    "truncate_extends",
    fault="LEN-CAPACITY-CONFUSION",
    violates="TRUNCATE-REFUSED",
    says="a length beyond the present one is accepted: slots that were never written count as rows",
)
class _Extends(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        if cache.length < length <= cache.capacity:
            cache.length = length
            return
        super().truncate(cache, length)


@killer(
    "truncate_clips",
    fault="CROP-EDGE",
    violates="TRUNCATE-REFUSED",
    says="a length beyond the present one is clipped to it without a word",
)
class _Clips(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, min(length, cache.length))


@killer(
    "truncate_shrinks",
    fault="CROP-EDGE",
    violates="TRUNCATE-FORGETS",
    says="truncate replaces the buffers by smaller ones, and the capacity shrinks",
)
class _Shrinks(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length)
        cache.capacity = max(length, 1)
        cache.keys = cache.keys[:, :, : cache.capacity].copy()
        cache.values = cache.values[:, :, : cache.capacity].copy()


@killer(
    "truncate_drops_first_rows",
    fault="CROP-EDGE",
    violates="TRUNCATE-KEEPS",
    says="the oldest rows are removed instead of the newest",
)
class _DropsFirst(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        gone = cache.length - length
        super().truncate(cache, length)
        for part in (cache.keys, cache.values):
            part[:, :, :length] = part[:, :, gone : gone + length].copy()


@killer(
    "truncate_clears_last_kept_value",
    fault="CROP-EDGE",
    violates="TRUNCATE-KEEPS",
    says="values are cleared from one row too early",
)
class _ClearsOneTooMany(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        super().truncate(cache, length)
        cache.values[:, :, max(length - 1, 0) :] = 0.0


@killer(
    "truncate_refusal_truncates",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-LENGTH",
    says="a refused truncation has emptied the cache",
)
class _RefusalTruncates(OpenLayerAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        kept, cache.length = cache.length, 0
        if 0 <= length <= kept:
            cache.length = length
        else:
            super().truncate(cache, length)


# -- fork ---------------------------------------------------------------------------------------------------


@killer(
    "fork_shares_buffers",
    fault="FORK-NO-COW",
    violates="FORK-APART",
    says="origin and fork share their buffers",
)
class _ForkShares(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        made.keys, made.values = cache.keys, cache.values
        return made


@killer(
    "fork_shares_values",
    fault="FORK-NO-COW",
    violates="FORK-APART",
    says="a fork copies the keys and shares the values",
)
class _ForkSharesValues(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        made.values = cache.values
        return made


@killer(
    "fork_is_origin", fault="FORK-NO-COW", violates="FORK-APART", says="a fork is another name of its origin"
)
class _ForkIsOrigin(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        return cache


@killer("fork_loses_values", fault="FORK-LOSES-STATE", violates="FORK-EQUAL", says="a fork loses its values")
class _ForkLosesValues(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        made.values[...] = 0.0
        return made


@killer("fork_loses_length", fault="FORK-LOSES-STATE", violates="FORK-EQUAL", says="a fork starts empty")
class _ForkLosesLength(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        made.length = 0
        return made


@killer(
    "fork_rounds_keys",
    fault="FORK-LOSES-STATE",
    violates="FORK-EQUAL",
    says="the keys of a fork pass through float32",
)
class _ForkRounds(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        made.keys = made.keys.astype(np.float32).astype(np.float64)
        return made


@killer(
    "fork_changes_origin",
    fault="FORK-LOSES-STATE",
    violates="FORK-APART",
    says="a fork takes the rows from its origin",
)
class _ForkTakesRows(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        made = super().fork(cache)
        cache.values[...] = 0.0
        return made


# -- reorder ------------------------------------------------------------------------------------------------


@killer(
    "reorder_keys_only", fault="BATCH-REORDER", violates="REORDER-LANES", says="only the keys are reordered"
)
class _KeysOnly(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        values = cache.values.copy()
        super().reorder(cache, lanes)
        cache.values[...] = values


@killer(
    "reorder_inverse", fault="BATCH-REORDER", violates="REORDER-LANES", says="lanes are moved the inverse way"
)
class _Inverse(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        if sorted(lanes) == list(range(cache.lanes)):
            lanes = [int(i) for i in np.argsort(lanes)]
        super().reorder(cache, lanes)


@killer(
    "reorder_skips_permutations",
    fault="BATCH-REORDER",
    violates="REORDER-LANES",
    says="a permutation of all lanes is taken for nothing to do",
)
class _SkipsPermutations(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        if sorted(lanes) != list(range(cache.lanes)):
            super().reorder(cache, lanes)


@killer(
    "reorder_in_place",
    fault="BATCH-REORDER",
    violates="REORDER-LANES",
    says="lanes are assigned one by one in place, so that one that was overwritten is read",
)
class _InPlace(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        kept = cache.keys.copy(), cache.values.copy()
        super().reorder(cache, lanes)
        for part, old in zip((cache.keys, cache.values), kept, strict=True):
            part[...] = old
            for lane, source in enumerate(lanes):
                part[lane] = part[source]


@killer(
    "reorder_newest_row_left",
    fault="BATCH-REORDER",
    violates="REORDER-LANES",
    says="the newest row stays in the old order",
)
class _NewestLeft(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        newest = cache.keys[:, :, cache.length - 1].copy()
        super().reorder(cache, lanes)
        cache.keys[:, :, cache.length - 1] = newest


@killer(
    "reorder_forgotten_by_next_append",
    fault="BATCH-REORDER",
    violates="REORDER-FUTURE",
    says="the order is kept beside the rows, shown, and not used by the next append",
)
class _OrderForgotten(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        cache.notes["before"] = cache.values.copy()
        super().reorder(cache, lanes)

    def retained_values(self, work: Work):  # type: ignore[no-untyped-def]
        before = work.cache.notes.pop("before", None)
        return super().retained_values(work) if before is None else before[:, :, : work.start]


@killer(
    "reorder_negative_lanes",
    fault="BATCH-REORDER",
    violates="REORDER-REFUSED",
    says="a negative lane is read from the end",
)
class _NegativeLanes(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        super().reorder(cache, [lane % cache.lanes if lane < 0 else lane for lane in lanes])


@killer(
    "reorder_clips_lanes",
    fault="BATCH-REORDER",
    violates="REORDER-REFUSED",
    says="a lane that is not there is clipped to the last",
)
class _ClippedLanes(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        super().reorder(cache, [min(lane, cache.lanes - 1) for lane in lanes])


@killer(
    "reorder_refusal_reorders",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-ROWS",
    says="lanes are moved one by one until one is refused",
)
class _RefusalReorders(OpenLayerAdapter):
    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        kept = cache.values.copy()
        for lane, source in enumerate(lanes):
            if 0 <= source < cache.lanes:
                cache.values[lane] = kept[source] if lane == source else -kept[source]
        super().reorder(cache, lanes)
        cache.values[...] = kept[lanes]
