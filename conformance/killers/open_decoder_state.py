"""What the open decoder keeps, and its ordered checks, one function each, so that a killer can drop one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.killers.open_state import Node
from conformance.rejections import Rejected
from conformance.values import DecoderConfig

Array = NDArray[Any]

WORK = (
    "prefill_tokens", "decode_tokens", "cache_appends", "qkv_rows", "cached_scores", "complete_prefix_scores",
)  # fmt: skip


@dataclass(eq=False)
class Lock:
    """The open sessions on a set of nodes, newest last; models that share nodes share it."""

    sessions: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class OpenModel:
    """A configuration and nodes by name. `counter` is for faults; the clean decoder never reads it."""

    config: DecoderConfig
    nodes: dict[str, Node]
    lock: Lock
    counter: int = 0

    def value(self, name: str) -> Array:
        """The numbers of one parameter."""
        return self.nodes[name].value


@dataclass(eq=False)
class OpenSession:
    """Buffers [B,G,C,d] and a length for each layer, and what they were filled under."""

    model: OpenModel
    lanes: int
    capacity: int
    keys: list[Array]
    values: list[Array]
    lengths: list[int]
    nodes: dict[str, Node]
    revisions: dict[str, int]
    config: DecoderConfig
    prefilled: bool = False
    closed: bool = False
    counter: int = 0
    work: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WORK, 0))
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class Call:
    """One prefill or decode under way: tokens [B,T] behind `start` rows."""

    session: OpenSession
    tokens: Array
    start: int
    is_prefill: bool
    candidates: list[tuple[Array, Array]] = field(default_factory=list)

    @property
    def model(self) -> OpenModel:
        """The model of the session."""
        return self.session.model

    @property
    def count(self) -> int:
        """T."""
        return int(self.tokens.shape[1])


def open_session(session: OpenSession, _: Array) -> None:
    """A closed session is of no use."""
    if session.closed:
        raise Rejected("session_closed", "the session is closed")


def form(session: OpenSession, tokens: Array) -> None:
    """[B,T], where T is 1 for a decode."""
    if tokens.ndim != 2:
        raise Rejected("input_rank", f"{tokens.ndim} axes", expected=2, found=tokens.ndim)
    if len(tokens) != session.lanes:
        raise Rejected("input_batch_mismatch", f"{len(tokens)} lanes for {session.lanes}")


def not_empty_prompt(_: OpenSession, tokens: Array) -> None:
    """A prompt has a token."""
    if tokens.shape[1] == 0:
        raise Rejected("empty_prompt", "no token")


def short_prompt(session: OpenSession, tokens: Array) -> None:
    """A prompt fits into the capacity."""
    if tokens.shape[1] > session.capacity:
        raise Rejected("prompt_exceeds_capacity", f"{tokens.shape[1]} tokens for {session.capacity} rows")


def vocabulary(session: OpenSession, tokens: Array) -> None:
    """Every token is one."""
    if ((tokens < 0) | (tokens >= session.config.vocabulary)).any():
        raise Rejected("token_out_of_vocabulary", "a token is outside the vocabulary")


def empty_session(session: OpenSession, _: Array) -> None:
    """One prompt a session."""
    if session.prefilled or session.lengths[0]:
        raise Rejected("prefill_not_empty", f"{session.lengths[0]} rows are held")


def prompt_first(session: OpenSession, _: Array) -> None:
    """A decode follows a prompt."""
    if not session.prefilled:
        raise Rejected("prefill_required", "no prompt has been taken")


def room(session: OpenSession, tokens: Array) -> None:
    """There is a row left."""
    if session.lengths[0] + tokens.shape[1] > session.capacity:
        raise Rejected("full", f"all {session.capacity} rows are taken")


PREFILL = (open_session, form, not_empty_prompt, short_prompt, vocabulary, empty_session)
DECODE = (open_session, form, vocabulary, prompt_first, room)


def same_nodes(session: OpenSession, model: OpenModel) -> None:
    """The model has the very parameters that the caches were filled under."""
    if any(model.nodes[name] is not node for name, node in session.nodes.items()):
        raise Rejected("model_mismatch", "a parameter is another node")


def same_configuration(session: OpenSession, model: OpenModel) -> None:
    """And the same configuration."""
    if model.config != session.config:
        raise Rejected("configuration_mismatch", "the configuration has changed")


def same_revisions(session: OpenSession, model: OpenModel) -> None:
    """And no parameter has been updated."""
    for index, (name, own) in enumerate(session.revisions.items()):
        found = model.nodes[name].revision
        if own != found:
            raise Rejected(
                "stale_parameters", f"{name} was updated", parameter=index, expected=own, found=found
            )


BINDING = (same_nodes, same_configuration, same_revisions)


def without(checks: tuple[Any, ...], *dropped: Any) -> tuple[Any, ...]:
    """The checks but for some."""
    return tuple(check for check in checks if check not in dropped)


def finite(stage: str, numbers: Array) -> Array:
    """The numbers, or the refusal of a stage that overflowed."""
    if not np.isfinite(numbers).all():
        raise Rejected("non_finite", f"{stage} is not finite", stage=stage)
    return numbers
