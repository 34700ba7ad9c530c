"""Refused calls: a check dropped, two checks exchanged, something changed on the way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_checks import CHECKS
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.rejections import Rejected
from conformance.values import Step

Check = Callable[..., None]


def _built(name: str, checks: tuple[Check, ...], *, one_row: bool = False) -> type[OpenLayerAdapter]:
    return type(name, (OpenLayerAdapter,), {"checks": checks, "one_row": one_row})


# -- each check dropped -------------------------------------------------------------------------------------

_DROPPED = {
    "rank": "REJECT-RANK",
    "tokens": "REJECT-TOKENS",
    "batch": "REJECT-BATCH",
    "width": "REJECT-WIDTH",
    "model_width": "BIND-MODEL-WIDTH",
    "head_count": "BIND-HEADS",
    "identity": "BIND-IDENTITY",
    "rope": "BIND-ROPE-BASE",
    "room": "CAPACITY-FULL",
}
"""Which requirement misses a check. The head width (check 7) never differs alone, where H*d = D: a cache of
another head width has another head count or model width as well, so that dropping it changes nothing. The
check of revisions stands with the binding."""

for _name, _requirement in _DROPPED.items():
    _without = {"dropped": (_name,), "one_row": _name == "tokens"}
    killer(
        f"check_{_name}_dropped", fault="CHECK-DROPPED", violates=_requirement,
        says=f"the check of {_name.replace('_', ' ')} is missing",
    )(type(f"Without_{_name}", (OpenLayerAdapter,), _without))  # fmt: skip


# -- order --------------------------------------------------------------------------------------------------


def _swapped(first: int) -> tuple[Check, ...]:
    order = list(CHECKS)
    order[first], order[first + 1] = order[first + 1], order[first]
    return tuple(order)


for _first in range(len(CHECKS) - 1):
    _one, _other = CHECKS[_first].__name__, CHECKS[_first + 1].__name__
    if (_one, _other) == ("head_width", "identity"):
        continue  # another head width never comes alone: see _DROPPED
    killer(f"order_{_other}_before_{_one}", fault="CHECK-ORDER", violates="REJECT-ORDER",
           says=f"{_other.replace('_', ' ')} is looked at before {_one.replace('_', ' ')}")(
        _built(f"Swapped_{_first}", _swapped(_first), one_row="tokens" in (_one, _other)))  # fmt: skip

killer("order_room_first", fault="CHECK-ORDER", violates="REJECT-ORDER",
       says="whether the row fits is looked at before everything but its form")(
    _built("RoomFirst", (*CHECKS[:4], CHECKS[10], *CHECKS[4:10])))  # fmt: skip


def _finite(_: Any, __: OpenLayer, ___: OpenCache, rows: Array) -> None:
    if not np.isfinite(rows).all():
        raise Rejected("non_finite", "a row is not finite")


killer("order_finite_first", fault="CHECK-ORDER", violates="REJECT-ORDER",
       says="rows are looked at for NaN before the binding and the capacity")(
    _built("FiniteFirst", (*CHECKS[:4], _finite, *CHECKS[4:])))  # fmt: skip

# -- not atomic ---------------------------------------------------------------------------------------------


@killer(
    "length_raised_early",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-LENGTH",
    says="the length is raised before the calculation, and a refusal does not take it back",
)
class _RaisedEarly(OpenLayerAdapter):
    def compute(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Work:
        cache.notes["start"] = cache.length
        cache.length += rows.shape[1]
        return super().compute(layer, cache, rows)

    def held(self, cache: OpenCache) -> int:
        return int(cache.notes.pop("start", cache.length))


@killer(
    "refusal_empties_cache",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-LENGTH",
    says="a refused call empties the cache",
)
class _RefusalEmpties(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().perform(layer, cache, rows)
        except Rejected:
            cache.length = 0
            raise


@killer(
    "key_written_before_scores",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-BYTES",
    says="the key is written as soon as it is rotated, before scores and values are looked at",
)
class _KeyWrittenEarly(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        work.cache.keys[:, :, work.start : work.start + work.count] = work.stages["rotated_key"]
        return super().scores(work)


@killer(
    "value_written_before_key",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-BYTES",
    says="the value is written before the key has been rotated and looked at",
)
class _ValueWrittenEarly(OpenLayerAdapter):
    def rotated_query(self, work: Work) -> Array:
        work.cache.values[:, :, work.start : work.start + work.count] = work.stages["value"]
        return super().rotated_query(work)


@killer(
    "candidate_written_over_newest_row",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-ROWS",
    says="while it is computed a row lies in the slot of the newest one, which a refusal does not restore",
)
class _OverNewestRow(OpenLayerAdapter):
    def compute(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Work:
        at = max(cache.length - 1, 0)
        kept = cache.keys[:, :, at].copy()
        cache.keys[:, :, at] = 0.125
        try:
            self.query(Work(layer, cache, rows, cache.length, rows.shape[1]))
            cache.keys[:, :, at], scratch = kept, cache.keys[:, :, at].copy()
            return super().compute(layer, cache, rows)
        except Rejected:
            cache.keys[:, :, at] = scratch
            raise


@killer(
    "refusal_changes_value_row",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-ROWS",
    says="a refused call leaves the newest value row negated",
)
class _RefusalNegates(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().perform(layer, cache, rows)
        except Rejected:
            newest = slice(max(cache.length - 1, 0), cache.length)
            np.negative(cache.values[:, :, newest], out=cache.values[:, :, newest])
            raise


@killer(
    "full_overwrites_last_row",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-ROWS",
    says="the row too many is written over the last one and refused afterwards",
)
class _FullOverwrites(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().perform(layer, cache, rows)
        except Rejected as refusal:
            if refusal.kind == "full":
                cache.values[:, :, -1] = 0.5
            raise


@killer(
    "buffers_grown_before_refusal",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-ADDRESSES",
    says="buffers are grown to take the row before it is refused",
)
class _GrownBeforeRefusal(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().perform(layer, cache, rows)
        except Rejected:
            cache.keys, cache.values = cache.keys.copy(), cache.values.copy()
            raise


@killer(
    "refusal_leaves_table",
    fault="FAIL-NOT-ATOMIC",
    violates="ATOMIC-FUTURE",
    says="a refused call leaves a rounding mode behind that the next one uses",
)
class _RefusalLeavesTable(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        try:
            return super().perform(layer, cache, rows)
        except Rejected:
            cache.notes["refused"] = True
            raise

    def weights(self, work: Work) -> Array:
        made = super().weights(work)
        return np.nextafter(made, 1.0) if "refused" in work.cache.notes else made


# -- wrong kinds --------------------------------------------------------------------------------------------


@killer(
    "refusal_is_value_error",
    fault="CHECK-DROPPED",
    violates="REJECT-WIDTH",
    says="a row of the wrong width raises whatever the matrix product raises",
)
class _RaisesAnything(OpenLayerAdapter):
    dropped = ("width",)

    def project(self, work: Work, name: str) -> Array:
        if work.rows.shape[2] != work.layer.config.model_width:
            raise ValueError(f"matmul: {work.rows.shape[2]} is not {work.layer.config.model_width}")
        return super().project(work, name)


@killer("wide_row_cut", fault="CHECK-DROPPED", violates="REJECT-WIDTH", says="a row that is too wide is cut")
class _WideRowCut(OpenLayerAdapter):
    dropped = ("width",)

    def project(self, work: Work, name: str) -> Array:
        weight = work.layer.nodes[name].value
        width = min(work.rows.shape[2], weight.shape[0])
        return work.rows[..., :width] @ weight[:width]


@killer(
    "rank_two_accepted",
    fault="CHECK-DROPPED",
    violates="REJECT-RANK",
    says="rows without a token axis are taken for one token",
)
class _RankTwoAccepted(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        return super().perform(layer, cache, rows[:, None] if rows.ndim == 2 else rows)


@killer(
    "single_lane_broadcast",
    fault="CHECK-DROPPED",
    violates="REJECT-BATCH",
    says="a batch of one lane is spread over all lanes of the cache",
)
class _LaneBroadcast(OpenLayerAdapter):
    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        if rows.ndim == 3 and rows.shape[0] == 1:
            rows = np.repeat(rows, cache.lanes, axis=0)
        return super().perform(layer, cache, rows)


@killer(
    "newest_token_taken",
    fault="CHECK-DROPPED",
    violates="REJECT-TOKENS",
    says="of several tokens the last one is taken",
)
class _NewestTokenTaken(OpenLayerAdapter):
    one_row = True

    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Step:
        many = rows.ndim == 3 and rows.shape[1] > 1
        return super().perform(layer, cache, rows[:, -1:] if many else rows)


# -- shape of the answer ------------------------------------------------------------------------------------


@killer(
    "output_squeezed",
    fault="SHAPE",
    violates="SHAPE-OUTPUT",
    says="the token axis of a single row is squeezed",
)
class _Squeezed(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        return Step(**{**vars(made), "output": made.output.squeeze(-2) if work.count == 1 else made.output})


@killer("output_float32", fault="SHAPE", violates="SHAPE-OUTPUT", says="the output is handed out in float32")
class _NarrowOutput(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        return Step(**{**vars(made), "output": made.output.astype(np.float32)})


@killer("output_is_a_list", fault="SHAPE", violates="SHAPE-OUTPUT", says="the output is a list of lists")
class _ListOutput(OpenLayerAdapter):
    def step(self, work: Work) -> Step:
        made = super().step(work)
        return Step(**{**vars(made), "output": made.output.tolist()})
