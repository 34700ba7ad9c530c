"""Stores of several layers: nothing mixes, nothing is lost on growth, a reset empties all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.adapter import Declaration
from conformance.scenarios.material import StoreRows, store_rows
from conformance.scenarios.storage import trace
from conformance.trace.expect import Close, Expectation, Length, Refused, Unchanged
from conformance.trace.model import CacheSpec, Operation, Trace

LAYERS = 3
LONG = 40


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of level store."""
    if declaration.levels[0] != "store":
        return
    layers = [store_rows(declaration, rows=LONG, shift=3 * n, layers=LAYERS) for n in range(LAYERS)]
    yield _uneven(layers)
    yield _growth(layers)
    yield _reset(layers)
    if declaration.capacity == "exact":
        yield _overflow(layers)
    yield _handed_out(store_rows(declaration))


def _watch() -> tuple[str, ...]:
    return tuple(f"main/{layer}" for layer in range(LAYERS))


def _append(
    layers: list[StoreRows], layer: int, start: int, stop: int, *, filed: str = "KEEP-PREFIX"
) -> Operation:
    """An append to one layer; it holds its prefix, the others stay as they are."""
    rows, name = layers[layer], f"main/{layer}"
    expect: list[Expectation] = [
        Close(filed, f"keys:{name}", *rows.field("keys", start, stop)),
        Close(filed, f"values:{name}", *rows.field("values", start, stop)),
        Length("STORE-LENGTH", stop, name),
    ]
    expect += [
        Unchanged(other, length="KEEP-LAYERS", rows="KEEP-LAYERS") for other in _watch() if other != name
    ]
    return Operation(
        op="append", target="main", inputs=rows.inputs(start, stop), arguments={"layer": layer},
        watch=_watch(), label=f"layer {layer}, rows {start} to {stop - 1}", expect=tuple(expect),
    )  # fmt: skip


def _appends(
    layers: list[StoreRows], layer: int, start: int, stop: int, *, filed: str = "KEEP-PREFIX"
) -> list[Operation]:
    """Those rows in one call, or one a call where no more than one is taken."""
    if layers[0].declaration.rows_per_append == "any":
        return [_append(layers, layer, start, stop, filed=filed)]
    return [_append(layers, layer, n, n + 1, filed=filed) for n in range(start, stop)]


def _several(layers: list[StoreRows], name: str, about: str, steps: list[Operation], capacity: int) -> Trace:
    caches = {"main": CacheSpec("a", layers[0].lanes, capacity)}
    return trace(layers[0], name, about, tuple(steps), caches=caches)


def _uneven(layers: list[StoreRows]) -> Trace:
    """Appends of 1 to 4 rows, the layers in changing order and never all of one length."""
    empty = [Length("KEEP-EMPTY", 0, name) for name in _watch()]
    steps = [Operation(op="observe", target="main", watch=_watch(), label="new store", expect=tuple(empty))]
    held = [0] * LAYERS
    for layer, count in ((1, 3), (0, 1), (1, 1), (2, 4), (0, 2), (2, 1), (1, 2), (0, 1)):
        steps += _appends(layers, layer, held[layer], held[layer] + count)
        held[layer] += count
    return _several(layers, "store-layers", "three layers of different lengths", steps, 8)


def _growth(layers: list[StoreRows]) -> Trace:
    """One row a call up to 40 rows, past every usual growth point."""
    steps = [
        _append(layers, layer, n, n + 1, filed="KEEP-GROWTH") for n in range(LONG) for layer in range(LAYERS)
    ]
    return _several(layers, "store-growth", "forty rows a layer, one a call", steps, LONG)


def _reset(layers: list[StoreRows]) -> Trace:
    """All layers filled, a reset, and shorter histories of the rows of other layers."""
    turned = layers[1:] + layers[:1]
    steps = [step for layer in range(LAYERS) for step in _appends(layers, layer, 0, 4 + layer)]
    empty = tuple(Length("KEEP-RESET", 0, name) for name in _watch())
    steps.append(Operation(op="reset", target="main", watch=_watch(), label="reset", expect=empty))
    steps += [step for layer in (2, 0, 1) for step in _appends(turned, layer, 0, 2, filed="KEEP-RESET")]
    steps += [_append(turned, layer, 2, 3, filed="KEEP-RESET") for layer in range(LAYERS)]
    return _several(layers, "store-reset", "a reset empties every layer", steps, 8)


def _overflow(layers: list[StoreRows]) -> Trace:
    """More rows than fit into one layer, at once and one by one: none of them is kept, in no layer."""
    several = layers[0].declaration.rows_per_append == "any"
    steps = [step for layer in (1, 0) for step in _appends(layers, layer, 0, 3 - layer)]
    if several:
        steps.append(_too_many(layers, 1, 2, 5))
    steps += _appends(layers, 1, 2, 4, filed="CAPACITY-FITS")
    steps += [_too_many(layers, 1, 4, 6 if several else 5), _too_many(layers, 1, 4, 5)]
    steps += _appends(layers, 0, 3, 4, filed="CAPACITY-FITS")
    return _several(layers, "store-overflow", "more rows than fit, into one layer of three", steps, 4)


def _too_many(layers: list[StoreRows], layer: int, start: int, stop: int) -> Operation:
    kept = tuple(Unchanged(name, length="ATOMIC-LENGTH", rows="ATOMIC-ROWS") for name in _watch())
    return Operation(
        op="append", target="main", inputs=layers[layer].inputs(start, stop), arguments={"layer": layer},
        watch=_watch(), label=f"{stop - start} rows onto {start} of 4",
        expect=(Refused("CAPACITY-FULL", ("full",)), *kept),
    )  # fmt: skip


def _handed_out(rows: StoreRows) -> Trace:
    steps: list[Operation] = []
    for n in range(2):
        steps.append(
            Operation(
                op="append", target="main", inputs=rows.inputs(n, n + 1), label=f"row {n}",
                expect=(Length("STORE-LENGTH", n + 1),),
            )
        )  # fmt: skip
        steps.append(
            Operation(
                op="observe", target="main", arguments={"snapshot": True}, label=f"snapshot {n}",
                expect=(
                    Close("KEEP-HANDED-OUT", "snapshot_keys", *rows.field("keys", 0, n + 1)),
                    Close("KEEP-HANDED-OUT", "snapshot_values", *rows.field("values", 0, n + 1)),
                ),
            )
        )  # fmt: skip
        steps.append(
            Operation(
                op="overwrite_output", target="main", arguments={"step": f"snapshot {n}"},
                label=f"snapshot {n} written over",
                expect=(Unchanged("main", length="KEEP-HANDED-OUT", rows="KEEP-HANDED-OUT"),),
            )
        )  # fmt: skip
    made = trace(rows, "store-handed-out", "the caller writes over a snapshot", tuple(steps))
    return replace(made, needs=frozenset({"snapshot"}))
