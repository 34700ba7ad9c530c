"""Caches in blocks over one pool: rows, forks, cuts and resets, with the pool counted along."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from conformance.scenarios.material import appended
from conformance.scenarios.storage import unchanged
from conformance.search.script import Life, Script
from conformance.trace.expect import Custom, Expectation, Length, Refused, Unchanged
from conformance.trace.model import Operation

MOST_MEMBERS = 3
"""Caches in one pool."""

MoveKind = Literal["append", "fork", "beside", "truncate", "reset", "reorder"]


@dataclass(frozen=True)
class Move:
    """One call on one cache of the pool. number: how many rows, or which length or lane."""

    kind: MoveKind
    cache: int
    number: int


@dataclass
class _Blocks:
    """Which blocks hold the rows of each cache: shared by forks, copied when one of the holders writes.

    total: blocks of the pool. tables: for each cache and lane, block names in logical order.
    """

    size: int
    total: int
    tables: dict[str, list[list[int]]] = field(default_factory=dict)
    named: int = 0

    @property
    def free(self) -> int:
        """Blocks that no cache names."""
        return self.total - len(self._holders())

    def _holders(self) -> Counter[int]:
        return Counter(block for lanes in self.tables.values() for table in lanes for block in table)

    def needed(self, name: str, held: int, count: int) -> int:
        """Blocks that an append takes from the free ones, copies before a write among them."""
        before, kept = self.free, [list(table) for table in self.tables[name]]
        self.grow(name, held, count)
        taken = before - self.free
        self.tables[name] = kept
        return taken

    def grow(self, name: str, held: int, count: int) -> None:
        """The blocks after an append of `count` rows behind `held`."""
        for table in self.tables[name]:
            if held % self.size and self._holders()[table[-1]] > 1:
                table[-1] = self._fresh()
            while len(table) * self.size < held + count:
                table.append(self._fresh())

    def cut(self, name: str, length: int) -> None:
        """The blocks that `length` rows need stay."""
        for table in self.tables[name]:
            del table[-(-length // self.size) :]

    def share(self, origin: str, name: str, lanes: tuple[int, ...]) -> None:
        """The tables of `name` name what those lanes of `origin` name."""
        own = self.tables[origin]
        self.tables[name] = [list(own[lane]) for lane in lanes]

    def _fresh(self) -> int:
        self.named += 1
        return self.named


@dataclass(frozen=True)
class PoolLife:
    """A pool of its own, a cache in it, and what becomes of both.

    rows: rows that a block holds. blocks: how many the pool has, at least one.
    """

    rows: int
    blocks: int
    moves: tuple[Move, ...]

    def write(self, script: Script) -> None:
        """Level layer; one row an append, and everything counted after every call."""
        if "paged" in script.declaration.features and script.level == "layer":
            pool = _Pool(script, _Blocks(self.rows, self.blocks), f"pool {len(script.steps)}")
            pool.open()
            for move in self.moves:
                pool.play(move)


@dataclass
class _Pool:
    """The caches of one pool while the steps are written."""

    script: Script
    blocks: _Blocks
    mark: str
    lives: dict[str, Life] = field(default_factory=dict)

    def open(self) -> None:
        """One more cache; the first brings the pool."""
        own, name = self.script.setting, f"{self.mark} c{len(self.lives)}"
        first = next(iter(self.lives), "")
        self.lives[name] = self.script.fresh()
        self.blocks.tables[name] = [[] for _ in range(own.lanes)]
        self._add(
            Operation(
                op="build", target=name, layer="a", expect=(Length("STORE-LENGTH", 0, name),),
                arguments={
                    "batch_size": own.lanes, "capacity": own.capacity, "block_size": self.blocks.size,
                    "blocks": self.blocks.total, "shared_with": first,
                },
            )
        )  # fmt: skip

    def play(self, move: Move) -> None:
        """One call, lawful or to be refused."""
        name = list(self.lives)[move.cache % len(self.lives)]
        own = self.script.declaration.features
        if move.kind == "append":
            self._append(name, 1 + move.number % 3 if "chunks" in own else 1, move.number)
        elif move.kind == "reset":
            self._cut(name, 0, "reset", "RESET-LENGTH", {})
        elif move.kind == "truncate" and "truncate" in own:
            length = move.number % (self.lives[name].length + 1)
            self._cut(name, length, "truncate", "TRUNCATE-LENGTH", {"length": length})
        elif move.kind == "reorder" and "reorder" in own:
            self._reorder(name, move.number)
        elif move.kind == "beside" and len(self.lives) < MOST_MEMBERS:
            self.open()
        elif move.kind == "fork" and "fork" in own and len(self.lives) < MOST_MEMBERS:
            self._fork(name)

    def _append(self, name: str, count: int, shift: int) -> None:
        life, block = self.lives[name], self.script.block(count, shift, 1.0)
        if life.length + count > self.script.setting.capacity:
            self._refused(name, block, Refused("CAPACITY-FULL", ("full",)))
            return
        if self.blocks.needed(name, life.length, count) > self.blocks.free:
            self._refused(name, block, Refused("PAGED-EXHAUSTED", ("blocks_exhausted",)))
            return
        start = life.length
        self.blocks.grow(name, start, count)
        history = {key: np.concatenate([life.history[key], block[key]], axis=-2) for key in block}
        self.lives[name] = replace(life, history=history)
        filed = "PAGED-EDGES"
        self._add(
            appended(
                self.script.rows(history), name, start, start + count, layer="a",
                output=filed, keys=filed, values=filed, extra=self._counted(name),
            )
        )  # fmt: skip

    def _refused(self, name: str, block: dict[str, NDArray[np.float64]], refusal: Refused) -> None:
        self._add(
            Operation(
                op="append", target=name, layer="a", inputs=block,
                expect=(refusal, unchanged(name), self._free("PAGED-EXHAUSTED", name)),
            )
        )  # fmt: skip

    def _cut(self, name: str, length: int, op: str, filed: str, arguments: dict[str, object]) -> None:
        life = self.lives[name]
        kept = {key: rows[..., :length, :] for key, rows in life.history.items()}
        self.lives[name] = replace(life, history=kept)
        self.blocks.cut(name, length)
        self._add(
            Operation(
                op=op, target=name, arguments=arguments,
                expect=(Length(filed, length, name), self._free("PAGED-POOL", name)),
            )
        )  # fmt: skip

    def _fork(self, origin: str) -> None:
        name, life = f"{self.mark} c{len(self.lives)}", self.lives[origin]
        self.lives[name] = replace(life)
        self.blocks.share(origin, name, tuple(range(self.script.setting.lanes)))
        self._add(
            Operation(
                op="fork", target=origin, arguments={"name": name},
                expect=(Length("FORK-EQUAL", life.length, name), self._free("PAGED-SHARE", name)),
            )
        )  # fmt: skip

    def _reorder(self, name: str, number: int) -> None:
        life, count = self.lives[name], self.script.setting.lanes
        lanes = tuple((lane + number) % count for lane in range(count))
        moved = {key: rows[list(lanes)] for key, rows in life.history.items()}
        self.lives[name] = replace(life, history=moved)
        self.blocks.share(name, name, lanes)
        self._add(
            Operation(
                op="reorder", target=name, arguments={"lanes": lanes},
                expect=(Length("REORDER-LANES", life.length, name), self._free("PAGED-POOL", name)),
            )
        )  # fmt: skip

    def _free(self, filed: str, name: str) -> Expectation:
        return Custom(filed, "free_blocks", {"cache": name, "free": self.blocks.free})

    def _counted(self, name: str) -> tuple[Expectation, ...]:
        """What block tables and pool must show, over every cache that was looked at so far."""
        caches = tuple(self.lives)
        return (
            Custom("PAGED-TABLE", "block_tables", {"caches": caches, "shared": True}),
            self._free("PAGED-POOL", name),
        )

    def _add(self, step: Operation) -> None:
        """A step that looks at every cache of the pool; those that it is not about stay as they are."""
        if step.op not in ("build", "fork"):
            kept = "ISOLATE-CACHES"
            others = (Unchanged(name, length=kept, rows=kept) for name in self.lives if name != step.target)
            step = replace(step, watch=tuple(self.lives), expect=(*step.expect, *others))
        self.script.put(step)
