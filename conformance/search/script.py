"""A trace under construction: what stands, what each cache has lived through, what must come next.

The script knows the rules, so a command that is not lawful in a state becomes a call that must be refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    AttentionRows,
    LayerRows,
    Rows,
    StoreRows,
    appended,
    layer_config,
    layer_parameters,
    row_block,
)
from conformance.scenarios.storage import EVIDENCE, trace, unchanged
from conformance.trace.expect import (
    Array,
    Close,
    Custom,
    Declares,
    Expectation,
    InputsKept,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)
from conformance.trace.model import CacheSpec, Derived, Operation, Source, Trace
from conformance.values import PARAMETERS, AttentionConfig, LayerParameters, StoreConfig

MOST_CACHES = 3
"""As many as a paged adapter has blocks for: forks stand in the pool of their origin."""

ROOM = 64
"""Asked for where a capacity may be rounded, so that no row is one too many by that choice."""


@dataclass(frozen=True)
class Setting:
    """The geometry of a script."""

    lanes: int
    capacity: int
    heads: int
    kv_heads: int
    head_width: int
    base: float
    pairing: str
    weights: int


@dataclass
class Life:
    """What a cache holds: its input rows by name, and the parameters that it was bound to."""

    history: dict[str, Array]
    revisions: tuple[int, ...]
    last: str = ""

    @property
    def length(self) -> int:
        """Rows held."""
        return int(next(iter(self.history.values())).shape[-2])


@dataclass
class Script:
    """Writes steps with expectations. One layer `a`; caches `c0`, `c1`, ...

    blind: how many of the next calls are made without a look before and after them.
    """

    declaration: Declaration
    setting: Setting
    parameters: LayerParameters = field(init=False)
    revisions: list[int] = field(default_factory=lambda: [0] * len(PARAMETERS))
    lives: dict[str, Life] = field(default_factory=dict)
    steps: list[Operation] = field(default_factory=list)
    layers: dict[str, Source | Derived] = field(default_factory=dict)
    opened: dict[str, CacheSpec] = field(default_factory=dict)
    blind: int = 0

    def __post_init__(self) -> None:
        own = self.setting
        config = layer_config(own.heads, own.kv_heads, own.head_width, base=own.base, positions=64)
        self.config = replace(config, rope=replace(config.rope, pairing=own.pairing))  # type: ignore[arg-type]
        self.parameters = self.first_parameters = layer_parameters(self.config, shift=own.weights)
        self.level = self.declaration.levels[0]
        self.lives["c0"] = self.fresh()
        self.opened["c0"] = CacheSpec("a", own.lanes, self.capacity)

    @property
    def capacity(self) -> int:
        """What a cache is built for."""
        return ROOM if self.declaration.capacity == "rounded" else self.setting.capacity

    # -- rows -------------------------------------------------------------------------------------------

    def block(self, count: int, shift: int, scale: float) -> dict[str, Array]:
        """`count` new rows by rule, as an append is given them."""
        own = self.setting
        width = own.heads * own.head_width
        if self.level == "layer":
            return {"rows": row_block(own.lanes, count, width, shift=shift) * scale}
        heads = {"query": own.heads, "key": own.kv_heads, "value": own.kv_heads}
        names = {"keys": own.kv_heads, "values": own.kv_heads} if self.level == "store" else heads
        made = {}
        for number, (name, rows) in enumerate(names.items()):
            flat = row_block(own.lanes * rows, count, own.head_width, shift=shift + 3 * number) * scale
            made[name] = flat.reshape(own.lanes, rows, count, own.head_width)
        return made

    def fresh(self) -> Life:
        """A life without rows, bound to the parameters as they stand."""
        return Life(self.block(0, 0, 1.0), tuple(self.revisions))

    def rows(self, history: Mapping[str, Array]) -> Rows:
        """The rows of a life with everything that must come out of them."""
        own = self.setting
        if self.level == "layer":
            return LayerRows(self.declaration, self.config, self.parameters, history["rows"])
        if self.level == "attention":
            attention = AttentionConfig(own.heads, own.kv_heads, own.head_width, own.head_width)
            return AttentionRows(self.declaration, attention, **history)
        store = StoreConfig(1, own.kv_heads, own.head_width, own.head_width)
        return StoreRows(self.declaration, store, **history)

    # -- what may happen --------------------------------------------------------------------------------

    def name(self, choice: int) -> str:
        """One of the caches that stand."""
        names = sorted(self.lives)
        return names[choice % len(names)]

    def stale(self, name: str) -> int | None:
        """Index of the first parameter that was updated since the cache was bound."""
        bound = self.lives[name].revisions
        changed = (i for i, (a, b) in enumerate(zip(bound, self.revisions, strict=True)) if a != b)
        return next(changed, None)

    def refusal(self, name: str, count: int) -> Refused | None:
        """The refusal that an append of `count` rows of the right form must meet, if any."""
        index = self.stale(name)
        if index is not None:
            return Refused("BIND-REVISION", ("cache_layer_revision_mismatch",), {"parameter": index})
        if self.lives[name].length + count > self.setting.capacity and self.declaration.capacity == "exact":
            return Refused("CAPACITY-FULL", ("full",))
        return None

    def append(self, name: str, block: dict[str, Array]) -> None:
        """An append, accepted or refused as the state demands."""
        life = self.lives[name]
        count = int(next(iter(block.values())).shape[-2])
        refusal = self.refusal(name, count)
        label = f"step {len(self.steps)}"
        if refusal is not None:
            self.refuse(name, block, refusal)
            return
        start = life.length
        axis = 1 if self.level == "layer" else 2
        history = {key: np.concatenate([life.history[key], block[key]], axis=axis) for key in block}
        rows = self.rows(history)
        shown = (*self.evidence(rows, start, start + count), *self.storage(), *self.work(start, count))
        extra = (*shown, InputsKept("ISOLATE-INPUTS"), *self.others(name))
        step = appended(rows, name, start, start + count, label=label, extra=extra)
        self.add(replace(step, watch=tuple(sorted(self.lives))))
        life.history, life.last = history, label

    def add(self, step: Operation) -> None:
        """One more step; while eyes are shut, only what it hands out is asked for."""
        if self.blind:
            self.blind -= 1
            asked = (e for e in step.expect if isinstance(e, Refused) or _handed_out(e))
            step = replace(step, watch=(), expect=tuple(asked))
        self.steps.append(step)

    def look(self) -> None:
        """Every cache holds the exact rows."""
        for name, life in sorted(self.lives.items()):
            if life.length and self.stale(name) is None:
                rows = self.rows(life.history)
                filed = ("KEEP-PREFIX",) * 2 if self.level == "store" else ("STORE-KEYS", "STORE-VALUES")
                seen = (
                    Close(requirement, field, *rows.field(field, 0, life.length))
                    for requirement, field in zip(filed, ("keys", "values"), strict=True)
                )
                self.do("observe", name, Length("STORE-LENGTH", life.length), *seen)

    def evidence(self, rows: Rows, start: int, stop: int) -> tuple[Expectation, ...]:
        """Every field that a step offers, where evidence is declared."""
        if not isinstance(rows, LayerRows) or "evidence" not in self.declaration.features:
            return ()
        seen = {name: rows.field(name, start, stop) for name in EVIDENCE}
        shapes = Shapes("SHAPE-EVIDENCE", {name: value.shape for name, (value, _) in seen.items()})
        return (*(Close(EVIDENCE[name], name, *pair) for name, pair in seen.items()), shapes)

    def work(self, start: int, count: int) -> tuple[Expectation, ...]:
        """The declared work of an append, where it is declared at all."""
        if self.level != "layer" or "work" not in self.declaration.features:
            return ()
        figures = {
            "position": start,
            "full_prefix_rows": start + count,
            "incremental_rows": count,
            "reused_rows": start,
        }
        return tuple(Declares("REUSE-WORK-STEP", f"work.{name}", value) for name, value in figures.items())

    def storage(self) -> tuple[Expectation, ...]:
        """As many stored numbers as the key/value heads need, where both can be asked."""
        own = self.setting
        asked = {"gqa", "storage"} <= self.declaration.features and self.declaration.capacity == "exact"
        if not asked or self.level not in ("layer", "attention"):
            return ()
        elements = 2 * own.lanes * own.kv_heads * own.capacity * own.head_width
        return (Custom("GQA-STORED-HEADS", "storage_total", {"elements": elements}),)

    def others(self, name: str) -> tuple[Expectation, ...]:
        """Every other cache stays as it is."""
        kept = "ISOLATE-CACHES"
        return tuple(
            Unchanged(other, length=kept, rows=kept) for other in sorted(self.lives) if other != name
        )

    def embed(self, scene: Trace) -> None:
        """Play a whole scenario with layers and caches of its own."""
        mark = f"scene {len(self.steps)}"
        self.layers |= {f"{mark} {name}": source for name, source in scene.layers.items()}
        for name, spec in scene.caches.items():
            self.steps.append(
                Operation(
                    op="build", target=f"{mark} {name}", layer=f"{mark} {spec.layer}", label=f"{mark} {name}",
                    arguments={"batch_size": spec.batch_size, "capacity": spec.capacity},
                )
            )  # fmt: skip
        self.steps += [_moved(step, mark) for step in scene.steps]

    def refuse(
        self, name: str, inputs: Mapping[str, Array], refusal: Refused, layer: str | None = None
    ) -> None:
        """A call that must be refused and leave everything as it is."""
        self.add(
            Operation(
                op="append", target=name, layer=layer, inputs=inputs, label=f"step {len(self.steps)}",
                expect=(refusal, unchanged(name)),
            )
        )  # fmt: skip

    def put(self, step: Operation) -> str:
        """One more step whether or not eyes are shut, under the label that is returned."""
        label = f"step {len(self.steps)}"
        self.steps.append(replace(step, label=label))
        return label

    def build(self, name: str, *expect: Expectation) -> None:
        """One more cache of layer a."""
        wanted = {"batch_size": self.setting.lanes, "capacity": self.capacity}
        self.put(Operation(op="build", target=name, layer="a", arguments=wanted, expect=expect))

    def do(self, op: str, target: str, /, *expect: Expectation, **arguments: object) -> None:
        """Any other operation."""
        self.add(
            Operation(
                op=op, target=target, arguments=arguments, label=f"step {len(self.steps)}", expect=expect
            )
        )

    def length(self, requirement: str, name: str) -> Length:
        """The length that the cache must show now."""
        return Length(requirement, self.lives[name].length, name)

    def finish(self, identifier: str) -> Trace:
        """The trace. Its layer has the parameters that stood at the beginning."""
        rows = self.rows(self.lives["c0"].history)
        source = rows.source
        if self.level == "layer":
            source = replace(source, parameters=self.first_parameters)
        return trace(
            rows, identifier, "found by search", tuple(self.steps), caches=dict(self.opened),
            layers={"a": source, **self.layers},
        )  # fmt: skip


def _handed_out(expectation: Expectation) -> bool:
    """Whether it is asked of what a call hands out."""
    fields = ("output", "snapshot_keys", "snapshot_values")
    return isinstance(expectation, Close) and expectation.field in fields


def _moved(step: Operation, mark: str) -> Operation:
    """A step of a scenario with the names of its layers and caches, and the labels it refers to, marked."""
    expect: list[Expectation] = []
    for e in step.expect:
        if isinstance(e, Unchanged):
            expect.append(replace(e, cache=f"{mark} {e.cache}"))
        elif isinstance(e, Same):
            expect.append(replace(e, other=f"{mark} {e.other}"))
        else:
            expect.append(e)
    return replace(
        step,
        target=f"{mark} {step.target}" if step.target else "",
        layer=f"{mark} {step.layer}" if step.layer else None,
        label=f"{mark} {step.label}" if step.label else "",
        expect=tuple(expect),
    )
