"""The exact decoder behind an adapter: 50 digits, the whole prefix from the formulas at every call.

It keeps the tokens that it was given and computes their keys and values anew each time, so it is a reference
for values and no model of a cache's storage or work: it declares neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.rejections import Rejected
from conformance.values import DecoderConfig, Observation
from reference_impl.exact import MpmathArithmetic, nearest_float64
from reference_impl.exact_decoder import ExactPass, exact_pass

Array = NDArray[np.float64]
Lane = tuple[int, ...]

_LARGEST = mpmath.mpf(float(np.finfo(np.float64).max))


class _OutOfRange(Exception):  # noqa: N818 - becomes a refusal
    """A number of the calculation does not fit into float64."""


class _Float64Range(MpmathArithmetic):
    """The digits of the reference within the range of float64: what overflows there overflows here."""

    def dot(self, left: Iterable[Any], right: Iterable[Any]) -> Any:
        """The sum of products; operands and sum must be in range."""
        one, other = list(left), list(right)
        found = super().dot(one, other)
        if any(abs(x) > _LARGEST for x in (*one, *other, found)):
            raise _OutOfRange
        return found


@dataclass(eq=False)
class _Node:
    """One parameter: the object is its identity; the revision rises with every update."""

    value: Array
    revision: int = 0


@dataclass(eq=False)
class _Sessions:
    """How many sessions are open on a set of nodes."""

    count: int = 0


@dataclass(eq=False)
class _Model:
    config: DecoderConfig
    nodes: dict[str, _Node]
    sessions: _Sessions

    def revisions(self) -> tuple[int, ...]:
        return tuple(node.revision for node in self.nodes.values())


@dataclass(eq=False)
class _Session:
    """The tokens [B,n] held, and what the caches are bound to."""

    model: _Model
    nodes: dict[str, _Node]
    config: DecoderConfig
    revisions: tuple[int, ...]
    batch_size: int
    capacity: int
    tokens: NDArray[np.int64]
    is_open: bool = True
    prefilled: bool = False


class ExactDecoderAdapter:
    """A `DecoderAdapter` over the mpmath reference; every number handed out is correctly rounded."""

    def __init__(self) -> None:
        self.declaration = Declaration(
            name="exact-decoder",
            version=f"mpmath {mpmath.__version__}",
            levels=("decoder",),
            features=frozenset({"gqa", "full_prefix", "update_parameters", "rewire"}),
        )
        self._passes: dict[Any, tuple[Array, Array, Array]] = {}

    def build_model(self, config: DecoderConfig, parameters: Mapping[str, Any]) -> _Model:
        """A model of new parameter nodes."""
        nodes = {name: _Node(np.array(value, dtype=np.float64)) for name, value in parameters.items()}
        return _Model(config, nodes, _Sessions())

    def open(self, model: _Model, batch_size: int, capacity: int) -> _Session:
        """An empty session; it locks the parameters until it is closed."""
        if batch_size < 1:
            raise Rejected("zero_batch_size", "a session needs at least one lane")
        if capacity < 1:
            raise Rejected("zero_capacity", "a session needs room for at least one row")
        if capacity > model.config.layer.rope.max_positions:
            raise Rejected("capacity_exceeds_positions", f"capacity {capacity} is beyond the positions")
        empty = np.zeros((batch_size, 0), dtype=np.int64)
        model.sessions.count += 1
        return _Session(
            model, dict(model.nodes), model.config, model.revisions(), batch_size, capacity, empty
        )

    def prefill(self, session: _Session, tokens: Any) -> Array:
        """Tokens [B,T] to logits [B,T,V]."""
        _require_open(session)
        given = _lanes(session, tokens, axes=2)
        if given.shape[1] == 0:
            raise Rejected("empty_prompt", "a prompt has at least one token")
        if given.shape[1] > session.capacity:
            raise Rejected("prompt_exceeds_capacity", f"{given.shape[1]} tokens for {session.capacity} rows")
        _require_tokens(session, given)
        if session.prefilled:
            raise Rejected("prefill_not_empty", f"the session holds {session.tokens.shape[1]} rows")
        return self._take(session, given)

    def decode(self, session: _Session, tokens: Any) -> Array:
        """Tokens [B] to logits [B,1,V]."""
        _require_open(session)
        given = _lanes(session, tokens, axes=1)
        _require_tokens(session, given)
        if not session.prefilled:
            raise Rejected("prefill_required", "give the prompt to prefill first")
        if session.tokens.shape[1] == session.capacity:
            raise Rejected("full", f"all {session.capacity} rows are taken")
        return self._take(session, given[:, None])

    def observe(self, session: _Session, layer: int) -> Observation:
        """Length, capacity, keys and values of one layer."""
        count, config = session.tokens.shape[1], session.config.layer
        if not count:
            empty = np.empty((session.batch_size, config.kv_heads, 0, config.head_width))
            return Observation(0, session.capacity, empty, empty)
        found = [self._lane(session.model, lane) for lane in _tuples(session.tokens)]
        keys, values = (np.stack([part[n][layer] for part in found]) for n in (1, 2))
        return Observation(count, session.capacity, keys, values)

    def reset(self, session: _Session) -> None:
        """No token and no prompt."""
        _require_open(session)
        session.tokens, session.prefilled = session.tokens[:, :0], False

    def close(self, session: _Session) -> None:
        """The parameters may be updated again."""
        if session.is_open:
            session.is_open = False
            session.model.sessions.count -= 1

    def full_prefix(self, model: _Model, tokens: Any) -> Array:
        """The pass that everything here is made of."""
        return np.stack([self._lane(model, lane)[0] for lane in _tuples(np.asarray(tokens))])

    def update_parameters(self, model: _Model, values: Mapping[str, Any]) -> None:
        """New numbers in place; refused while a session is open."""
        if model.sessions.count:
            raise Rejected("parameters_locked", f"{model.sessions.count} sessions are open")
        for name, value in values.items():
            model.nodes[name].value = np.array(value, dtype=np.float64)
            model.nodes[name].revision += 1

    def rewire(
        self, model: _Model, *, config: DecoderConfig | None = None, fresh: Iterable[str] = ()
    ) -> _Model:
        """A model of the same nodes, but for those named in `fresh`."""
        rebuilt = {name: _Node(model.nodes[name].value, model.nodes[name].revision) for name in fresh}
        return _Model(config or model.config, model.nodes | rebuilt, model.sessions)

    def reopen(self, session: _Session, model: _Model) -> _Session:
        """A session of these tokens on this model, if it is what it was."""
        if any(session.nodes[name] is not node for name, node in model.nodes.items()):
            raise Rejected("model_mismatch", "the model has other parameters")
        if session.config != model.config:
            raise Rejected("configuration_mismatch", "the model has another configuration")
        for index, (held, found) in enumerate(zip(session.revisions, model.revisions(), strict=True)):
            if held != found:
                raise Rejected(
                    "stale_parameters", "parameters have been updated",
                    parameter=index, expected=held, found=found,
                )  # fmt: skip
        model.sessions.count += 1
        return _Session(
            model, session.nodes, session.config, session.revisions, session.batch_size, session.capacity,
            session.tokens, prefilled=session.prefilled,
        )  # fmt: skip

    def _take(self, session: _Session, given: NDArray[np.int64]) -> Array:
        start, joined = session.tokens.shape[1], np.concatenate([session.tokens, given], axis=1)
        logits = np.stack([self._lane(session.model, lane)[0][start:] for lane in _tuples(joined)])
        session.tokens, session.prefilled = joined, True
        return logits

    def _lane(self, model: _Model, lane: Lane) -> tuple[Array, Array, Array]:
        """Logits, keys and values of one lane, computed once for equal numbers and tokens."""
        numbers = b"".join(node.value.tobytes() for node in model.nodes.values())
        known = (model.config, numbers, lane)
        if known not in self._passes:
            weights = {name: node.value for name, node in model.nodes.items()}
            try:
                found = exact_pass(model.config, weights, lane, arithmetic=_Float64Range())
            except _OutOfRange:
                raise Rejected("non_finite", "a number of the calculation exceeds float64") from None
            self._passes[known] = _rounded(found)
        return self._passes[known]


def exact_decoder() -> ExactDecoderAdapter:
    """The built-in adapter `exact-decoder`."""
    return ExactDecoderAdapter()


def _rounded(found: ExactPass) -> tuple[Array, Array, Array]:
    logits, keys, values = (_array(part) for part in (found.logits, found.keys, found.values))
    return logits, keys, values


def _array(nested: Any) -> Array:
    if isinstance(nested, list):
        return np.stack([_array(part) for part in nested])
    return np.asarray(nearest_float64(nested))


def _tuples(tokens: NDArray[Any]) -> list[Lane]:
    return [tuple(int(token) for token in lane) for lane in tokens]


def _require_open(session: _Session) -> None:
    if not session.is_open:
        raise Rejected("session_closed", "the session is closed")


def _lanes(session: _Session, tokens: Any, *, axes: int) -> NDArray[Any]:
    given = np.asarray(tokens)
    if given.ndim != axes:
        raise Rejected("input_rank", f"tokens have {given.ndim} axes, not {axes}", expected=axes)
    if given.shape[0] != session.batch_size:
        raise Rejected("input_batch_mismatch", f"{given.shape[0]} lanes for {session.batch_size}")
    return given


def _require_tokens(session: _Session, given: NDArray[Any]) -> None:
    outside = np.flatnonzero((given < 0) | (given >= session.config.vocabulary))
    if outside.size:
        raise Rejected("token_out_of_vocabulary", "a token is not in the vocabulary", index=int(outside[0]))
