"""Stores whose layers differ in length when all of them are edited at once."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.adapter import Declaration
from conformance.scenarios.material import StoreRows, store_rows
from conformance.scenarios.storage import CAPACITY, trace
from conformance.trace.expect import Array, Close, Custom, Length, Unchanged
from conformance.trace.model import CacheSpec, Operation, Trace

LENGTHS = (1, 3, 2)
NAMES = tuple(f"main/{layer}" for layer in range(len(LENGTHS)))


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of level store."""
    if declaration.levels[0] != "store":
        return
    layers = [
        store_rows(declaration, lanes=3, shift=3 * layer, layers=len(LENGTHS))
        for layer in range(len(LENGTHS))
    ]
    if "reorder" in declaration.features:
        yield _reordered(layers)
    if "truncate" in declaration.features:
        yield _truncated(layers)


def _filled(layers: list[StoreRows]) -> list[Operation]:
    """One row a call, so that a store that takes no more is asked too."""
    steps = []
    for layer, length in enumerate(LENGTHS):
        for n in range(length):
            seen = (Length("STORE-LENGTH", n + 1, NAMES[layer]),)
            steps.append(
                Operation(
                    op="append", target="main", inputs=layers[layer].inputs(n, n + 1), watch=NAMES,
                    arguments={"layer": layer}, label=f"layer {layer}, row {n}", expect=seen,
                )
            )  # fmt: skip
    return steps


def _made(layers: list[StoreRows], name: str, about: str, steps: list[Operation], needs: str) -> Trace:
    caches = {"main": CacheSpec("a", layers[0].lanes, CAPACITY)}
    return trace(layers[0], name, about, tuple(steps), caches=caches, needs=frozenset({needs}))


def _reordered(layers: list[StoreRows]) -> Trace:
    """Every row of the longest layer moves, though the first one holds fewer."""
    lanes = (2, 0, 1)
    longest = LENGTHS.index(max(LENGTHS))
    expect = []
    for field in ("keys", "values"):
        value, gate = layers[longest].field(field, 0, LENGTHS[longest])
        moved: Array = value[list(lanes)]
        expect.append(Close("REORDER-LANES", f"{field}:{NAMES[longest]}", moved, gate[list(lanes)]))
    reorder = Operation(
        op="reorder", target="main", arguments={"lanes": lanes}, watch=NAMES, label=f"lanes {list(lanes)}",
        expect=tuple(expect),
    )  # fmt: skip
    about = "lanes of layers of different lengths change places"
    return _made(layers, "uneven-reorder", about, [*_filled(layers), reorder], "reorder")


def _truncated(layers: list[StoreRows]) -> Trace:
    """A length that the longest layer holds and the shortest does not: refused or not, no layer grows."""
    kept = Unchanged(NAMES[0], length="TRUNCATE-REFUSED", rows="TRUNCATE-REFUSED")
    wanted = {"kinds": ("invalid_length",), "cache": NAMES[0]}
    truncate = Operation(
        op="truncate", target="main", arguments={"length": 2}, watch=NAMES, label="truncate to 2 rows",
        expect=(Custom("TRUNCATE-REFUSED", "refused_or_unchanged", wanted), kept),
    )  # fmt: skip
    about = "a truncation to more rows than the shortest layer holds"
    return _made(layers, "uneven-truncate", about, [*_filled(layers), truncate], "truncate")
