"""Weights that change under a cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapter import Declaration
from conformance.scenarios.material import LayerRows, appended, layer_parameters, material
from conformance.scenarios.storage import CAPACITY, trace, unchanged
from conformance.trace.expect import Accepted, Custom, Length, Refused
from conformance.trace.model import Derived, Operation, Trace
from conformance.values import PARAMETERS

STALE = "cache_layer_revision_mismatch"
UPDATE = frozenset({"update_parameters"})


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of level layer."""
    rows = material(declaration)
    if not isinstance(rows, LayerRows):
        return
    for index, name in enumerate(PARAMETERS):
        yield _stale(rows, name, index)
        yield _equal_numbers(rows, name, index)
        yield _mixed(rows, name)
    yield _stale_empty(rows)
    yield _identity_first(rows)
    yield _two_updated(rows)


def _update(rows: LayerRows, *names: str, equal: bool = False, layer: str = "a") -> Operation:
    changed = rows.parameters if equal else layer_parameters(rows.config, shift=2)
    what = "updated with equal numbers" if equal else "updated in place"
    return Operation(
        op="update",
        layer=layer,
        inputs={name: getattr(changed, name) for name in names},
        watch=(),
        label=f"{' and '.join(names)} {what}",
    )


def _refused(rows: LayerRows, requirement: str, n: int, index: int, label: str) -> Operation:
    return Operation(
        op="append",
        target="main",
        inputs=rows.inputs(n, n + 1),
        label=label,
        expect=(Refused(requirement, (STALE,), {"parameter": index}), unchanged("main")),
    )


def _renewed(rows: LayerRows, name: str) -> LayerRows:
    parameters = replace(rows.parameters, **{name: getattr(layer_parameters(rows.config, shift=2), name)})
    return replace(rows, parameters=parameters)


def _build(rows: LayerRows) -> Operation:
    return Operation(
        op="build", target="new", layer="a", label="a new cache after the update",
        arguments={"batch_size": rows.lanes, "capacity": CAPACITY}, expect=(Accepted("BIND-NEW-CACHE"),),
    )  # fmt: skip


def _stale(rows: LayerRows, name: str, index: int) -> Trace:
    """Refused, refused again, refused after a reset; a new cache works with the new weights."""
    renewed = _renewed(rows, name)
    steps = [appended(rows, "main", n, n + 1) for n in range(2)]
    steps += [
        _update(rows, name),
        _refused(rows, "BIND-REVISION", 2, index, "first row after the update"),
        _refused(rows, "BIND-REVISION", 2, index, "the same row again"),
        Operation(op="reset", target="main", label="reset", expect=(Length("RESET-LENGTH", 0),)),
        _refused(rows, "BIND-RESET-CURES-NOTHING", 0, index, "after the reset"),
        _build(rows),
    ]
    steps += [
        appended(
            renewed, "new", n, n + 1, output="BIND-NEW-CACHE", keys="BIND-NEW-CACHE", values="BIND-NEW-CACHE"
        )
        for n in range(2)
    ]
    return trace(rows, f"stale-{name}", f"{name} updated under a cache", tuple(steps), needs=UPDATE)


def _equal_numbers(rows: LayerRows, name: str, index: int) -> Trace:
    steps = (
        appended(rows, "main", 0, 1),
        _update(rows, name, equal=True),
        _refused(rows, "BIND-REVISION-EQUAL-NUMBERS", 1, index, "first row after the update"),
    )
    return trace(
        rows, f"stale-{name}-equal-numbers", f"{name} updated with the numbers it had", steps, needs=UPDATE
    )


def _stale_empty(rows: LayerRows) -> Trace:
    steps = (_update(rows, "key"), _refused(rows, "BIND-REVISION", 0, 1, "first row after the update"))
    return trace(rows, "stale-empty", "an update before the first row", steps, needs=UPDATE)


def _two_updated(rows: LayerRows) -> Trace:
    steps = (
        appended(rows, "main", 0, 1),
        _update(rows, "output"),
        _update(rows, "key"),
        _refused(rows, "BIND-REVISION", 1, 1, "first row after both updates"),
    )
    return trace(
        rows, "stale-two", "output, then key updated: the first parameter that differs is key", steps,
        needs=UPDATE,
    )  # fmt: skip


def _mixed(rows: LayerRows, name: str) -> Trace:
    """What any design must hold: refuse, or compute the whole prefix from the new weights."""
    renewed = _renewed(rows, name)
    steps = [appended(rows, "main", n, n + 1) for n in range(2)]
    steps.append(_update(rows, name))
    value, gate = renewed.field("output", 2, 3)
    wanted = {"field": "output", "value": value, "bound": gate}
    steps.append(
        Operation(
            op="append", target="main", inputs=rows.inputs(2, 3), label="first row after the update",
            expect=(
                Custom("STALE-WEIGHTS", "refused_or_close", wanted),
            ),
        )
    )  # fmt: skip
    return trace(rows, f"mixed-{name}", f"old rows and new {name} weights", tuple(steps), needs=UPDATE)


def _identity_first(rows: LayerRows) -> Trace:
    """Query has another revision, output another identity: identities are compared first."""
    steps = (
        appended(rows, "main", 0, 1),
        _update(rows, "query"),
        Operation(
            op="append", target="main", layer="b", inputs=rows.inputs(1, 2),
            label="query updated and output rebuilt",
            expect=(Refused("BIND-IDENTITY-FIRST", ("cache_layer_mismatch",)), unchanged("main")),
        ),
    )  # fmt: skip
    return trace(
        rows, "identity-before-revision", "all identities are compared before any revision", steps,
        layers={"a": rows.source, "b": Derived("a", fresh=("output",))},
        needs=frozenset({"rewire", "update_parameters"}),
    )  # fmt: skip
