"""Twins: exact relatives of golden traces, drawn from a seed.

Values times a power of two, queries times one and keys by the same, a common sign, lanes and heads in
another order: what must come out follows from the golden values without an oracle. An implementation that
knows the golden files by heart passes them and fails their twins.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformance.trace.expect import Array, Close, Expectation
from conformance.trace.model import Operation, Source, Trace
from conformance.values import LayerConfig, LayerParameters

FILED = "AGREE-TWIN"
QUERY_SIDE = ("query", "rotated_query")
KEY_SIDE = ("key", "rotated_key", "keys")
VALUE_SIDE = ("value", "values", "heads", "merged", "output")


@dataclass(frozen=True)
class Kinship:
    """How a twin differs. lanes and groups: new order of lanes and of key/value heads with their queries."""

    value_power: int
    score_power: int
    sign: int
    lanes: tuple[int, ...]
    groups: tuple[int, ...]

    def words(self) -> str:
        """How the twin differs, in words."""
        queries = f"queries times {self.sign} * 2^{self.score_power}, keys by the same"
        order = f"lanes in the order {list(self.lanes)}, key/value heads in the order {list(self.groups)}"
        return f"values times 2^{self.value_power}, {queries}, {order}"


def kinship(seed: int, trace: str, lanes: int, kv_heads: int) -> Kinship:
    """Drawn from the seed and the name of the trace alone, so that every process draws the same."""
    drawn = np.random.default_rng([seed, zlib.crc32(trace.encode())])
    powers = [-3, -2, -1, 1, 2, 3]
    return Kinship(
        value_power=int(drawn.choice(powers)),
        score_power=int(drawn.choice(powers)),
        sign=int(drawn.choice([-1, 1])),
        lanes=tuple(int(i) for i in drawn.permutation(lanes)),
        groups=tuple(int(i) for i in drawn.permutation(kv_heads)),
    )


def twin(trace: Trace, seed: int) -> Trace | None:
    """The twin of a bounded golden trace of level layer, None where it has no single plain layer."""
    sources = list(trace.layers.values())
    if len(sources) != 1 or not isinstance(sources[0], Source):
        return None
    source = sources[0]
    if not isinstance(source.config, LayerConfig) or not isinstance(source.parameters, LayerParameters):
        return None
    lanes = {spec.batch_size for spec in trace.caches.values()}
    if len(lanes) != 1 or any(step.op not in ("append", "reset") for step in trace.steps):
        return None
    if not any(isinstance(e, Close) for step in trace.steps for e in step.expect):
        return None
    kin = kinship(seed, trace.id, lanes.pop(), source.config.kv_heads)
    name = next(iter(trace.layers))
    related = Source(source.config, _parameters(source.config, source.parameters, kin))
    return replace(
        trace,
        id=f"{trace.id}-twin",
        about=f"an exact relative of {trace.id}: {kin.words()}",
        layers={name: related},
        steps=tuple(_step(step, source.config, kin) for step in trace.steps),
        seed=seed,
    )


def _parameters(config: LayerConfig, given: LayerParameters, kin: Kinship) -> LayerParameters:
    query, own = kin.sign * 2.0**kin.score_power, _query_heads(config, kin)
    key = kin.sign * 2.0**-kin.score_power
    return LayerParameters(
        query=_columns(given.query, own, config.head_width) * query,
        key=_columns(given.key, kin.groups, config.head_width) * key,
        value=_columns(given.value, kin.groups, config.head_width) * 2.0**kin.value_power,
        output=_columns(given.output.T, own, config.head_width).T,
    )


def _query_heads(config: LayerConfig, kin: Kinship) -> tuple[int, ...]:
    """The order of the query heads that goes with the order of their groups."""
    size = config.heads // config.kv_heads
    return tuple(group * size + inside for group in kin.groups for inside in range(size))


def _columns(weight: Array, order: tuple[int, ...], width: int) -> Array:
    """The blocks of `width` columns in another order."""
    blocks = weight.reshape(weight.shape[0], -1, width)[:, list(order)]
    return blocks.reshape(weight.shape[0], -1)


def _step(step: Operation, config: LayerConfig, kin: Kinship) -> Operation:
    lanes = list(kin.lanes)
    inputs: Mapping[str, Any] = {name: given[lanes] for name, given in step.inputs.items()}
    return replace(step, inputs=inputs, expect=tuple(_expected(e, config, kin) for e in step.expect))


def _expected(e: Expectation, config: LayerConfig, kin: Kinship) -> Expectation:
    if not isinstance(e, Close):
        return e
    factor, order = 1.0, tuple(range(config.heads))
    if e.field in QUERY_SIDE:
        factor, order = kin.sign * 2.0**kin.score_power, _query_heads(config, kin)
    elif e.field in KEY_SIDE:
        factor, order = kin.sign * 2.0**-kin.score_power, kin.groups
    elif e.field in VALUE_SIDE:
        stored = e.field in ("value", "values")
        factor, order = 2.0**kin.value_power, kin.groups if stored else _query_heads(config, kin)
    elif e.field == "weights":
        order = _query_heads(config, kin)
    value = _moved(e.value, e.field, order, config, kin) * factor
    bound = e.bound
    if isinstance(bound, np.ndarray):
        bound = _moved(bound, e.field, order, config, kin)
    return replace(e, requirement=FILED, value=value, bound=None if bound is None else bound * abs(factor))


def _moved(given: Array, field: str, order: tuple[int, ...], config: LayerConfig, kin: Kinship) -> Array:
    moved = given[list(kin.lanes)]
    if field == "output":
        return moved
    if field == "merged":
        return _columns(moved.reshape(-1, moved.shape[-1]), order, config.head_width).reshape(moved.shape)
    return moved[:, list(order)]
