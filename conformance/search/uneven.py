"""Stores of several layers that differ in length: rows, resets, cuts and turns of all layers at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from conformance.scenarios.material import StoreRows, store_rows
from conformance.search.script import Script
from conformance.trace.expect import Array, Close, Expectation, InputsKept, Length
from conformance.trace.model import Operation, Source

LAYERS = 3
MOST = 300
"""Rows in a layer that a life may come to: past one byte."""

TurnKind = Literal["append", "reset", "truncate", "reorder"]


@dataclass(frozen=True)
class Turn:
    """One call. number: which rows, which length, or which lanes."""

    kind: TurnKind
    layer: int
    count: int
    number: int


@dataclass(frozen=True)
class StoreLife:
    """A store of three layers with rows of its own shape."""

    lanes: int
    turns: tuple[Turn, ...]

    def write(self, script: Script) -> None:
        """Level store: after every call all layers hold the exact rows."""
        if script.level == "store":
            life = _Layers(script, store_rows(script.declaration, lanes=self.lanes, rows=0, layers=LAYERS))
            life.open()
            for turn in self.turns:
                life.play(turn)


@dataclass
class _Layers:
    """What each layer holds while the steps are written."""

    script: Script
    empty: StoreRows
    name: str = ""
    held: list[StoreRows] = field(default_factory=list)

    def open(self) -> None:
        """The store, for as many rows as a life may come to."""
        self.name = f"store {len(self.script.steps)}"
        self.held = [self.empty] * LAYERS
        self.script.layers[self.name] = Source(self.empty.config)
        wanted = {"batch_size": self.empty.lanes, "capacity": MOST}
        self.script.put(Operation(op="build", target=self.name, layer=self.name, arguments=wanted, watch=()))

    def play(self, turn: Turn) -> None:
        """One call on one layer, or on all of them."""
        features = self.script.declaration.features
        if turn.kind == "append":
            self._append(turn.layer, turn.count, turn.number)
        elif turn.kind == "reset":
            self._all(lambda part: part[:, :, :0])
            self._add("reset")
        elif turn.kind == "truncate" and "truncate" in features:
            length = turn.number % (min(rows.keys.shape[2] for rows in self.held) + 1)
            self._all(lambda part: part[:, :, :length])
            self._add("truncate", arguments={"length": length})
        elif turn.kind == "reorder" and "reorder" in features:
            lanes = tuple((lane + turn.number) % self.empty.lanes for lane in range(self.empty.lanes))
            self._all(lambda part: part[list(lanes)])
            self._add("reorder", arguments={"lanes": lanes})

    def _append(self, layer: int, count: int, shift: int) -> None:
        held = self.held[layer]
        taken = 1 if self.script.declaration.rows_per_append == "one" else count
        rows = store_rows(
            self.script.declaration, lanes=self.empty.lanes, rows=min(taken, MOST - held.keys.shape[2]),
            shift=shift, layers=LAYERS,
        )  # fmt: skip
        if rows.keys.shape[2] == 0:
            return
        self.held[layer] = replace(
            held,
            keys=np.concatenate([held.keys, rows.keys], axis=2),
            values=np.concatenate([held.values, rows.values], axis=2),
        )
        inputs = {"keys": rows.keys, "values": rows.values}
        self._add("append", inputs=inputs, arguments={"layer": layer}, expect=(InputsKept("ISOLATE-INPUTS"),))

    def _all(self, change: Callable[[Array], Array]) -> None:
        """Every layer is edited alike."""
        self.held = [replace(rows, keys=change(rows.keys), values=change(rows.values)) for rows in self.held]

    def _add(self, op: str, expect: tuple[Expectation, ...] = (), **given: Any) -> None:
        """One call, and what every layer shows after it."""
        names = tuple(f"{self.name}/{layer}" for layer in range(LAYERS))
        seen = tuple(e for name, rows in zip(names, self.held, strict=True) for e in _shown(name, rows))
        self.script.put(Operation(op=op, target=self.name, watch=names, expect=(*expect, *seen), **given))


def _shown(name: str, rows: StoreRows) -> Iterator[Expectation]:
    count = rows.keys.shape[2]
    yield Length("STORE-LENGTH", count, name)
    if count:
        for part in ("keys", "values"):
            yield Close("KEEP-PREFIX", f"{part}:{name}", *rows.field(part, 0, count))
