"""Masks: which rows a query may see."""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Work


def _rows(work: Work) -> tuple[Array, Array]:
    """Index of the query within the call [T,1] and position of the row that is seen [1,n]."""
    return np.arange(work.count)[:, None], np.arange(work.start + work.count)[None, :]


@killer(
    "mask_off_by_one_open",
    fault="MASK-OFF-BY-ONE",
    violates="CHUNK-CAUSAL",
    says="each query also sees the row behind it",
)
class _OneTooMany(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return row <= query + work.start + 1


@killer(
    "mask_off_by_one_closed",
    fault="MASK-OFF-BY-ONE",
    violates="AGREE-WEIGHTS",
    says="a query does not see its own row, but for the very first",
)
class _OneTooFew(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return row <= np.maximum(query + work.start - 1, 0)


@killer(
    "excludes_self",
    fault="MASK-OFF-BY-ONE",
    violates="AGREE-WEIGHTS",
    says="the newest row is not seen once there are two",
)
class _NewestUnseen(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        _, row = _rows(work)
        newest = work.start + work.count - 1
        seen = super().visible(work) & ((row != newest) | (newest == 0))
        return seen | (~seen.any(axis=-1, keepdims=True) & (row == 0))


@killer(
    "window_drop_first",
    fault="MASK-WINDOW",
    violates="AGREE-WEIGHTS",
    says="the first row is never seen once there are two",
)
class _FirstUnseen(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return super().visible(work) & ((row > 0) | (query + work.start == 0))


@killer(
    "window_last2",
    fault="MASK-WINDOW",
    violates="AGREE-WEIGHTS",
    says="only the newest rows, half of the capacity, are seen",
)
class _NewestHalf(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return super().visible(work) & (row > query + work.start - max(2, work.cache.capacity // 2))


@killer(
    "mask_top_left",
    fault="MASK-TOPLEFT-CHUNK",
    violates="AGREE-WEIGHTS",
    says="the causal mask is aligned to the first retained row: key j is seen by query i where j <= i",
)
class _TopLeft(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return row <= query


@killer(
    "mask_top_left_chunks",
    fault="MASK-TOPLEFT-CHUNK",
    violates="CHUNK-AGREE",
    says="a chunk has its mask aligned to the first retained row; a single row needs none",
)
class _TopLeftInChunks(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return super().visible(work) if work.count == 1 else row <= query


@killer(
    "mask_square",
    fault="MASK-SQUARE-SHAPE",
    violates="CHUNK-AGREE",
    says="a mask of T x T meets scores of T x n and breaks",
)
class _Square(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        return np.tril(np.ones((work.count, work.count), dtype=bool))


@killer(
    "mask_square_padded",
    fault="MASK-SQUARE-SHAPE",
    violates="CHUNK-AGREE",
    says="a mask of T x T is padded over the retained rows, so that a chunk sees itself alone",
)
class _SquarePadded(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return super().visible(work) & ((row >= work.start) | (work.count == 1)) & (query >= 0)


@killer(
    "mask_columns_sliced",
    fault="MASK-SQUARE-SHAPE",
    violates="CHUNK-AGREE",
    says="the columns of the full mask are sliced where its rows are meant",
)
class _ColumnsSliced(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        total = work.start + work.count
        full = np.tril(np.ones((total, total), dtype=bool))
        sliced = full[:, work.start :].T
        return super().visible(work) if work.count == 1 else sliced | (np.arange(total) == 0)


@killer(
    "mask_keyed_on_rows",
    fault="KEY-INCOMPLETE",
    violates="CHUNK-AGREE",
    says="the mask is kept by the number of rows alone; it lets later calls see what the first call saw",
)
class _MaskKeyedOnRows(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        kept = work.cache.notes.setdefault(f"mask of {work.count}", super().visible(work))
        extra = work.start + work.count - kept.shape[1]
        if extra <= 0:
            return super().visible(work)
        # The mask of the first call is widened on the right: rows that it did not know are seen by all.
        return np.concatenate([kept, np.ones((work.count, extra), dtype=bool)], axis=1)


@killer(
    "mask_none_in_chunk",
    fault="MASK-OFF-WITH-CACHE",
    violates="CHUNK-CAUSAL",
    says="there is no mask inside a chunk",
)
class _NoMask(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        return np.ones_like(super().visible(work))


@killer(
    "mask_off_with_past",
    fault="MASK-OFF-WITH-CACHE",
    violates="CHUNK-CAUSAL",
    says="a chunk is masked only onto an empty cache",
)
class _NoMaskWithPast(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        made = super().visible(work)
        return np.ones_like(made) if work.start else made


@killer(
    "mask_off_when_empty",
    fault="MASK-OFF-WITH-CACHE",
    violates="CHUNK-CAUSAL",
    says="a chunk onto an empty cache is not masked",
)
class _NoMaskWhenEmpty(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        made = super().visible(work)
        return made if work.start else np.ones_like(made)


@killer(
    "mask_chunk_only_self",
    fault="MASK-CHUNK-NEIGHBOURS",
    violates="CHUNK-AGREE",
    says="inside a chunk a query sees the past and itself, not its older neighbours",
)
class _OnlySelf(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        query, row = _rows(work)
        return (row < work.start) | (row == query + work.start)


@killer(
    "mask_adds_zero",
    fault="MASK-FINITE-FILL",
    violates="CHUNK-AGREE",
    says="masked scores become 0 instead of minus infinity",
)
class _ZeroFill(OpenLayerAdapter):
    def masked(self, work: Work) -> Array:
        return np.where(self.visible(work), work.stages["scores"], 0.0)


@killer(
    "mask_minus_1e4",
    fault="MASK-FINITE-FILL",
    violates="AGREE-OUTPUT",
    says="masked scores become -10000, which scores of that size outweigh",
)
class _FiniteFill(OpenLayerAdapter):
    def masked(self, work: Work) -> Array:
        return np.where(self.visible(work), work.stages["scores"], -1e4)


# -- rows beyond the length ---------------------------------------------------------------------------------


class _Whole(OpenLayerAdapter):
    """Reads more slots of the buffer than are filled: the new rows, then `extra` slots beyond them."""

    def extra(self, work: Work) -> int:
        return max(work.cache.capacity - work.start - work.count, 0)

    def all_keys(self, work: Work) -> Array:
        return np.concatenate([super().all_keys(work), self._beyond(work, work.cache.keys)], axis=2)

    def all_values(self, work: Work) -> Array:
        return np.concatenate([super().all_values(work), self._beyond(work, work.cache.values)], axis=2)

    def _beyond(self, work: Work, buffer: Array) -> Array:
        stop = work.start + work.count
        return buffer[:, :, stop : stop + self.extra(work)]

    def check_finite(self, stage: str, work: Work) -> None:
        if stage != "scores":
            super().check_finite(stage, work)


@killer(
    "softmax_over_capacity",
    fault="MASK-UNWRITTEN-SLOTS",
    violates="AGREE-WEIGHTS",
    says="unwritten slots take part in the softmax, with key and value 0",
)
class _OverCapacity(_Whole):
    def visible(self, work: Work) -> Array:
        _, row = _rows(work)
        beyond = np.ones((work.count, self.extra(work)), dtype=bool)
        column = row <= np.arange(work.count)[:, None] + work.start
        return np.concatenate([column, beyond], axis=1)


@killer(
    "length_rounded_to_block",
    fault="MASK-UNWRITTEN-SLOTS",
    violates="AGREE-WEIGHTS",
    says="the number of visible rows is rounded up to a block of 4",
)
class _RoundedToBlock(_OverCapacity):
    def extra(self, work: Work) -> int:
        return min(-(work.start + work.count) % 4, super().extra(work))


@killer(
    "length_as_last_index",
    fault="LEN-CAPACITY-CONFUSION",
    violates="AGREE-WEIGHTS",
    says="the length is taken for the index of the last row: one row too many is read",
)
class _LengthAsIndex(_OverCapacity):
    def extra(self, work: Work) -> int:
        return min(1, super().extra(work))


@killer(
    "mix_over_capacity",
    fault="NAN-POISON-UNUSED",
    violates="STORE-UNUSED",
    says="weights of 0 are multiplied with whatever stands in unwritten slots",
)
class _MixOverCapacity(_Whole):
    def visible(self, work: Work) -> Array:
        query, _ = _rows(work)
        return np.arange(work.stages["scores"].shape[-1]) <= query + work.start

    def step(self, work: Work):  # type: ignore[no-untyped-def]
        work.stages["weights"] = work.stages["weights"][..., : work.start + work.count]
        return super().step(work)


@killer(
    "mask_added_to_poison",
    fault="NAN-POISON-UNUSED",
    violates="STORE-UNUSED",
    says="minus infinity is added to the scores of unwritten slots; a NaN there stays NaN",
)
class _MaskAdded(_MixOverCapacity):
    def masked(self, work: Work) -> Array:
        return work.stages["scores"] + np.where(self.visible(work), 0.0, -np.inf)

    def all_values(self, work: Work) -> Array:
        made = super().all_values(work)
        made[:, :, work.start + work.count :] = 0.0
        return made
