"""The tie to a layer: identities, revisions, RoPE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from conformance.killers import open_checks
from conformance.killers.model import killer
from conformance.killers.open_checks import CHECKS
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer
from conformance.rejections import Rejected
from conformance.values import PARAMETERS, RopeConfig

Check = Callable[[Any, OpenLayer, OpenCache, Array], None]


def with_check(name: str, instead: Check) -> type[OpenLayerAdapter]:
    """The open layer with another check in the place of the one of that name."""
    checks = tuple(instead if check.__name__ == name else check for check in CHECKS)
    return type(f"With_{instead.__name__}", (OpenLayerAdapter,), {"checks": checks})


def _mismatch(name: str) -> Rejected:
    return Rejected("cache_layer_mismatch", f"{name} is another node")


def _stale(name: str, index: int, own: int, given: int) -> Rejected:
    return Rejected(
        "cache_layer_revision_mismatch", f"{name} is at another revision",
        parameter=index, expected=own, found=given,
    )  # fmt: skip


# -- identity -----------------------------------------------------------------------------------------------


@killer(
    "identity_by_value",
    fault="BIND-IDENTITY",
    violates="BIND-IDENTITY",
    says="identity is compared by the numbers of the weights",
)
class _IdentityByValue(with_check("identity", lambda *_: None)):  # type: ignore[misc]
    def bind(self, cache: OpenCache, layer: OpenLayer) -> None:
        super().bind(cache, layer)
        cache.notes["numbers"] = {name: node.value.copy() for name, node in layer.nodes.items()}

    def perform(self, layer: OpenLayer, cache: OpenCache, rows: Array) -> Any:
        for name in PARAMETERS:
            own, given = cache.notes.get("numbers", {}).get(name), layer.nodes[name]
            if (
                given.revision == cache.revisions[name]
                and own is not None
                and not np.array_equal(own, given.value)
            ):
                raise _mismatch(name)
        return super().perform(layer, cache, rows)


def _identity_without(missed: str) -> Check:
    def identity(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
        for name in PARAMETERS:
            if name != missed and cache.nodes[name] is not layer.nodes[name]:
                raise _mismatch(name)

    return identity


for _name in PARAMETERS:
    killer(f"identity_misses_{_name}", fault="BIND-IDENTITY", violates="BIND-IDENTITY",
           says=f"the identity of the {_name} weight is not compared")(
        with_check("identity", _identity_without(_name)))  # fmt: skip


def _object_identity(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    if cache.notes.setdefault("layer", layer) is not layer:
        raise _mismatch("the layer")


@killer(
    "identity_of_layer_object",
    fault="BIND-IDENTITY",
    violates="BIND-ROPE-BASE",
    says="the layer object is compared instead of its parameters",
)
class _LayerObject(with_check("identity", _object_identity)):  # type: ignore[misc]
    def bind(self, cache: OpenCache, layer: OpenLayer) -> None:
        super().bind(cache, layer)
        cache.notes["layer"] = layer


def _interleaved(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    for index, name in enumerate(PARAMETERS):
        if cache.nodes[name] is not layer.nodes[name]:
            raise _mismatch(name)
        own, given = cache.revisions[name], layer.nodes[name].revision
        if own != given:
            raise _stale(name, index, own, given)


killer("identity_and_revision_interleaved", fault="CHECK-ORDER", violates="BIND-IDENTITY-FIRST",
       says="identity and revision are compared parameter by parameter")(
    with_check("identity", _interleaved))  # fmt: skip

# -- revision -----------------------------------------------------------------------------------------------

killer("revision_unchecked", fault="STALE-WEIGHTS", violates="STALE-WEIGHTS",
       says="revisions are not compared at all: an edit in place escapes")(
    with_check("revision", lambda *_: None))  # fmt: skip


def _revision_without(missed: str) -> Check:
    def revision(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
        for index, name in enumerate(PARAMETERS):
            own, given = cache.revisions[name], layer.nodes[name].revision
            if name != missed and own != given:
                raise _stale(name, index, own, given)

    return revision


for _name in PARAMETERS:
    killer(f"revision_misses_{_name}", fault="STALE-WEIGHTS", violates="BIND-REVISION",
           says=f"the revision of the {_name} weight is not compared")(
        with_check("revision", _revision_without(_name)))  # fmt: skip


def _query_only(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    own, given = cache.revisions["query"], layer.nodes["query"].revision
    if own != given:
        raise _stale("query", 0, own, given)


killer(
    "revision_of_query_only",
    fault="STALE-WEIGHTS",
    violates="BIND-REVISION",
    says="only the revision of the query weight is compared",
)(with_check("revision", _query_only))


def _first_row_only(adapter: Any, layer: OpenLayer, cache: OpenCache, rows: Array) -> None:
    if cache.length == 0:
        open_checks.revision(adapter, layer, cache, rows)


killer("revision_checked_on_empty_cache", fault="STALE-WEIGHTS", violates="BIND-REVISION",
       says="revisions are compared when the cache is empty and not afterwards")(
    with_check("revision", _first_row_only))  # fmt: skip


def _filled_only(adapter: Any, layer: OpenLayer, cache: OpenCache, rows: Array) -> None:
    if cache.length:
        open_checks.revision(adapter, layer, cache, rows)


killer("revision_unchecked_on_empty_cache", fault="STALE-WEIGHTS", violates="BIND-RESET-CURES-NOTHING",
       says="an empty cache takes any revision, so that a reset cures a stale one")(
    with_check("revision", _filled_only))  # fmt: skip


def _refused_once(adapter: Any, layer: OpenLayer, cache: OpenCache, rows: Array) -> None:
    try:
        open_checks.revision(adapter, layer, cache, rows)
    except Rejected:
        cache.revisions = {name: node.revision for name, node in layer.nodes.items()}
        raise


killer("revision_refused_once", fault="STALE-WEIGHTS", violates="BIND-REVISION",
       says="the refusal of a stale cache takes over the new revisions: the second try is accepted")(
    with_check("revision", _refused_once))  # fmt: skip


@killer(
    "revision_by_numbers",
    fault="STALE-WEIGHTS",
    violates="BIND-REVISION-EQUAL-NUMBERS",
    says="an update with the numbers that were there does not raise the revision",
)
class _RaisedByNumbers(OpenLayerAdapter):
    def update_parameters(self, layer: OpenLayer, parameters: dict[str, Array]) -> None:
        changed = {n: v for n, v in parameters.items() if not np.array_equal(layer.nodes[n].value, v)}
        super().update_parameters(layer, changed)


@killer(
    "revision_by_first_row",
    fault="STALE-WEIGHTS",
    violates="BIND-REVISION-EQUAL-NUMBERS",
    says="staleness is judged by a checksum of the first row of every weight",
)
class _FirstRowChecksum(OpenLayerAdapter):
    def update_parameters(self, layer: OpenLayer, parameters: dict[str, Array]) -> None:
        before = {name: layer.nodes[name].value[0].copy() for name in parameters}
        super().update_parameters(layer, parameters)
        for name, row in before.items():
            if np.array_equal(layer.nodes[name].value[0], row):
                layer.nodes[name].revision -= 1


@killer(
    "updated_layer_gives_no_cache",
    fault="STALE-WEIGHTS",
    violates="BIND-NEW-CACHE",
    says="a layer whose weights were updated gives no new cache",
)
class _NoNewCache(OpenLayerAdapter):
    def build_cache(self, layer: OpenLayer, batch_size: int, capacity: int) -> OpenCache:
        if any(node.revision for node in layer.nodes.values()):
            raise Rejected("cache_layer_revision_mismatch", "the layer is not the one that was built")
        return super().build_cache(layer, batch_size, capacity)


@killer(
    "reset_rebinds",
    fault="RESET-REBINDS",
    violates="BIND-RESET-CURES-NOTHING",
    says="reset takes over the present revisions",
)
class _ResetRebinds(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.revisions = {name: node.revision for name, node in cache.nodes.items()}


def _reports_last(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    for index, name in reversed(list(enumerate(PARAMETERS))):
        own, given = cache.revisions[name], layer.nodes[name].revision
        if own != given:
            raise _stale(name, index, own, given)


killer(
    "revision_reports_last",
    fault="REJECTION-DETAILS",
    violates="REJECT-DETAILS",
    says="of two parameters that differ the last is reported",
)(with_check("revision", _reports_last))


def _from_one(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    for index, name in enumerate(PARAMETERS):
        own, given = cache.revisions[name], layer.nodes[name].revision
        if own != given:
            raise _stale(name, index + 1, own, given)


killer(
    "revision_index_from_one",
    fault="REJECTION-DETAILS",
    violates="REJECT-DETAILS",
    says="the index of the parameter that differs is counted from 1",
)(with_check("revision", _from_one))

# -- RoPE ---------------------------------------------------------------------------------------------------


def _rope_check(same: Callable[[Any, Any], bool]) -> Check:
    def rope(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
        if not same(cache.config.rope, layer.config.rope):
            raise Rejected("cache_rope_mismatch", "another rotation")

    return rope


def _near(own: RopeConfig, given: RopeConfig) -> bool:
    return bool(np.isclose(own.base, given.base)) and own.max_positions == given.max_positions


def _equal_in_float32(own: RopeConfig, given: RopeConfig) -> bool:
    return bool(np.float32(own.base) == np.float32(given.base)) and own.max_positions == given.max_positions


for _id, _requirement, _says, _same in (
    ("rope_base_with_tolerance", "BIND-ROPE-BASE", "bases are compared with a tolerance", _near),
    ("rope_base_in_float32", "BIND-ROPE-BASE", "bases are compared in float32", _equal_in_float32),
    (
        "rope_positions_unchecked", "BIND-ROPE-POSITIONS",
        "only the base is compared, not the number of positions", lambda own, given: own.base == given.base,
    ),
):  # fmt: skip
    killer(_id, fault="BIND-ROPE", violates=_requirement, says=_says)(with_check("rope", _rope_check(_same)))


def _query_heads_only(_: Any, layer: OpenLayer, cache: OpenCache, __: Array) -> None:
    if cache.config.heads != layer.config.heads:
        raise Rejected("cache_head_count_mismatch", "another number of heads")


killer("kv_heads_unchecked", fault="CHECK-DROPPED", violates="BIND-KV-HEADS",
       says="only query heads are counted: another number of key/value heads is not noticed")(
    with_check("head_count", _query_heads_only))  # fmt: skip
