"""Caches that are built for one question: a life that is lived again, a long decode, an uncached pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from conformance.scenarios.long import long_decode
from conformance.scenarios.material import LayerRows, Rows, appended
from conformance.scenarios.storage import EVIDENCE
from conformance.search.script import Script
from conformance.trace.expect import Close, Custom, Expectation, Length, Same, Unchanged
from conformance.trace.model import Operation


def build(script: Script, name: str, *expect: Expectation) -> None:
    """One more cache of layer a, which no later command knows."""
    wanted = {"batch_size": script.setting.lanes, "capacity": script.capacity}
    script.steps.append(
        Operation(
            op="build", target=name, layer="a", arguments=wanted, label=f"step {len(script.steps)}",
            expect=expect,
        )
    )  # fmt: skip


def clean_buffers(script: Script) -> tuple[Expectation, ...]:
    """What the physical buffers of a new cache hold, where they can be looked at and their size is known."""
    own, declared = script.setting, script.declaration
    if script.level != "layer" or "storage" not in declared.features or declared.capacity != "exact":
        return ()
    shape = (own.lanes, own.kv_heads, own.capacity, own.head_width)
    return (
        Custom("STORE-TWO-BUFFERS", "two_buffers", {"shape": shape}),
        Custom("STORE-ZERO-FILLED", "zero_filled"),
    )


def shown(rows: Rows) -> tuple[str, ...]:
    """The fields by which two lives of the same rows are compared."""
    evidence = isinstance(rows, LayerRows) and "evidence" in rows.declaration.features
    return (*rows.fields, *(EVIDENCE if evidence else ()))


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
        build(script, name, Length("STORE-LENGTH", 0, name), *clean_buffers(script))
        block = script.block(count, self.shift, 1.0)
        rows = script.rows(block)
        labels = [self._row(script, rows, name, n) for n in range(count)]
        arguments = {"length": kept} if self.way == "truncate" else {}
        filed = "TRUNCATE" if self.way == "truncate" else "RESET"
        script.steps.append(
            Operation(
                op=self.way, target=name, arguments=arguments, label=f"step {len(script.steps)}",
                expect=(Length(f"{filed}-LENGTH", kept, name),),
            )
        )  # fmt: skip
        alike = "TRUNCATE-FORGETS" if self.way == "truncate" else "RESET-REPLAY"
        for n in range(kept, count):
            same = tuple(Same(alike, part, labels[n], bound=1e-12) for part in shown(rows))
            self._row(script, rows, name, n, *same)

    def _row(self, script: Script, rows: Rows, name: str, n: int, *extra: Expectation) -> str:
        label = f"step {len(script.steps)}"
        script.steps.append(appended(rows, name, n, n + 1, layer="a", label=label, extra=extra))
        return label


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
        script.steps.append(
            Operation(
                op="full_prefix", layer="a", inputs={"rows": life.history["rows"]}, watch=(name,),
                label=f"step {len(script.steps)}",
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
            script.steps.append(
                Operation(
                    op="overwrite_input", target="", arguments={"step": "layer a"}, watch=(),
                    label=f"step {len(script.steps)}",
                )
            )  # fmt: skip
