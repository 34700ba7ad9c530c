"""Appends of several rows, or of none."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.rejections import Rejected
from conformance.values import Step


class _TakesNothing(OpenLayerAdapter):
    """Answers a chunk of no rows in `empty`."""

    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        if rows.ndim > 2 and rows.shape[1] == 0:
            return self.empty(layer, cache, rows)
        return super().perform(layer, cache, rows)

    def empty(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        """The answer."""
        raise NotImplementedError


@killer(
    "empty_chunk_counts_one",
    fault="PREFIX-FULL-HIT",
    violates="CHUNK-EMPTY",
    says="a chunk of no rows raises the length by one",
)
class _EmptyCountsOne(_TakesNothing):
    def empty(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        cache.length += 1
        return Step(np.zeros((rows.shape[0], 0, layer.config.model_width)))


@killer(
    "empty_chunk_answers_stale",
    fault="PREFIX-FULL-HIT",
    violates="CHUNK-EMPTY",
    says="a chunk of no rows is answered with the output of an earlier call",
)
class _EmptyAnswersStale(_TakesNothing):
    def empty(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        return Step(np.ones((rows.shape[0], 1, layer.config.model_width)))


@killer(
    "empty_chunk_repeats_last",
    fault="PREFIX-FULL-HIT",
    violates="CHUNK-EMPTY",
    says="a chunk of no rows appends the newest row once more without removing it",
)
class _EmptyRepeatsLast(_TakesNothing):
    def empty(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        if cache.length:
            cache.keys[:, :, cache.length] = cache.keys[:, :, cache.length - 1]
            cache.values[:, :, cache.length] = cache.values[:, :, cache.length - 1]
            cache.length += 1
        return Step(np.zeros((rows.shape[0], 0, layer.config.model_width)))


@killer(
    "empty_chunk_breaks",
    fault="PREFIX-FULL-HIT",
    violates="CHUNK-EMPTY",
    says="a chunk of no rows divides by its length",
)
class _EmptyBreaks(_TakesNothing):
    def empty(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        raise ZeroDivisionError("division by zero")


@killer(
    "capacity_off_by_one", fault="FULL-OVERRUN", violates="CAPACITY-FITS", says="the last slot is refused"
)
class _LastSlotRefused(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        if rows.ndim >= 2 and cache.length + rows.shape[1] == cache.capacity:
            raise Rejected("full", "the last slot is kept free")
        return super().perform(layer, cache, rows)


@killer(
    "chunk_compared_with_capacity",
    fault="FULL-OVERRUN",
    violates="CHUNK-CAPACITY",
    says="a chunk is compared with the capacity and not with what is left of it; what does not fit is cut",
)
class _ChunkAlone(OpenLayerAdapter):
    dropped = ("room",)

    def admit(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> None:
        super().admit(layer, cache, rows)
        if rows.shape[1] > cache.capacity or (rows.shape[1] == 1 and cache.length == cache.capacity):
            raise Rejected("full", "the chunk is larger than the cache")

    def write(self, work: Work) -> None:
        free = work.cache.capacity - work.start
        work.cache.keys[:, :, work.start :][:, :, : work.count] = self.stored_keys(work)[:, :, :free]
        work.cache.values[:, :, work.start :][:, :, : work.count] = self.stored_values(work)[:, :, :free]


@killer(
    "chunk_that_fills_refused",
    fault="FULL-OVERRUN",
    violates="CHUNK-CAPACITY",
    says="a chunk that fills the cache exactly is refused",
)
class _FillingChunkRefused(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        if rows.ndim >= 2 and rows.shape[1] > 1 and cache.length + rows.shape[1] == cache.capacity:
            raise Rejected("full", "the chunk does not fit")
        return super().perform(layer, cache, rows)


@killer(
    "chunk_written_as_far_as_it_fits",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-LENGTH",
    says="of a chunk that does not fit the rows that fit are taken, then it is refused",
)
class _PartlyTaken(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        if rows.ndim >= 2 and 0 < cache.capacity - cache.length < rows.shape[1]:
            cache.keys[:, :, cache.length :], cache.values[:, :, cache.length :] = 0.5, 0.5
            cache.length = cache.capacity
            raise Rejected("full", "the rest does not fit")
        return super().perform(layer, cache, rows)


@killer(
    "chunk_length_counts_one",
    fault="WRITE-SKIPPED",
    violates="CHUNK-PARTITIONS",
    says="a chunk raises the length by one",
)
class _ChunkCountsOne(OpenLayerAdapter):
    def advance(self, work: Work) -> None:
        super().advance(work)
        work.cache.length = work.start + 1


@killer(
    "later_row_moves_earlier_output",
    fault="MASK-FINITE-FILL",
    violates="CHUNK-CAUSAL",
    says="masked rows keep a weight far below the bound: an earlier output moves by single bits",
)
class _FaintlySeen(OpenLayerAdapter):
    def masked(self, work: Work) -> Array:
        scores = work.stages["scores"]
        return np.where(self.visible(work), scores, scores.min() - 34.0)
