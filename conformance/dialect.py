"""Traces in the conventions of an implementation: its rotary pairs, and its order of query heads.

Most implementations know one pairing and one order of heads, and nothing is wrong with either. Where a trace
is written in the other, the same trace is said in theirs: weights change columns within a head, or whole
heads change places, and what must come out changes places with them. Every number stays what it is, so golden
values stay golden; only the order in which a dot product is summed may differ, and every bound allows that.
The arrays of the implementation itself are never touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.trace.expect import Array, Close, Custom, Expectation, Refused
from conformance.trace.model import Derived, Operation, Source, Trace
from conformance.values import AttentionConfig, DecoderConfig, LayerConfig, LayerParameters, RopeConfig

PAIRED = ("query", "key", "rotated_query", "rotated_key", "keys", "snapshot_keys")
"""Fields whose last axis is that of rotary pairs."""

PER_QUERY_HEAD = ("query", "rotated_query", "weights", "heads")
"""Fields whose axis 1 is that of query heads; at level attention the output as well."""

OPERANDS = ("value", "bound", "unmoved")
"""The arguments of a rule that are arrays of the shape of its field."""


def spoken(trace: Trace, declaration: Declaration) -> Trace:
    """The trace in the pairing and the order of query heads that the implementation declares.

    To be called once: a trace that is in the order of tiled heads already would be turned again.
    """
    orders = {name: _order(trace, name, declaration) for name in trace.layers}
    if not any(order.changes for order in orders.values()):
        return trace
    speech = _Speech(trace.level, orders, {name: spec.layer for name, spec in trace.caches.items()})
    layers = {name: speech.source(name, given) for name, given in trace.layers.items()}
    return replace(trace, layers=layers, steps=tuple(speech.step(step) for step in trace.steps))


@dataclass(frozen=True)
class _Order:
    """How one geometry is said. pairs: order of the features of a head; turned: order of the query heads."""

    pairing: str = ""
    pairs: tuple[int, ...] = ()
    turned: tuple[int, ...] = ()
    head_width: int = 0

    @property
    def changes(self) -> bool:
        """Whether anything is said otherwise."""
        return bool(self.pairs or self.turned)


def _order(trace: Trace, name: str, declaration: Declaration) -> _Order:
    source = trace.layers[name]
    if isinstance(source, Derived) and source.config is None:
        return _order(trace, source.source, declaration)
    config = source.config.layer if isinstance(source.config, DecoderConfig) else source.config
    if isinstance(config, AttentionConfig):
        return _Order(turned=_turned(config.heads, config.kv_heads, declaration))
    if not isinstance(config, LayerConfig):
        return _Order()
    turned = _turned(config.heads, config.kv_heads, declaration)
    if config.rope.pairing in declaration.pairings:
        return _Order(turned=turned, head_width=config.head_width)
    pairing = declaration.pairings[0]
    return _Order(pairing, _pairs(config.head_width, pairing), turned, config.head_width)


def _pairs(width: int, pairing: str) -> tuple[int, ...]:
    """For each feature in `pairing`, the feature that stands there in the other one."""
    halves = (*range(0, width, 2), *range(1, width, 2))
    return halves if pairing == "half" else tuple(halves.index(i) for i in range(width))


def _turned(heads: int, kv_heads: int, declaration: Declaration) -> tuple[int, ...]:
    """For each query head in tiled order (j reads j mod G), the head of grouped order that stands there."""
    size = heads // kv_heads
    if declaration.heads == "grouped" or size == 1 or kv_heads == 1:
        return ()
    return tuple((j % kv_heads) * size + j // kv_heads for j in range(heads))


@dataclass
class _Speech:
    """Says the parts of one trace otherwise. orders: of every layer; homes: the layer of every cache."""

    level: str
    orders: dict[str, _Order]
    homes: dict[str, str]

    def source(self, name: str, given: Source | Derived) -> Source | Derived:
        """A layer, an attention, a model, with its own parameters said otherwise."""
        order = self.orders[name]
        config: Any = _config(given.config, order)
        if isinstance(given, Derived):
            return replace(given, config=config)
        parameters = given.parameters
        if isinstance(parameters, LayerParameters):
            parts = {part: _weight(part, weight, order) for part, weight in vars(parameters).items()}
            return Source(config, LayerParameters(**parts))
        if isinstance(parameters, Mapping):
            return Source(config, _named(parameters, order))
        return Source(config, parameters)

    def step(self, step: Operation) -> Operation:
        """One operation, with what it is given and what must be seen."""
        if step.op == "build" and step.layer is not None:
            self.homes[step.target] = step.layer
        if step.op in ("fork", "twin"):
            self.homes[str(step.arguments["name"])] = self.homes[step.target]
        order = self._order_of(step)
        if step.op == "rewire":
            self.orders[str(step.arguments["name"])] = order
        inputs = step.inputs
        if step.op == "update":
            plain = all(name in LayerParameters.__dataclass_fields__ for name in inputs)
            inputs = {n: _weight(n, w, order) for n, w in inputs.items()} if plain else _named(inputs, order)
        elif self.level == "attention" and "query" in inputs and order.turned:
            inputs = {**inputs, "query": inputs["query"][:, list(order.turned)]}
        arguments = step.arguments
        if arguments.get("config") is not None:
            arguments = {**arguments, "config": _config(arguments["config"], order)}
        expect = tuple(self._expected(e, step, order) for e in step.expect)
        return replace(step, inputs=inputs, arguments=arguments, expect=expect)

    def _order_of(self, step: Operation) -> _Order:
        """That of the layer which the step names, or which its cache was built for."""
        name = self.homes.get(step.target) or step.layer or next(iter(self.orders))
        return self.orders.get(name if step.op not in ("update", "rewire") else str(step.layer), _Order())

    def _expected(self, e: Expectation, step: Operation, order: _Order) -> Expectation:
        if isinstance(e, Close):
            field, _, cache = e.field.partition(":")
            own = self.orders.get(self.homes.get(cache.partition("/")[0], ""), order) if cache else order
            bound = e.bound
            if isinstance(bound, np.ndarray) and bound.shape == e.value.shape:
                bound = self._moved(field, bound, own)
            return replace(e, value=self._moved(field, e.value, own), bound=bound)
        if isinstance(e, Custom):
            field = str(e.arguments.get("field", "output"))
            moved = {
                name: self._moved(field, given, order)
                for name in OPERANDS
                if isinstance(given := e.arguments.get(name), np.ndarray) and given.ndim
            }
            return replace(e, arguments={**e.arguments, **moved})
        if isinstance(e, Refused) and step.op == "append":
            # Which number is the first that is not finite follows the order of features and heads.
            kept = {name: value for name, value in e.details.items() if name not in ("index", "value")}
            return replace(e, details=kept)
        return e

    def _moved(self, field: str, given: Array, order: _Order) -> Array:
        """An array of the shape of a field, its features and heads in the order that is spoken."""
        if order.pairs and field in PAIRED:
            given = given[..., list(order.pairs)]
        if not order.turned:
            return given
        if field in PER_QUERY_HEAD or (field == "output" and self.level == "attention"):
            return given[:, list(order.turned)]
        return _blocks(given, order.turned) if field == "merged" else given


def _config(given: Any, order: _Order) -> Any:
    if not order.pairs or given is None:
        return given
    if isinstance(given, DecoderConfig):
        return replace(given, layer=_config(given.layer, order))
    rope: RopeConfig = given.rope
    return replace(given, rope=replace(rope, pairing=order.pairing))  # type: ignore[arg-type]


def _weight(part: str, given: Array, order: _Order) -> Array:
    """One parameter: the columns of query and key by head and feature, the rows of the output by head."""
    if order.pairs and part in ("query", "key"):
        by_head = given.reshape(*given.shape[:-1], -1, order.head_width)
        given = by_head[..., list(order.pairs)].reshape(given.shape)
    if order.turned and part == "query":
        given = _blocks(given, order.turned)
    if order.turned and part == "output" and given.ndim == 2:
        given = _blocks(given.T, order.turned).T
    return given


def _named(given: Mapping[str, Array], order: _Order) -> dict[str, Array]:
    """The parameters of a model; those of its attention have names as `blocks.0.attention.key.weight`."""
    said: dict[str, Array] = {}
    for name, value in given.items():
        owner, _, part = name.rpartition(".")[0].rpartition(".")
        said[name] = _weight(part, value, order) if owner.endswith("attention") else value
    return said


def _blocks(given: Array, order: tuple[int, ...]) -> Array:
    """The last axis, cut into a block per head, with its blocks in another order."""
    return given.reshape(*given.shape[:-1], len(order), -1)[..., list(order), :].reshape(given.shape)
