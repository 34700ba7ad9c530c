"""Caches that are built for one question: a life that is lived again, a long decode, an uncached pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from conformance.scenarios.long import long_decode
from conformance.scenarios.material import appended
from conformance.scenarios.storage import physical, shown
from conformance.search.script import Script
from conformance.trace.expect import Close, Length, Same, Unchanged
from conformance.trace.model import Operation

Way = Literal["reset", "truncate"]


@dataclass(frozen=True)
class Relive:
    """Rows in a new cache, a way back to fewer of them, and the same rows again."""

    way: Way
    kept: int
    shift: int

    def write(self, script: Script) -> None:
        """Bit for bit alike; level store has a scenario of its own for it."""
        count = min(2, script.setting.capacity)
        kept = min(self.kept, count - 1) if self.way == "truncate" else 0
        known = self.way == "reset" or "truncate" in script.declaration.features
        if not known or script.level == "store":
            return
        name = f"life {len(script.steps)}"
        rows = script.rows(script.block(count, self.shift, 1.0))
        fixed = script.declaration.capacity == "exact"
        buffers = physical(rows, script.capacity) if fixed else ()
        script.build(name, Length("STORE-LENGTH", 0, name), *buffers)
        labels = [script.put(appended(rows, name, n, n + 1, layer="a")) for n in range(count)]
        arguments = {"length": kept} if self.way == "truncate" else {}
        filed = "TRUNCATE" if self.way == "truncate" else "RESET"
        script.do(self.way, name, Length(f"{filed}-LENGTH", kept, name), **arguments)
        alike = "TRUNCATE-FORGETS" if self.way == "truncate" else "RESET-REPLAY"
        for n in range(kept, count):
            same = tuple(Same(alike, part, labels[n], bound=1e-12) for part in shown(rows))
            script.put(appended(rows, name, n, n + 1, layer="a", extra=same))


@dataclass(frozen=True)
class LongDecode:
    """Past a tile of 64 rows, past seven bits, past a byte: one row a call, seen in the outputs."""

    rows: int
    heads: int
    kv_heads: int
    base: float

    def write(self, script: Script) -> None:
        """Levels that have outputs, in float64."""
        declared = script.declaration
        if script.level not in ("layer", "attention") or declared.dtypes[0] != "float64":
            return
        kv_heads = self.kv_heads if "gqa" in declared.features else self.heads
        width = script.setting.head_width
        script.embed(
            long_decode(
                declared, self.rows, heads=self.heads, kv_heads=kv_heads, head_width=width, base=self.base
            )
        )


@dataclass(frozen=True)
class FullPrefix:
    """The implementation's own uncached pass over what a cache holds."""

    cache: int

    def write(self, script: Script) -> None:
        """The exact outputs, and no cache takes part in it."""
        name = script.name(self.cache)
        life = script.lives[name]
        if "full_prefix" not in script.declaration.features or script.level != "layer" or not life.length:
            return
        rows = script.rows(life.history)
        value, gate = rows.field("output", 0, life.length)
        script.put(
            Operation(
                op="full_prefix", layer="a", inputs={"rows": life.history["rows"]}, watch=(name,),
                expect=(
                    Unchanged(name, length="STORE-LENGTH", rows="STORE-EARLIER-ROWS"),
                    Close("AGREE-FULL-PREFIX", "output", value, gate),
                ),
            )
        )  # fmt: skip


@dataclass(frozen=True)
class OverwriteWeights:
    """The caller writes over the arrays of weights that the layer was built from."""

    def write(self, script: Script) -> None:
        """The next row comes out as before."""
        if script.level == "layer":
            script.do("overwrite_input", "", step="layer a")
