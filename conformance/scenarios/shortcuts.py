"""Shortcuts that hold in most lives: what is equal, zero, of the same length or the same bytes as before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    AttentionRows,
    LayerRows,
    Rows,
    appended,
    changed,
    fitting,
    layer_parameters,
    material,
)
from conformance.scenarios.storage import CAPACITY, trace
from conformance.trace.expect import Accepted, Array, Close, Length
from conformance.trace.model import Operation, Trace
from conformance.values import LayerParameters

FILED = "BIND-NEW-CACHE"


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of levels store, attention and layer."""
    rows, others = material(declaration), material(declaration, shift=1)
    if "snapshot" in declaration.features:
        yield _snapshots(rows, others)
    if rows.level != "store":
        yield _zero_row(rows)
        yield _equal_rows(rows)
    if isinstance(rows, LayerRows):
        yield _callers_weights(rows)
        yield _renewed(rows)


def _zero_row(rows: Rows) -> Trace:
    """A key of zeros is a key: its row is seen like any other."""

    def zeroed(given: Array) -> Array:
        given[..., 1, :] = 0.0
        return given

    if isinstance(rows, AttentionRows):
        # The value of the row stays, so that it shows whether the row is seen.
        made: Rows = replace(rows, key=zeroed(rows.key.copy()))
    else:
        made = changed(rows, zeroed)
    steps = tuple(appended(made, "main", n, n + 1) for n in range(4))
    return trace(made, "zero-row", "a row whose key is zero", steps)


def _equal_rows(rows: Rows) -> Trace:
    """Lanes of other histories are given one and the same row."""

    def equal(given: Array) -> Array:
        given[..., 2, :] = given[:1, ..., 2, :]
        return given

    made = changed(rows, equal)
    steps = tuple(
        appended(made, "main", n, n + 1, output="ISOLATE-LANES" if n == 2 else "AGREE-OUTPUT")
        for n in range(4)
    )
    return trace(made, "equal-rows", "lanes of different histories take the same row", steps)


def _snapshots(rows: Rows, others: Rows) -> Trace:
    """Two lives of one length: the snapshot of the second is not that of the first."""
    steps = [appended(rows, "main", n, n + 1) for n in range(2)]
    steps.append(_snapshot(rows, "snapshot of the first life"))
    empty = (Length("RESET-LENGTH", 0),)
    steps.append(Operation(op="reset", target="main", label="reset", expect=empty))
    steps += [appended(others, "main", n, n + 1) for n in range(2)]
    steps.append(_snapshot(others, "snapshot of the second life"))
    about = "snapshots of two lives of one length"
    return trace(rows, "snapshot-again", about, tuple(steps), needs=frozenset({"snapshot"}))


def _snapshot(rows: Rows, label: str) -> Operation:
    seen = tuple(
        Close("RESET-INFLUENCE", f"snapshot_{name}", *rows.field(name, 0, 2)) for name in ("keys", "values")
    )
    return Operation(op="observe", target="main", arguments={"snapshot": True}, label=label, expect=seen)


def _callers_weights(rows: LayerRows) -> Trace:
    """The caller's weight arrays are written over once the layer is built."""
    over = Operation(
        op="overwrite_input", target="main", arguments={"step": "layer a"},
        label="the caller writes over the weights that it gave",
    )  # fmt: skip
    filed = "ISOLATE-CALLER-ARRAY"
    steps = (
        over,
        *(appended(rows, "main", n, n + 1, output=filed, keys=filed, values=filed) for n in range(2)),
    )
    return trace(rows, "caller-weights", "the caller reuses the arrays of the weights", steps)


def _renewed(rows: LayerRows) -> Trace:
    """The row that was last taken, again after an update to weights that fill every bit of their dtype."""
    thirds = {
        name: fitting(part / 3.0, rows.declaration)
        for name, part in vars(layer_parameters(rows.config, shift=2)).items()
    }
    renewed = replace(rows, parameters=LayerParameters(**thirds))
    build = Operation(
        op="build", target="new", layer="a", label="a new cache after the update",
        arguments={"batch_size": rows.lanes, "capacity": CAPACITY}, expect=(Accepted(FILED),),
    )  # fmt: skip
    update = Operation(op="update", layer="a", inputs=thirds, watch=(), label="all weights updated in place")
    over = Operation(
        op="overwrite_input", target="new", arguments={"step": update.label},
        label="the caller writes over the new weights",
    )  # fmt: skip
    steps = [appended(rows, "main", 0, 1), update, build, over]
    steps += [appended(renewed, "new", n, n + 1, output=FILED, keys=FILED, values=FILED) for n in range(2)]
    return trace(
        rows, "same-row-renewed", "the same row before and after an update", tuple(steps),
        needs=frozenset({"update_parameters"}),
    )  # fmt: skip
