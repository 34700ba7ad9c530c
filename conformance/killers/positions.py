"""Positions: new rows rotated somewhere else than at the old length."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.values import Step


@killer(
    "rope_offset_plus1",
    fault="POS-READ-AFTER-UPDATE",
    violates="POSITION-OFFSET",
    says="queries and keys are both rotated one position too far: the length is read after it was raised",
)
class _BothOneTooFar(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return super().positions(work) + 1


@killer(
    "rope_q_offset_plus1",
    fault="POS-READ-AFTER-UPDATE",
    violates="AGREE-ROTATED-QUERY",
    says="queries alone are rotated one position too far",
)
class _QueryOneTooFar(OpenLayerAdapter):
    def query_positions(self, work: Work) -> Array:
        return super().query_positions(work) + 1


@killer(
    "query_rotated_at_new_length",
    fault="POS-READ-AFTER-UPDATE",
    violates="AGREE-OUTPUT",
    says="the length is raised between the rotation of the key and that of the query",
)
class _QueryAtNewLength(OpenLayerAdapter):
    def query_positions(self, work: Work) -> Array:
        return super().query_positions(work) + work.count


@killer(
    "rope_1_based_k",
    fault="POS-READ-AFTER-UPDATE",
    violates="AGREE-ROTATED-KEY",
    says="keys alone are rotated at positions counted from 1",
)
class _KeysFromOne(OpenLayerAdapter):
    def key_positions(self, work: Work) -> Array:
        return super().key_positions(work) + 1


@killer(
    "pos_from_len_after",
    fault="POS-READ-AFTER-UPDATE",
    violates="CHUNK-ROWS",
    says="a chunk starts at the position of its own last row",
)
class _ChunkFromItsEnd(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return super().positions(work) + work.count - 1


@killer(
    "pos_from_capacity",
    fault="LEN-CAPACITY-CONFUSION",
    violates="POSITION-OFFSET",
    says="new rows are rotated at the last positions of the buffer, not of the history",
)
class _FromCapacity(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return work.cache.capacity - work.count + np.arange(work.count)


@killer(
    "past_is_capacity",
    fault="LEN-CAPACITY-CONFUSION",
    violates="POSITION-OFFSET",
    says="the number of past rows is taken from the shape of the buffer",
)
class _PastIsCapacity(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return work.cache.keys.shape[2] + np.arange(work.count)


@killer(
    "pos_mod_capacity",
    fault="LEN-CAPACITY-CONFUSION",
    violates="CAPACITY-FITS",
    says="positions are taken modulo capacity - 1, so that the row that fills the cache stands at 0",
)
class _ModuloCapacity(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return super().positions(work) % max(work.cache.capacity - 1, 1)


@killer(
    "pos_always_zero",
    fault="POS-OFFSET-ZERO",
    violates="POSITION-OFFSET",
    says="new rows are rotated from position 0 in every call",
)
class _AlwaysFromZero(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return np.arange(work.count)


@killer(
    "pos_zero_single_row",
    fault="POS-OFFSET-ZERO",
    violates="POSITION-OFFSET",
    says="a single new row is rotated at 0; chunks are placed rightly",
)
class _SingleRowAtZero(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return np.zeros(1, dtype=int) if work.count == 1 else super().positions(work)


@killer(
    "rope_query_pos0",
    fault="POS-OFFSET-ZERO",
    violates="AGREE-ROTATED-QUERY",
    says="queries are rotated at 0 instead of at the old length",
)
class _QueryAtZero(OpenLayerAdapter):
    def query_positions(self, work: Work) -> Array:
        return np.arange(work.count)


@killer(
    "pos_one_behind",
    fault="POS-OFFSET-DRIFT",
    violates="POSITION-OFFSET",
    says="the position is one behind the old length from the second row on",
)
class _OneBehind(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return np.maximum(super().positions(work) - 1, 0)


class CountingAdapter(OpenLayerAdapter):
    """Rotates at a counter of its own beside the length, and keeps it rightly: the clean form of a drift."""

    def positions(self, work: Work) -> Array:
        """From the counter."""
        return work.cache.counter + np.arange(work.count)

    def advance(self, work: Work) -> None:
        """Length and counter rise together."""
        super().advance(work)
        work.cache.counter = self.counted(work)

    def counted(self, work: Work) -> int:
        """The counter after this call."""
        return work.cache.counter + work.count

    def reset(self, cache: OpenCache) -> None:
        """Length and counter go back."""
        super().reset(cache)
        cache.counter = 0

    def truncate(self, cache: OpenCache, length: int) -> None:
        """Length and counter go back."""
        super().truncate(cache, length)
        cache.counter = length


@killer(
    "pos_drift_prompt_again",
    fault="POS-OFFSET-DRIFT",
    violates="CHUNK-PARTITIONS",
    says="after a chunk onto an empty cache the next call counts its rows once more",
)
class _PromptCountedTwice(CountingAdapter):
    def counted(self, work: Work) -> int:
        again = work.cache.notes.pop("prompt", 0)
        if work.start == 0 and work.count > 1:
            work.cache.notes["prompt"] = work.count
        return super().counted(work) + again


@killer(
    "pos_drift_resume",
    fault="POS-OFFSET-DRIFT",
    violates="POSITION-OFFSET",
    says="the counter rises by one too many on the second call",
)
class _ResumeOneTooMany(CountingAdapter):
    def counted(self, work: Work) -> int:
        calls = work.cache.notes["calls"] = work.cache.notes.get("calls", 0) + 1
        return super().counted(work) + (calls == 2)

    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes.clear()


@killer(
    "pos_drift_chunk_forgotten",
    fault="POS-OFFSET-DRIFT",
    violates="CHUNK-PARTITIONS",
    says="a chunk onto a filled cache is not counted",
)
class _ChunkNotCounted(CountingAdapter):
    def counted(self, work: Work) -> int:
        forgotten = work.start > 0 and work.count > 1
        return work.cache.counter if forgotten else super().counted(work)


@killer(
    "pos_not_reset",
    fault="RESET-KEEPS-POSITION",
    violates="POSITION-AFTER-RESET",
    says="reset clears the length but not the position counter that rotation uses",
)
class _CounterSurvivesReset(CountingAdapter):
    def reset(self, cache: OpenCache) -> None:
        cache.length = 0


@killer(
    "truncate_keeps_pos",
    fault="ROLLBACK-NOOP",
    violates="TRUNCATE-FORGETS",
    says="truncate lowers the length but not the position counter that rotation uses",
)
class _CounterSurvivesTruncate(CountingAdapter):
    def truncate(self, cache: OpenCache, length: int) -> None:
        counter = cache.counter
        super().truncate(cache, length)
        cache.counter = counter


@killer(
    "refusal_moves_counter",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-FUTURE",
    says="the position counter rises before the checks and is not taken back by a refusal",
)
class _RefusalMovesCounter(CountingAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        cache.counter += 1
        made = super().perform(layer, cache, rows)
        cache.counter = cache.length
        return made

    def positions(self, work: Work) -> Array:
        return super().positions(work) - 1


@killer(
    "counter_shared_by_caches",
    fault="POS-READ-AFTER-UPDATE",
    violates="ISOLATE-CACHES",
    says="the caches of a layer share one position counter",
)
class _CounterShared(CountingAdapter):
    def advance(self, work: Work) -> None:
        super().advance(work)
        work.layer.notes["counter"] = work.cache.counter

    def positions(self, work: Work) -> Array:
        held = work.layer.notes.get("counter", 0) if work.start else 0
        return held + np.arange(work.count)


@killer(
    "pos_chunk_constant",
    fault="ROPE-PATH-MISMATCH",
    violates="CHUNK-ROWS",
    says="all rows of a chunk are rotated at its first position",
)
class _OnePositionPerChunk(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return np.full(work.count, work.start)


@killer(
    "chunk_queries_at_first",
    fault="ROPE-PATH-MISMATCH",
    violates="CHUNK-AGREE",
    says="all queries of a chunk are rotated at its first position; its keys are placed rightly",
)
class _ChunkQueriesAtFirst(OpenLayerAdapter):
    def query_positions(self, work: Work) -> Array:
        return np.full(work.count, work.start)


@killer(
    "pos_batch_mixed",
    fault="LANE-MIXED",
    violates="POSITION-OFFSET",
    says="the index of the lane is added to the position",
)
class _LaneAddedToPosition(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return super().positions(work) + np.arange(work.cache.lanes)[:, None, None]
