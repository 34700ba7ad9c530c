"""What scenarios are made of: small configurations, weights and rows by rule, and what must come out.

Numbers are eighths from small integers, so that they are exact in every dtype down to bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration, Precision
from conformance.budget import (
    DENSE_ROWS,
    AttentionBound,
    AttentionPass,
    LayerBound,
    LayerPass,
    attention_expected,
    layer_expected,
    layer_pass,
    layer_tolerance,
)
from conformance.trace.expect import Array, Close, Expectation, Length, Shapes
from conformance.trace.model import Operation, Source
from conformance.values import AttentionConfig, LayerConfig, LayerParameters, RopeConfig, StoreConfig

PROMISE = 1e-12
"""The promise in float64: agreement is asked to 1e-12 even where a smaller bound is provable."""


HUGE = {"float64": 1e300, "float32": 1e38, "bfloat16": 1e38, "float16": 6e4}
"""A number near the end of what each dtype can hold."""


SIGNIFICAND = {"float64": 53, "float32": 24, "bfloat16": 8, "float16": 11}
"""Bits of the significand of each dtype."""


def huge(declaration: Declaration) -> float:
    """A huge number that an implementation can store, whatever it is fed with."""
    return min(HUGE[declaration.dtypes[0]], HUGE[declaration.precision.storage])


def head_width(declaration: Declaration, wanted: int = 4) -> int:
    """The smallest even head width from `wanted` on that an implementation can be built with."""
    step = lcm(declaration.head_width_multiple, 2)
    return -(-wanted // step) * step


def matrix(rows: int, columns: int, a: int, b: int, shift: int) -> Array:
    """Eighths from -5/8 to 5/8 without symmetry."""
    i, j = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    return np.asarray(((a * i + b * j + shift + i * j) % 11) - 5, dtype=np.float64) / 8.0


def row_block(lanes: int, rows: int, width: int, *, shift: int = 0) -> Array:
    """Rows [B,T,D], eighths from -6/8 to 6/8; another shift gives other rows."""
    lane, row, feature = np.meshgrid(np.arange(lanes), np.arange(rows), np.arange(width), indexing="ij")
    mixed = 5 * lane + 7 * row + 3 * feature + 2 * row * feature + lane * row * row + 4 * shift
    return np.asarray((mixed % 13) - 6, dtype=np.float64) / 8.0


def layer_config(
    heads: int = 2,
    kv_heads: int | None = None,
    head_width: int = 4,
    *,
    base: float = 100.0,
    positions: int = 16,
) -> LayerConfig:
    """A layer of width heads * head_width."""
    rope = RopeConfig(base=base, pairing="adjacent", max_positions=positions)
    return LayerConfig(heads * head_width, heads, kv_heads or heads, head_width, rope)


def layer_parameters(config: LayerConfig, *, shift: int = 0) -> LayerParameters:
    """Weights by rule; another shift gives other weights."""
    width, own = config.model_width, config.heads * config.head_width
    shared = config.kv_heads * config.head_width
    return LayerParameters(
        query=matrix(width, own, 3, 5, 1 + shift),
        key=matrix(width, shared, 7, 2, 4 + shift),
        value=matrix(width, shared, 2, 9, 3 + shift),
        output=matrix(own, width, 5, 3, 6 + shift),
    )


def limit(tolerance: Array, declaration: Declaration) -> Array:
    """The gate: the tolerance, or the promise where everything is float64 and the tolerance is smaller."""
    double = declaration.precision == Precision() and declaration.dtypes[0] == "float64"
    return np.asarray(np.maximum(tolerance, PROMISE)) if double else tolerance


@dataclass(frozen=True, eq=False)
class LayerRows:
    """Rows [B,T,D] of one layer with everything that must come out of them."""

    declaration: Declaration
    config: LayerConfig
    parameters: LayerParameters
    rows: Array

    level = "layer"
    fields = ("output", "keys", "values")

    @cached_property
    def expected(self) -> LayerPass:
        """The full-prefix pass."""
        return self._long[0] if self._is_long else layer_pass(self.config, self.parameters, self.rows)

    @cached_property
    def tolerance(self) -> LayerBound:
        """The gate of every field."""
        if self._is_long:
            return self._long[1]
        return layer_tolerance(
            self.config, self.parameters, self.rows, self.declaration.precision, expected=self.expected
        )

    @property
    def _is_long(self) -> bool:
        return bool(self.rows.shape[1] > DENSE_ROWS)

    @cached_property
    def _long(self) -> tuple[LayerPass, LayerBound]:
        """Pass and gate in one walk over the weights."""
        return layer_expected(self.config, self.parameters, self.rows, self.declaration.precision)

    @property
    def lanes(self) -> int:
        """B."""
        return int(self.rows.shape[0])

    @property
    def source(self) -> Source:
        """What caches are built for."""
        return Source(self.config, self.parameters)

    @property
    def slot_shape(self) -> tuple[int, int, int]:
        """Key/value heads, key width, value width."""
        return self.config.kv_heads, self.config.head_width, self.config.head_width

    def inputs(self, start: int = 0, stop: int | None = None) -> Mapping[str, Array]:
        """What an append of these rows is given."""
        return {"rows": self.rows[:, start:stop]}

    def field(self, name: str, start: int, stop: int) -> tuple[Array, Array]:
        """Expected value and gate of a field of the append of rows start to stop - 1."""
        if name in ("keys", "values"):
            own = {"keys": "rotated_key", "values": "value"}[name]
            own = "key" if name == "keys" and self.declaration.keys == "unrotated" else own
            return getattr(self.expected, own)[:, :, :stop], self._gate(own)[:, :, :stop]
        value, gate = getattr(self.expected, name), self._gate(name)
        if name == "weights":
            return value[:, :, start:stop, :stop], gate[:, :, start:stop, :stop]
        if name in ("output", "merged"):
            return value[:, start:stop], gate[:, start:stop]
        return value[:, :, start:stop], gate[:, :, start:stop]

    def _gate(self, name: str) -> Array:
        """The gate of all rows of a field, computed once."""
        if name not in self._gates:
            self._gates[name] = limit(getattr(self.tolerance, name), self.declaration)
        return self._gates[name]

    @cached_property
    def _gates(self) -> dict[str, Array]:
        return {}

    def with_inputs(self, inputs: Mapping[str, Any]) -> LayerRows:
        """Other rows of the same layer, by the names that `inputs` gives them."""
        return replace(self, **inputs)

    def changed_value(
        self, stop: int, slot: int, lane: int, head: int, numbers: Array
    ) -> tuple[Array, Array]:
        """Output row stop - 1 had the stored value row of (lane, head, slot) been `numbers`, and its gate."""
        weights = self.expected.weights
        if weights is None:
            raise ValueError("the reuse probe needs a dense pass")
        group = self.config.heads // self.config.kv_heads
        heads = self.expected.heads[:, :, stop - 1].copy()
        moved = numbers - self.expected.value[lane, head, slot]
        for own in range(head * group, (head + 1) * group):
            heads[lane, own] += weights[lane, own, stop - 1, slot] * moved
        merged = heads.reshape(self.lanes, 1, -1)
        gate = self.field("output", stop - 1, stop)[1] * (1.0 + float(np.abs(numbers).max()))
        return merged @ self.parameters.output, gate


@dataclass(frozen=True, eq=False)
class AttentionRows:
    """Query [B,H,T,dk], key [B,G,T,dk] and value [B,G,T,dv] rows with everything that must come out."""

    declaration: Declaration
    config: AttentionConfig
    query: Array
    key: Array
    value: Array

    level = "attention"
    fields = ("output", "keys", "values")

    @cached_property
    def _both(self) -> tuple[AttentionPass, AttentionBound]:
        precision = self.declaration.precision
        return attention_expected(self.config, self.query, self.key, self.value, precision)

    @property
    def expected(self) -> Any:
        """The full-prefix pass."""
        return self._both[0]

    @property
    def tolerance(self) -> Any:
        """The gate of every field."""
        return self._both[1]

    @property
    def lanes(self) -> int:
        """B."""
        return int(self.key.shape[0])

    @property
    def source(self) -> Source:
        """What caches are built for."""
        return Source(self.config)

    @property
    def slot_shape(self) -> tuple[int, int, int]:
        """Key/value heads, key width, value width."""
        return self.config.kv_heads, self.config.key_width, self.config.value_width

    def inputs(self, start: int = 0, stop: int | None = None) -> Mapping[str, Array]:
        """What an append of these rows is given."""
        return {name: getattr(self, name)[:, :, start:stop] for name in ("query", "key", "value")}

    def field(self, name: str, start: int, stop: int) -> tuple[Array, Array]:
        """Expected value and gate of a field of the append of rows start to stop - 1."""
        if name in ("keys", "values"):
            value = {"keys": self.key, "values": self.value}[name][:, :, :stop]
            return value, np.abs(value) * _storage_unit(self.declaration)
        if name == "weights":
            gate = self.tolerance.weights[:, :, start:stop, :stop]
            return self.expected.weights[:, :, start:stop, :stop], limit(gate, self.declaration)
        return self.expected.output[:, :, start:stop], self._gate[:, :, start:stop]

    @cached_property
    def _gate(self) -> Array:
        """The gate of all rows of the output."""
        return limit(self.tolerance.output, self.declaration)

    def with_inputs(self, inputs: Mapping[str, Any]) -> AttentionRows:
        """Other rows, by the names that `inputs` gives them."""
        return replace(self, **inputs)

    def changed_value(
        self, stop: int, slot: int, lane: int, head: int, numbers: Array
    ) -> tuple[Array, Array]:
        """Output row stop - 1 had the stored value row of (lane, head, slot) been `numbers`, and its gate."""
        value = self.value.copy()
        value[lane, head, slot] = numbers
        return replace(self, value=value).field("output", stop - 1, stop)


@dataclass(frozen=True, eq=False)
class StoreRows:
    """Keys [B,G,T,dk] and values [B,G,T,dv] of one layer of a store: they come back as they went in."""

    declaration: Declaration
    config: StoreConfig
    keys: Array
    values: Array

    level = "store"
    fields = ("keys", "values")

    @property
    def lanes(self) -> int:
        """B."""
        return int(self.keys.shape[0])

    @property
    def source(self) -> Source:
        """What stores are built for."""
        return Source(self.config)

    @property
    def slot_shape(self) -> tuple[int, int, int]:
        """Key/value heads, key width, value width."""
        return self.config.kv_heads, self.config.key_width, self.config.value_width

    def inputs(self, start: int = 0, stop: int | None = None) -> Mapping[str, Array]:
        """What an append of these rows is given."""
        return {"keys": self.keys[:, :, start:stop], "values": self.values[:, :, start:stop]}

    def field(self, name: str, start: int, stop: int) -> tuple[Array, Array]:  # noqa: ARG002 - as at every level
        """The prefix up to row stop - 1; its gate is 0, or the rounding of a declared narrower storage."""
        value = {"keys": self.keys, "values": self.values}[name][:, :, :stop]
        return value, np.abs(value) * _storage_unit(self.declaration)

    def with_inputs(self, inputs: Mapping[str, Any]) -> StoreRows:
        """Other rows, by the names that `inputs` gives them."""
        return replace(self, **inputs)


Rows = LayerRows | AttentionRows | StoreRows


def changed(rows: Rows, change: Callable[[Array], Array]) -> Rows:
    """The rows with every input array replaced by `change(a copy of it)`, rounded to the dtype that is fed.

    Rows stand on the last axis but one.
    """
    given = rows.inputs().items()
    return rows.with_inputs({name: fitting(change(part.copy()), rows.declaration) for name, part in given})


def _storage_unit(declaration: Declaration) -> float:
    from conformance.budget import unit_roundoff  # noqa: PLC0415 - one name of a large module

    return 0.0 if declaration.precision.storage == "float64" else unit_roundoff(declaration.precision.storage)


def material(declaration: Declaration, *, lanes: int = 2, rows: int = 6, shift: int = 0) -> Rows:
    """Rows for the level of a declaration; another shift gives other rows of the same layer."""
    if declaration.levels[0] == "store":
        return store_rows(declaration, lanes=lanes, rows=rows, shift=shift)
    config = layer_config(head_width=head_width(declaration))
    given = row_block(lanes, rows, config.model_width, shift=shift)
    layer = LayerRows(declaration, config, layer_parameters(config), given)
    if declaration.levels[0] == "layer":
        return layer
    made = layer.expected
    attention = AttentionConfig(config.heads, config.kv_heads, config.head_width, config.head_width)
    parts = (fitting(p, declaration) for p in (made.rotated_query, made.rotated_key, made.value))
    return AttentionRows(declaration, attention, *parts)


def store_rows(
    declaration: Declaration, *, lanes: int = 2, rows: int = 6, shift: int = 0, layers: int = 1
) -> StoreRows:
    """Rows of a store with pairwise different axes: 3 heads, keys of 5 and values of 4 numbers.

    Wider where the declaration wants multiples, and equally wide where it wants that.
    """
    step = declaration.head_width_multiple
    key_width, value_width = -(-5 // step) * step, -(-4 // step) * step
    value_width = key_width if declaration.value_width == "key" else value_width
    keys = row_block(lanes * 3, rows, key_width, shift=shift).reshape(lanes, 3, rows, key_width)
    values = -row_block(lanes * 3, rows, value_width, shift=shift + 5).reshape(lanes, 3, rows, value_width)
    return StoreRows(declaration, StoreConfig(layers, 3, key_width, value_width), keys, values)


def fitting(given: NDArray[Any], declaration: Declaration) -> Array:
    """Rounded to the dtype that the implementation is fed with, so that it gets what the pass gets."""
    bits = 2.0 ** SIGNIFICAND[declaration.dtypes[0]]
    fraction, exponent = np.frexp(np.asarray(given, dtype=np.float64))
    return np.asarray(np.ldexp(np.round(fraction * bits) / bits, exponent))


def appended(
    rows: Rows,
    cache: str,
    start: int,
    stop: int,
    *,
    label: str = "",
    output: str = "AGREE-OUTPUT",
    keys: str = "STORE-KEYS",
    values: str = "STORE-VALUES",
    layer: str | None = None,
    extra: tuple[Expectation, ...] = (),
    quiet: bool = False,
) -> Operation:
    """An append of rows start to stop - 1 with all that must be seen after it.

    output, keys and values name the requirement under which each is filed, "" for none. quiet: expect
    nothing but `extra`.
    """
    if rows.level == "store":
        # A store answers with its rows alone: what an output would show, they show.
        keys = values = "KEEP-PREFIX" if output == "AGREE-OUTPUT" else output
        output = ""
    expect: tuple[Expectation, ...] = ()
    if not quiet:
        for field, requirement in (("output", output), ("keys", keys), ("values", values)):
            if requirement:
                value, gate = rows.field(field, start, stop)
                expect += (Close(requirement, field, value, gate),)
        heads, key_width, value_width = rows.slot_shape
        logical = {
            "keys": (rows.lanes, heads, stop, key_width),
            "values": (rows.lanes, heads, stop, value_width),
        }
        expect += (Length("STORE-LENGTH", stop), Shapes("STORE-LOGICAL-SHAPE", logical))
        if "output" in rows.fields:
            shape = rows.field("output", start, stop)[0].shape
            expect += (Shapes("SHAPE-OUTPUT", {"output": shape}),)
    return Operation(
        op="append",
        target=cache,
        layer=layer,
        inputs=rows.inputs(start, stop),
        label=label,
        expect=(*expect, *extra),
    )
