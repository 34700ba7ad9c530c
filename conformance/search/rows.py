"""Lawful calls, and what a caller may do around them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

import numpy as np

from conformance.scenarios.material import StoreRows, appended, huge
from conformance.scenarios.storage import PROBING
from conformance.search.script import Script
from conformance.trace.expect import Apart, Close, Custom, Same, Unchanged
from conformance.trace.model import Operation

UNSEEN = 64
"""More calls than a command without a look makes."""


@dataclass(frozen=True)
class Append:
    """Lawful rows; more than fit must be refused."""

    cache: int
    count: int
    shift: int
    scale: float
    alike: bool = False
    """All lanes are given the rows of the first."""

    def write(self, script: Script) -> None:
        """One row where chunks are not declared."""
        several = "chunks" in script.declaration.features or script.level == "store"
        block = script.block(self.count if several else 1, self.shift, self.scale)
        if self.alike:
            block = {name: np.repeat(rows[:1], len(rows), axis=0) for name, rows in block.items()}
        script.append(script.name(self.cache), block)


@dataclass(frozen=True)
class EyesShut:
    """A few calls without a look between them, then a look at everything."""

    commands: tuple[Append, ...]
    edit: Any

    def write(self, script: Script) -> None:
        """Rows, an edit, rows."""
        script.blind = UNSEEN
        for command in (*self.commands, self.edit, *self.commands[:1]):
            command.write(script)
        script.blind = 0
        script.look()


@dataclass(frozen=True)
class Foresee:
    """The same chunk in two new caches, with another last row in one of them."""

    count: int
    shift: int
    scale: float

    def write(self, script: Script) -> None:
        """No earlier output may move."""
        count = min(self.count, script.setting.capacity)
        if "chunks" not in script.declaration.features or script.level == "store" or count < 2:
            return
        label = f"step {len(script.steps)}"
        lanes, capacity = script.setting.lanes, script.setting.capacity
        block = script.block(count, self.shift, self.scale)
        kept = (0, count - 1)
        same = Same("CHUNK-CAUSAL", "output", f"{label} first", rows=kept, other_rows=kept, bound=1e-12)
        for name, expect in (("first", ()), ("second", (same,))):
            cache = f"{label} {name} cache"
            wanted = {"batch_size": lanes, "capacity": capacity}
            script.steps.append(Operation(op="build", target=cache, layer="a", arguments=wanted))
            inputs = {key: rows.copy() for key, rows in block.items()}
            script.steps.append(
                Operation(
                    op="append", target=cache, inputs=inputs, label=f"{label} {name}", expect=expect
                )
            )
            for rows in block.values():
                rows[..., -1, :] = 0.5 - rows[..., -1, :]


@dataclass(frozen=True)
class Fill:
    """Rows one by one until the cache is full, and one more."""

    cache: int
    shift: int

    def write(self, script: Script) -> None:
        """The last one must be refused."""
        name = script.name(self.cache)
        for n in range(script.setting.capacity - script.lives[name].length + 1):
            script.append(name, script.block(1, self.shift + n, 1.0))


@dataclass(frozen=True)
class Reset:
    """Back to nothing."""

    cache: int

    def write(self, script: Script) -> None:
        """The binding stays."""
        name = script.name(self.cache)
        life = script.lives[name]
        life.history = script.fresh().history
        kept = Unchanged(name, storage="RESET-BYTES", addresses="RESET-ADDRESSES", capacity="RESET-CAPACITY")
        fixed = (kept,) if "storage" in script.declaration.features else ()
        script.do("reset", name, script.length("RESET-LENGTH", name), *fixed)


@dataclass(frozen=True)
class Poison:
    """Numbers into unused slots."""

    cache: int
    value: float

    def write(self, script: Script) -> None:
        """Nothing that is used may change."""
        if "poison" in script.declaration.features:
            name, most = script.name(self.cache), huge(script.declaration)
            value = min(self.value, most) if isfinite(self.value) else self.value
            script.do(
                "poison", name, Unchanged(name, length="STORE-UNUSED", rows="STORE-UNUSED"), value=value
            )


@dataclass(frozen=True)
class OverwriteInput:
    """The caller writes over the array of the last append."""

    cache: int

    def write(self, script: Script) -> None:
        """The cache must not follow."""
        name = script.name(self.cache)
        if script.lives[name].last:
            kept = Unchanged(name, length="ISOLATE-CALLER-ARRAY", rows="ISOLATE-CALLER-ARRAY")
            script.do("overwrite_input", name, kept, step=script.lives[name].last)


@dataclass(frozen=True)
class OverwriteStep:
    """The caller writes over what the last append handed out."""

    cache: int

    def write(self, script: Script) -> None:
        """The cache must not follow."""
        name = script.name(self.cache)
        if script.lives[name].last and script.level != "store":
            kept = Unchanged(name, length="ISOLATE-HANDED-OUT", rows="ISOLATE-HANDED-OUT")
            script.do("overwrite_output", name, kept, step=script.lives[name].last)


@dataclass(frozen=True)
class OverwriteSnapshot:
    """The caller writes over a snapshot."""

    cache: int

    def write(self, script: Script) -> None:
        """The cache must not follow."""
        name = script.name(self.cache)
        if "snapshot" not in script.declaration.features or not script.lives[name].length:
            return
        own = "KEEP-HANDED-OUT" if script.level == "store" else "ISOLATE-HANDED-OUT"
        label = f"step {len(script.steps)}"
        apart = (Apart(own, name),) if "storage" in script.declaration.features else ()
        script.do("observe", name, *self._seen(script, name), *apart, snapshot=True)
        script.do("overwrite_output", name, Unchanged(name, length=own, rows=own), step=label)

    def _seen(self, script: Script, name: str) -> tuple[Close, ...]:
        """The snapshot holds the exact rows, unless the weights have changed since."""
        life = script.lives[name]
        if script.stale(name) is not None:
            return ()
        rows = script.rows(life.history)
        store = ("KEEP-HANDED-OUT",) * 2
        filed = store if script.level == "store" else ("STORE-KEYS", "STORE-VALUES")
        return tuple(
            Close(requirement, f"snapshot_{field}", *rows.field(field, 0, life.length))
            for requirement, field in zip(filed, ("keys", "values"), strict=True)
        )


@dataclass(frozen=True)
class Probe:
    """One stored value row changed from outside, for the length of one append."""

    cache: int
    shift: int

    def write(self, script: Script) -> None:
        """The output moves with it; then the row is put back."""
        name = script.name(self.cache)
        life, own = script.lives[name], script.setting
        probed = script.level in ("layer", "attention") and "storage" in script.declaration.features
        if not probed or life.length < 1 or script.refusal(name, 1) is not None:
            return
        start = life.length
        block = script.block(1, self.shift, 1.0)
        history = {k: np.concatenate([life.history[k], block[k]], axis=-2) for k in block}
        rows = script.rows(history)
        if isinstance(rows, StoreRows):
            return
        numbers = np.resize(PROBING, own.head_width)
        lane, head, slot = own.lanes - 1, own.kv_heads - 1, start - 1
        value, gate = rows.changed_value(start + 1, slot, lane, head, numbers)
        place = {
            "buffer": 1, "lane": lane, "head": head, "slot": slot, "kv_heads": own.kv_heads,
            "capacity": own.capacity,
        }  # fmt: skip
        probe = Operation(op="overwrite_row", target=name, inputs={"numbers": numbers}, arguments=place)
        label = script.put(probe)
        wanted = {
            "write": label,
            "value": value,
            "bound": gate,
            "unmoved": rows.field("output", start, start + 1)[0],
        }
        moved = Custom("REUSE-STORED-ROW", "moves_as_formula", wanted)
        last = script.put(appended(rows, name, start, start + 1, quiet=True, extra=(moved,)))
        kept = rows.field("values", 0, start)[0][lane, head, slot]
        script.put(replace(probe, inputs={"numbers": kept}))
        life.history, life.last = history, last
