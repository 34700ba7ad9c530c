"""What a step tells: evidence, declared work, the uncached path. The output itself is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenLayer, Work
from conformance.values import Step
from conformance.values import Work as WorkCounts


def _telling(name: str, change: Callable[[OpenLayerAdapter, Work], Array]) -> type[OpenLayerAdapter]:
    """An open layer whose steps tell something else of one field."""

    def step(self: OpenLayerAdapter, work: Work) -> Step:
        return Step(**{**vars(OpenLayerAdapter.step(self, work)), name: change(self, work)})

    return type(f"Telling_{name}", (OpenLayerAdapter,), {"step": step})


def _plant(
    name: str, field: str, violates: str, says: str, change: Callable[[OpenLayerAdapter, Work], Array]
) -> None:
    killer(name, fault="EVIDENCE", violates=violates, says=says)(_telling(field, change))


_plant(
    "query_told_rotated",
    "query",
    "AGREE-PROJECTED",
    "a step shows the rotated query as the projected one",
    lambda _, work: work.stages["rotated_query"].copy(),
)
_plant(
    "key_told_rotated",
    "key",
    "AGREE-PROJECTED",
    "a step shows the rotated key as the projected one",
    lambda _, work: work.stages["rotated_key"].copy(),
)
_plant(
    "value_told_negated",
    "value",
    "AGREE-PROJECTED",
    "a step shows another value than the projected one",
    lambda _, work: -work.stages["value"],
)
_plant(
    "rotated_query_told_unrotated",
    "rotated_query",
    "AGREE-ROTATED-QUERY",
    "a step shows the query before its rotation",
    lambda _, work: work.stages["query"].copy(),
)
_plant(
    "rotated_key_told_unrotated",
    "rotated_key",
    "AGREE-ROTATED-KEY",
    "a step shows the key before its rotation",
    lambda _, work: work.stages["key"].copy(),
)
_plant(
    "weights_told_unnormalised",
    "weights",
    "AGREE-WEIGHTS",
    "a step shows its weights before they are normalised",
    lambda self, work: self.exponentials(work),
)
_plant(
    "weights_told_float32",
    "weights",
    "AGREE-WEIGHTS",
    "a step shows its weights rounded to float32",
    lambda _, work: work.stages["weights"].astype(np.float32).astype(np.float64),
)
_plant(
    "heads_told_reversed",
    "heads",
    "AGREE-HEADS",
    "a step shows its heads in reverse order",
    lambda _, work: work.stages["heads"][:, ::-1].copy(),
)
_plant(
    "merged_told_reversed",
    "merged",
    "AGREE-MERGED",
    "a step shows the merged features in reverse order",
    lambda _, work: work.stages["merged"][..., ::-1].copy(),
)
_plant(
    "weights_told_over_capacity",
    "weights",
    "SHAPE-EVIDENCE",
    "the weights of a step reach over all slots",
    lambda _, work: np.pad(
        work.stages["weights"], ((0, 0),) * 3 + ((0, work.cache.capacity - work.start - 1),)
    ),
)
_plant(
    "heads_told_by_position",
    "heads",
    "SHAPE-EVIDENCE",
    "the heads of a step stand as [B,T,H,d]",
    lambda _, work: work.stages["heads"].swapaxes(1, 2).copy(),
)
_plant(
    "merged_told_split",
    "merged",
    "SHAPE-EVIDENCE",
    "the merged heads of a step are still split",
    lambda _, work: work.stages["heads"].copy(),
)
_plant(
    "query_told_without_lane",
    "query",
    "SHAPE-EVIDENCE",
    "the query of a step has no axis of lanes",
    lambda _, work: work.stages["query"][0].copy(),
)


# -- work ---------------------------------------------------------------------------------------------------


class _Counts(OpenLayerAdapter):
    """Declares the work of another step."""

    def told(self, right: WorkCounts) -> WorkCounts:
        """What is declared."""
        raise NotImplementedError

    def counts(self, work: Work) -> WorkCounts:
        return self.told(super().counts(work))


@killer(
    "work_counted_after_commit",
    fault="WORK-CLAIM",
    violates="REUSE-WORK-STEP",
    says="the declared position is read after the length was raised",
)
class _AfterCommit(_Counts):
    def told(self, right: WorkCounts) -> WorkCounts:
        return WorkCounts(
            right.position + 1, right.full_prefix_rows, right.incremental_rows, right.reused_rows
        )


@killer(
    "work_claims_full_prefix",
    fault="WORK-CLAIM",
    violates="REUSE-WORK-TOTAL",
    says="the declared incremental work is that of the full prefix",
)
class _ClaimsFull(_Counts):
    def told(self, right: WorkCounts) -> WorkCounts:
        return WorkCounts(right.position, right.full_prefix_rows, right.full_prefix_rows, 0)


@killer(
    "work_claims_no_reuse", fault="WORK-CLAIM", violates="REUSE-WORK-STEP", says="no reused row is declared"
)
class _ClaimsNoReuse(_Counts):
    def told(self, right: WorkCounts) -> WorkCounts:
        return WorkCounts(right.position, right.full_prefix_rows, right.incremental_rows, 0)


@killer(
    "work_counts_history_alone",
    fault="WORK-CLAIM",
    violates="REUSE-WORK-STEP",
    says="the declared work of the full prefix leaves the new row out",
)
class _HistoryAlone(_Counts):
    def told(self, right: WorkCounts) -> WorkCounts:
        return WorkCounts(right.position, right.position, right.incremental_rows, right.reused_rows)


# -- the uncached path --------------------------------------------------------------------------------------


class _OwnPath(OpenLayerAdapter):
    """The uncached path is that of a faulty layer; the cached one is right."""

    def full_prefix(self, layer: OpenLayer, rows: Array) -> Array:
        lanes, count, _ = rows.shape
        cache = self.build_cache(layer, lanes, count)
        return self.uncached().compute(layer, cache, rows).stages["output"]

    def uncached(self) -> OpenLayerAdapter:
        """The implementation of the uncached path."""
        raise NotImplementedError


class _QueriesFromOne(OpenLayerAdapter):
    def query_positions(self, work: Work) -> Array:
        return super().query_positions(work) + 1


@killer(
    "full_prefix_other_positions",
    fault="PATH-MATH-MISMATCH",
    violates="AGREE-FULL-PREFIX",
    says="the uncached path rotates its queries one position too far",
)
class _OtherPositions(_OwnPath):
    def uncached(self) -> OpenLayerAdapter:
        return _QueriesFromOne()


class _EverythingSeen(OpenLayerAdapter):
    def visible(self, work: Work) -> Array:
        return np.ones_like(super().visible(work))


@killer(
    "full_prefix_without_mask",
    fault="PATH-MATH-MISMATCH",
    violates="AGREE-FULL-PREFIX",
    says="the uncached path has no mask",
)
class _WithoutMask(_OwnPath):
    def uncached(self) -> OpenLayerAdapter:
        return _EverythingSeen()


@killer(
    "both_paths_scale_otherwise",
    fault="SCALE",
    violates="AGREE-FULL-PREFIX",
    says="the cached and the uncached path agree with each other, and both divide scores by d",
)
class _BothPathsScale(_OwnPath):
    def scale(self, work: Work) -> float:
        return 1.0 / work.layer.config.head_width

    def uncached(self) -> OpenLayerAdapter:
        return self
