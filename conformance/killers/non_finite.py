"""Numbers that are not finite: let in, replaced, or found after the write.

A missing check of one stage alone shows nowhere, because the next stage that meets the number refuses it
with the same kind; so each stage is planted as a replacement, which hides the number from the rest.
"""

from __future__ import annotations

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import STAGES, OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.rejections import Rejected
from conformance.values import Step


def _cleaned(numbers: Array) -> Array:
    """Numbers that are not finite become 0."""
    return np.where(np.isfinite(numbers), numbers, 0.0)


@killer(
    "nothing_checked",
    fault="NON-FINITE-ADMITTED",
    violates="REJECT-NON-FINITE-INPUT",
    says="no stage is looked at for numbers that are not finite: NaN is stored",
)
class _NothingChecked(OpenLayerAdapter):
    finite_stages = ()


@killer(
    "nan_rows_cleaned",
    fault="NON-FINITE-ADMITTED",
    violates="REJECT-NON-FINITE-INPUT",
    says="NaN in a row is replaced by 0 on the way in",
)
class _RowsCleaned(OpenLayerAdapter):
    def query(self, work: Work) -> Array:
        work.rows = _cleaned(work.rows)
        return super().query(work)


@killer(
    "infinite_rows_admitted",
    fault="NON-FINITE-ADMITTED",
    violates="REJECT-NON-FINITE-INPUT",
    says="rows are looked at for NaN alone; infinite numbers become the largest finite one",
)
class _InfinityAdmitted(OpenLayerAdapter):
    def query(self, work: Work) -> Array:
        work.rows = np.where(np.isinf(work.rows), np.sign(work.rows), work.rows)
        return super().query(work)


def _cleaned_stage(stage: str) -> type[OpenLayerAdapter]:
    def cleaned(self: OpenLayerAdapter, work: Work) -> Array:
        return _cleaned(getattr(OpenLayerAdapter, stage)(self, work))

    return type(f"Cleaned_{stage}", (OpenLayerAdapter,), {stage: cleaned})


for _stage, _requirement in (
    ("query", "QUERY"), ("key", "KEY"), ("value", "VALUE"), ("rotated_query", "ROTATION"),
    ("rotated_key", "ROTATION"), ("output", "OUTPUT"),
):  # fmt: skip
    killer(
        f"{_stage}_overflow_cleaned",
        fault="NON-FINITE-ADMITTED",
        violates=f"REJECT-NON-FINITE-{_requirement}",
        says=f"an overflow of the {_stage.replace('_', ' ')} is replaced by 0",
    )(_cleaned_stage(_stage))


@killer(
    "output_unchecked",
    fault="NON-FINITE-ADMITTED",
    violates="REJECT-NON-FINITE-OUTPUT",
    says="the output projection is not looked at",
)
class _OutputUnchecked(OpenLayerAdapter):
    finite_stages = tuple(stage for stage in STAGES if stage != "output")


@killer(
    "scores_clipped",
    fault="NON-FINITE-ADMITTED",
    violates="REJECT-NON-FINITE-SCORE",
    says="a score of plus infinity becomes the largest finite number",
)
class _ScoresClipped(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        made = super().scores(work)
        return np.where(made == np.inf, np.finfo(np.float64).max, made)


@killer(
    "minus_infinity_taken_for_mask",
    fault="NON-FINITE-ADMITTED",
    violates="REJECT-NON-FINITE-SCORE-MINUS",
    says="a score of minus infinity passes, as if it were masked",
)
class _MinusInfinityPasses(OpenLayerAdapter):
    def check_finite(self, stage: str, work: Work) -> None:
        if stage == "scores" and not np.isnan(work.stages[stage]).any() and work.stages[stage].max() < np.inf:
            return
        super().check_finite(stage, work)


# -- found after the write ----------------------------------------------------------------------------------


class _Late(OpenLayerAdapter):
    """Looks at the stages from `late` on only after the row has been committed."""

    late = ""

    @property
    def finite_stages(self) -> tuple[str, ...]:  # type: ignore[override]
        return STAGES[: STAGES.index(self.late)]

    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        self.admit(layer, cache, rows)
        work = self.compute(layer, cache, rows)
        self.commit(work)
        for stage in STAGES[STAGES.index(self.late) :]:
            self.check_finite(stage, work)
        return self.step(work)


for _stage in ("query", "key", "value", "rotated_query", "rotated_key", "scores", "output"):
    killer(f"{_stage}_checked_after_write", fault="FAIL-NOT-ATOMIC", violates="ATOMIC-LENGTH",
           says=f"the {_stage.replace('_', ' ')} is looked at after the row has been written")(
        type(f"Late_{_stage}", (_Late,), {"late": _stage}))  # fmt: skip


@killer(
    "value_checked_between_writes",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-BYTES",
    says="the key is written, then the value is looked at: a row that is half written stays",
)
class _HalfWritten(OpenLayerAdapter):
    finite_stages = tuple(stage for stage in STAGES if stage not in ("value", "heads", "merged", "output"))

    def write(self, work: Work) -> None:
        at = self.slot(work)
        work.cache.keys[:, :, at : at + work.count] = self.stored_keys(work)
        for stage in ("value", "heads", "output"):
            self.check_finite(stage, work)
        work.cache.values[:, :, at : at + work.count] = self.stored_values(work)


@killer(
    "refused_row_is_zeroed",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-BYTES",
    says="the slot of a refused row is cleared",
)
class _SlotCleared(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().perform(layer, cache, rows)
        except Rejected:
            cache.keys[:, :, cache.length : cache.length + 1] = 0.5
            raise
