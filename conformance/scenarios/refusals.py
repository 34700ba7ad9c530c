"""Refused appends: every kind, on empty, part-filled and full caches, and what goes on afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.scenarios.material import (
    LayerRows,
    Rows,
    appended,
    layer_config,
    layer_parameters,
    material,
)
from conformance.scenarios.storage import trace, unchanged
from conformance.trace.expect import Array, Expectation, Refused, Same
from conformance.trace.model import CacheSpec, Derived, Operation, Source, Trace
from conformance.values import PARAMETERS, LayerConfig, RopeConfig

CAPACITY = 4


@dataclass(frozen=True, eq=False)
class Offence:
    """One way to break one rule: an input of the wrong form, or a layer that the cache is not bound to.

    layers: what must stand beside the cache's own layer `a`; layer: the one that the call names.
    """

    name: str
    requirement: str
    kind: str
    inputs: Mapping[str, Array] = field(default_factory=dict)
    layers: Mapping[str, Source | Derived] = field(default_factory=dict)
    layer: str | None = None
    needs: frozenset[str] = frozenset()
    kinds: tuple[str, ...] = ()

    @property
    def accepted_kinds(self) -> tuple[str, ...]:
        """The kinds that name this offence rightly."""
        return self.kinds or (self.kind,)

    def carried(self, rows: Rows) -> dict[str, int]:
        """What a rejection of it may carry: what the cache or the layer wanted, and what came."""
        given = self.inputs.get("rows")
        other = self.layers.get("b")
        if self.kind == "input_batch_mismatch" and given is not None:
            return {"expected": rows.lanes, "found": given.shape[0]}
        if self.kind == "input_width_mismatch" and given is not None and isinstance(rows, LayerRows):
            return {"expected": rows.config.model_width, "found": given.shape[2]}
        if self.kind == "cache_model_width_mismatch" and isinstance(rows, LayerRows):
            config = getattr(other, "config", None)
            return {"expected": rows.config.model_width, "found": getattr(config, "model_width", 0)}
        return {}


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Each offence on an empty, a part-filled and a full cache; at other levels the row too many alone."""
    rows = material(declaration)
    if isinstance(rows, LayerRows):
        groups: dict[tuple[str, frozenset[str]], list[Offence]] = {}
        for offence in (*form_offences(rows), *layer_offences(rows)):
            groups.setdefault((offence.requirement, offence.needs), []).append(offence)
        for offences in groups.values():
            yield refused_throughout(rows, offences)
    yield _full(rows)


def refused_throughout(rows: Rows, offences: Sequence[Offence]) -> Trace:
    """Refused calls of one requirement with no row held, with two, with four; what is lawful goes on."""
    steps: list[Operation] = []
    for held in (0, 2, CAPACITY):
        steps += [_refused(rows, offence, held) for offence in offences]
        steps += future(rows, held)
    layers = {f"{name} of {o.name}": layer for o in offences for name, layer in o.layers.items()}
    names = [offence.name for offence in offences]
    return trace(
        rows,
        f"refused-{names[0]}",
        f"{', '.join(names).replace('-', ' ')} on an empty, a part-filled and a full cache",
        tuple(steps),
        layers={"a": rows.source, **layers},
        caches=twins(rows),
        needs=offences[0].needs,
    )


def _refused(rows: Rows, offence: Offence, held: int) -> Operation:
    return Operation(
        op="append",
        target="main",
        layer=f"{offence.layer} of {offence.name}" if offence.layer else None,
        inputs=offence.inputs or rows.inputs(held, held + 1),
        label=f"{offence.name}, {held} rows held",
        expect=(
            Refused(offence.requirement, offence.accepted_kinds, offence.carried(rows)),
            unchanged("main"),
        ),
    )


def twins(rows: Rows) -> dict[str, CacheSpec]:
    """Two caches of layer a."""
    return {name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "twin")}


def future(rows: Rows, held: int) -> list[Operation]:
    """The next rows of main and twin, bit for bit alike; on a full cache after a reset of both."""
    steps: list[Operation] = []
    start = held
    if held == CAPACITY:
        steps += [Operation(op="reset", target=name, label=f"reset {name}") for name in ("main", "twin")]
        start = 0
    for n in range(start, min(start + 2, CAPACITY)):
        label = f"twin goes on from {held} rows with row {n}"
        steps.append(appended(rows, "twin", n, n + 1, label=label))
        steps.append(appended(rows, "main", n, n + 1, extra=alike(rows, label)))
    return steps


def alike(rows: Rows, label: str) -> tuple[Expectation, ...]:
    """Everything observed equals what the untouched twin showed."""
    gate = 2.0 * float(np.max(rows.field(rows.fields[0], 0, CAPACITY)[1]))
    return tuple(Same("ATOMIC-FUTURE", name, label, bound=gate) for name in rows.fields)


def form_offences(rows: LayerRows) -> list[Offence]:
    """Checks 1 to 4: inputs of the wrong form."""
    lanes, width = rows.lanes, rows.config.model_width
    some = rows.rows
    chunks = "chunks" in rows.declaration.features
    empty = ("empty_chunk", "single_token_required")
    found = [
        Offence("rank-two", "REJECT-RANK", "input_rank", {"rows": some[:, 0]}),
        Offence("rank-four", "REJECT-RANK", "input_rank", {"rows": some[:, None, :1]}),
        Offence(
            "no-token", "REJECT-TOKENS", "single_token_required", {"rows": some[:, :0]}, kinds=empty
        ),
        Offence(
            "one-lane-more", "REJECT-BATCH", "input_batch_mismatch",
            {"rows": np.concatenate([some[:, :1], some[:1, :1]])},
        ),
        Offence("one-lane-less", "REJECT-BATCH", "input_batch_mismatch", {"rows": some[: lanes - 1, :1]}),
        Offence("narrow-row", "REJECT-WIDTH", "input_width_mismatch", {"rows": some[:, :1, : width - 1]}),
        Offence(
            "wide-row", "REJECT-WIDTH", "input_width_mismatch",
            {"rows": np.concatenate([some[:, :1], some[:, :1]], axis=2)},
        ),
    ]  # fmt: skip
    if not chunks:
        found.append(Offence("two-tokens", "REJECT-TOKENS", "single_token_required", {"rows": some[:, :2]}))
    return found


def layer_offences(rows: LayerRows) -> list[Offence]:
    """Checks 5, 6, 8 and 10 (revisions, check 9, are updates and stand with the binding)."""
    rope = rows.config.rope
    rewire = frozenset({"rewire"})
    width = rows.config.head_width
    found = [
        another_layer(
            rows,
            "other-width",
            "BIND-MODEL-WIDTH",
            layer_config(heads=4, head_width=width),
            "cache_model_width_mismatch",
        ),
        another_layer(
            rows,
            "other-heads",
            "BIND-HEADS",
            layer_config(heads=4, head_width=width // 2),
            "cache_head_count_mismatch",
        ),
    ]
    if "gqa" in rows.declaration.features:
        config = layer_config(heads=2, kv_heads=1, head_width=width)
        found.append(
            another_layer(rows, "other-kv-heads", "BIND-KV-HEADS", config, "cache_head_count_mismatch")
        )
    for name in PARAMETERS:
        found.append(
            Offence(
                f"rebuilt-{name}", "BIND-IDENTITY", "cache_layer_mismatch",
                layers={"b": Derived("a", fresh=(name,))}, layer="b", needs=rewire,
            )
        )  # fmt: skip
    found.append(
        Offence(
            "rebuilt-layer", "BIND-IDENTITY", "cache_layer_mismatch", layers={"b": rows.source}, layer="b"
        )
    )
    for name, base in (
        ("base-doubled", rope.base * 2),
        ("base-one-ulp-up", float(np.nextafter(rope.base, 1e9))),
    ):
        found.append(rerotated(rows, name, "BIND-ROPE-BASE", replace(rope, base=base)))
    found.append(
        rerotated(
            rows,
            "one-position-more",
            "BIND-ROPE-POSITIONS",
            replace(rope, max_positions=rope.max_positions + 1),
        )
    )
    return found


def another_layer(rows: LayerRows, name: str, requirement: str, config: LayerConfig, kind: str) -> Offence:
    """A layer of another geometry, called with rows that fit it."""
    given = np.zeros((rows.lanes, 1, config.model_width)) + 0.5
    source = Source(config, layer_parameters(config))
    return Offence(name, requirement, kind, {"rows": given}, {"b": source}, "b")


def rerotated(rows: LayerRows, name: str, requirement: str, rope: RopeConfig) -> Offence:
    """The same parameter nodes with another RoPE configuration."""
    config = replace(rows.config, rope=rope)
    return Offence(
        name, requirement, "cache_rope_mismatch", layers={"b": Derived("a", config=config)}, layer="b",
        needs=frozenset({"rewire"}),
    )  # fmt: skip


def _full(rows: Rows) -> Trace:
    """Row C + 1 is refused twice; then a reset, and everything fits again."""
    steps = [appended(rows, name, n, n + 1) for n in range(CAPACITY) for name in ("main", "twin")]
    if rows.declaration.capacity == "exact":
        inputs: Mapping[str, Any] = rows.inputs(CAPACITY, CAPACITY + 1)
        steps += [
            Operation(
                op="append", target="main", inputs=inputs, label=f"row {CAPACITY + 1} of {CAPACITY}, {time}",
                expect=(Refused("CAPACITY-FULL", ("full",), {"expected": CAPACITY}), unchanged("main")),
            )
            for time in ("first time", "second time")
        ]  # fmt: skip
    steps += future(rows, CAPACITY)
    return trace(rows, "refused-full", "the row too many", tuple(steps), caches=twins(rows))
