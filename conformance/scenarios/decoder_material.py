"""What decoder scenarios are made of: small decoders by rule, tokens, and what must come out of them.

Weights are eighths from small integers, exact in every dtype down to bfloat16. Axes differ: 2 lanes, 6
tokens, 7 in the vocabulary, 3 blocks of width 8 with 2 heads of 4, and 5 inner features.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration, Precision
from conformance.budget.decoder import (
    SELF_ROUNDINGS,
    DecoderBound,
    DecoderPass,
    decoder_pass,
    decoder_tolerance,
)
from conformance.budget.decoder_shapes import decoder_shapes
from conformance.budget.rotary import rotation
from conformance.budget.units import unit_roundoff
from conformance.scenarios.material import matrix
from conformance.trace.expect import Array, Close, Custom, Expectation, Length, Same, Shapes
from conformance.trace.model import CacheSpec, Operation, Source, Trace
from conformance.values import DecoderConfig, LayerConfig, RopeConfig

Tokens = NDArray[np.int64]

PROMISE = 2e-12
"""The promise in float64; the published decoder is held to it, and no smaller bound is asked of any."""

CAPACITY = 8

TOO_COARSE = "the declared precision is too coarse for an error bound on this decoder"


def decoder_config(
    *, heads: int = 2, kv_heads: int = 2, head_width: int = 4, pairing: Any = "adjacent", **options: Any
) -> DecoderConfig:
    """A decoder of three blocks; options are those of `DecoderConfig`."""
    rope = RopeConfig(100.0, pairing, 12)
    layer = LayerConfig(heads * head_width, heads, kv_heads, head_width, rope)
    return DecoderConfig(7, 3, layer, 5, 1e-5, **options)


def decoder_parameters(config: DecoderConfig, *, shift: int = 0) -> dict[str, Array]:
    """Weights by rule: every parameter by another one; gains lie about 1. Another shift, other weights."""
    made: dict[str, Array] = {}
    for number, (name, shape) in enumerate(decoder_shapes(config).items()):
        a, b = 2 + 3 * number % 7, 1 + 5 * number % 9
        rows = matrix(shape[0], shape[1] if len(shape) > 1 else 1, a, b, number + shift)
        made[name] = rows.reshape(shape) / 2.0 + 1.0 if name.endswith("gain") else rows.reshape(shape)
    return made


def token_block(config: DecoderConfig, lanes: int, count: int, *, shift: int = 0) -> Tokens:
    """Tokens [B,T] by rule, lanes different from each other."""
    lane, row = np.meshgrid(np.arange(lanes), np.arange(count), indexing="ij")
    mixed = 3 * lane + 2 * row * row + 5 * row + lane * row + 2 * shift
    found: Tokens = (mixed % config.vocabulary).astype(np.int64)
    return found


@lru_cache(maxsize=64)
def _computed(
    config: DecoderConfig, weights: tuple[tuple[str, bytes], ...], tokens: tuple[tuple[int, ...], ...],
    precision: Precision,
) -> tuple[DecoderPass, DecoderBound]:  # fmt: skip
    """Expected values and gates; the same few decoders stand in many traces."""
    shapes = decoder_shapes(config)
    parameters = {name: np.frombuffer(data).reshape(shapes[name]) for name, data in weights}
    expected = decoder_pass(config, parameters, tokens)
    return expected, decoder_tolerance(config, parameters, tokens, precision)


@dataclass(frozen=True, eq=False)
class DecoderRows:
    """Tokens [B,T] of one decoder with everything that must come out of them."""

    declaration: Declaration
    config: DecoderConfig
    tokens: Tokens
    parameters: Mapping[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.parameters:
            object.__setattr__(self, "parameters", decoder_parameters(self.config))

    @property
    def has_formula(self) -> bool:
        """Whether the decoder is the one of the contract, so that its values can be known."""
        return self.declaration.weights == "given"

    @property
    def lanes(self) -> int:
        """B."""
        return int(self.tokens.shape[0])

    @property
    def source(self) -> Source:
        """What sessions are opened on."""
        return Source(self.config, self.parameters)

    @cached_property
    def _both(self) -> tuple[DecoderPass, DecoderBound]:
        weights = tuple((name, np.ascontiguousarray(w).tobytes()) for name, w in self.parameters.items())
        tokens = tuple(tuple(int(token) for token in lane) for lane in self.tokens)
        return _computed(self.config, weights, tokens, self.declaration.precision)

    @property
    def expected(self) -> DecoderPass:
        """The complete-prefix pass."""
        return self._both[0]

    def gate(self, tolerance: Array) -> Array:
        """The tolerance, or the promise where everything is float64 and the tolerance is smaller."""
        double = self.declaration.precision == Precision() and self.declaration.dtypes[0] == "float64"
        return np.maximum(tolerance, PROMISE) if double else tolerance

    def logits(self, start: int, stop: int) -> tuple[Array, Array]:
        """Expected logits and gates of the rows start to stop - 1."""
        expected, tolerance = self._both
        return expected.logits[:, start:stop], self.gate(tolerance.logits[:, start:stop])

    def kept(self, name: str, layer: int, stop: int) -> tuple[Array, Array]:
        """Expected `keys` or `values` of a layer that holds `stop` rows, and gates."""
        expected, tolerance = self._both
        value, gate = (getattr(part, name)[layer][:, :, :stop] for part in (expected, tolerance))
        if name == "keys" and self.declaration.keys == "unrotated" and self.config.positions == "rope":
            value, gate = self._unrotated(value, gate)
        return value, self.gate(gate)

    def _unrotated(self, value: Array, gate: Array) -> tuple[Array, Array]:
        """Keys turned back; the bound of a rotated pair, summed, covers each feature before its rotation."""
        turn = rotation(self.config.layer.rope, self.config.layer.head_width, 0, value.shape[2])
        first, second = turn.halves()
        back, wider = np.empty_like(value), np.empty_like(gate)
        back[..., first] = value[..., first] * turn.cosine + value[..., second] * turn.sine
        back[..., second] = value[..., second] * turn.cosine - value[..., first] * turn.sine
        wider[..., first] = wider[..., second] = gate[..., first] + gate[..., second]
        return back, wider

    def close(self, requirement: str, name: str, value: Array, gate: Array) -> Expectation:
        """The field within its gate; where the precision is too coarse for one, that is what is said."""
        if self._both[1].applicable:
            return Close(requirement, name, value, gate)
        return Custom(requirement, "not_asked", {"reason": TOO_COARSE})

    def watch(self, *sessions: str) -> tuple[str, ...]:
        """Every layer of these sessions; of a decoder of its own architecture only the first is known."""
        layers = range(self.config.layers if self.has_formula else 1)
        return tuple(f"{session}/{layer}" for session in sessions or ("main",) for layer in layers)

    def with_tokens(self, tokens: Tokens) -> DecoderRows:
        """Other tokens of the same decoder."""
        return replace(self, tokens=tokens)


def decoder_rows(
    declaration: Declaration, *, lanes: int = 2, count: int = 6, shift: int = 0, **options: Any
) -> DecoderRows:
    """Tokens for a decoder of these options; another shift gives other tokens of the same decoder."""
    config = decoder_config(**options)
    return DecoderRows(declaration, config, token_block(config, lanes, count, shift=shift))


@dataclass(frozen=True)
class Filing:
    """Under which requirement logits, keys and values are filed."""

    logits: str = "DECODE-LOGITS"
    keys: str = "DECODE-KEYS"
    values: str = "DECODE-VALUES"

    @classmethod
    def all(cls, requirement: str) -> Filing:
        """Everything under one."""
        return cls(requirement, requirement, requirement)


FORMULA = Filing()


def prefilled(
    rows: DecoderRows, session: str, start: int, stop: int, *, label: str = "", filed: Filing = FORMULA,
    extra: tuple[Expectation, ...] = (),
) -> Operation:  # fmt: skip
    """A prefill of tokens start to stop - 1 with all that must be seen after it."""
    first = stop - 1 if rows.declaration.prefill_logits == "last" else start
    return Operation(
        op="prefill", target=session, inputs={"tokens": rows.tokens[:, start:stop]}, label=label,
        watch=rows.watch(session), expect=(*_seen(rows, session, first, stop, filed), *extra),
    )  # fmt: skip


def decoded(
    rows: DecoderRows, session: str, position: int, *, label: str = "", filed: Filing = FORMULA,
    extra: tuple[Expectation, ...] = (),
) -> Operation:  # fmt: skip
    """A decode of the token at `position` with all that must be seen after it."""
    return Operation(
        op="decode", target=session, inputs={"tokens": rows.tokens[:, position]}, label=label,
        watch=rows.watch(session),
        expect=(*_seen(rows, session, position, position + 1, filed), *extra),
    )  # fmt: skip


def _seen(rows: DecoderRows, session: str, start: int, stop: int, filed: Filing) -> list[Expectation]:
    layers = rows.watch(session)
    found: list[Expectation] = [Length("DECODE-LENGTH", stop, name) for name in layers]
    if not rows.has_formula:
        return found
    found.append(rows.close(filed.logits, "output", *rows.logits(start, stop)))
    shapes: dict[str, tuple[int, ...]] = {"output": (rows.lanes, stop - start, rows.config.vocabulary)}
    for layer, name in enumerate(layers):
        for what, requirement in (("keys", filed.keys), ("values", filed.values)):
            value, gate = rows.kept(what, layer, stop)
            found.append(rows.close(requirement, f"{what}:{name}", value, gate))
            shapes[f"{what}:{name}"] = value.shape
    return [*found, Shapes("DECODE-SHAPE", shapes)]


def token_call(
    rows: DecoderRows, session: str, start: int, stop: int, *, label: str = "",
    filed: str = "DECODE-LENGTH", expect: tuple[Expectation, ...] = (),
) -> Operation:  # fmt: skip
    """A prefill where `start` is 0, else a decode; its lengths are filed, and then comes `expect`."""
    tokens = rows.tokens[:, start] if start else rows.tokens[:, :stop]
    lengths = tuple(Length(filed, stop, name) for name in rows.watch(session))
    return Operation(
        op="decode" if start else "prefill", target=session, inputs={"tokens": tokens}, label=label,
        watch=rows.watch(session), expect=(*lengths, *expect),
    )  # fmt: skip


def like(
    rows: DecoderRows, requirement: str, session: str, other: str, label: str, *, stop: int | None = None
) -> tuple[Expectation, ...]:
    """Logits and every layer of this step are bit for bit those of session `other` at the step `label`.

    stop: only rows before it, of both.
    """
    span = None if stop is None else (0, stop)
    gate = 8.0 * SELF_ROUNDINGS * unit_roundoff(rows.declaration.precision.arithmetic)
    if rows.has_formula:
        gate = 2.0 * float(np.max(rows.logits(0, rows.tokens.shape[1])[1]))
    pairs = zip(rows.watch(session), rows.watch(other), strict=True)
    fields = [f"{what}:{own}={what}:{its}" for own, its in pairs for what in ("keys", "values")]
    if stop is None or rows.declaration.prefill_logits == "all":
        fields.insert(0, "output")
    return tuple(Same(requirement, name, label, rows=span, other_rows=span, bound=gate) for name in fields)


def decoder_trace(rows: DecoderRows, name: str, about: str, steps: list[Operation], **more: Any) -> Trace:
    """A trace with the model `a` and, unless told otherwise, one session `main` of capacity 8."""
    caches = more.pop("caches", {"main": CacheSpec("a", rows.lanes, CAPACITY)})
    layers = more.pop("layers", {"a": rows.source})
    return Trace(
        id=f"decoder-{name}", level="decoder", about=about, layers=layers, caches=caches,
        steps=tuple(steps), **more,
    )  # fmt: skip


def two_models(
    rows: DecoderRows, capacity: int = CAPACITY, *, names: tuple[str, str] = ("main", "twin")
) -> dict[str, Any]:
    """Layers and caches of two equal models with a session each.

    A decoder whose position counter lives in the model can serve one session a model; only the trace about
    two sessions of one model is to show that.
    """
    caches = {n: CacheSpec(m, rows.lanes, capacity) for n, m in zip(names, ("a", "b"), strict=True)}
    return {"layers": {"a": rows.source, "b": rows.source}, "caches": caches}
