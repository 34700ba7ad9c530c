"""Refused calls of a decoder session: every kind, on empty, part-filled and full ones, and what goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformance.scenarios import decoder_binding
from conformance.scenarios.decoder_material import (
    DecoderRows,
    decoded,
    decoder_trace,
    like,
    prefilled,
    token_call,
    two_models,
)
from conformance.trace.expect import Accepted, Custom, Expectation, Refused, Unchanged
from conformance.trace.model import CacheSpec, Operation, Trace

CAPACITY = 4
FORM = ("input_rank", "input_batch_mismatch")


@dataclass(frozen=True, eq=False)
class Offence:
    """One unlawful call: `held` rows before it, the operation, its tokens, and the kinds that name it."""

    name: str
    requirement: str
    kinds: tuple[str, ...]
    held: int
    op: str
    tokens: Any


def traces(rows: DecoderRows) -> Iterator[Trace]:
    """Traces of profile decoder."""
    for offence in (*_prompts(rows), *_decodes(rows), *_pairs(rows)):
        yield refused(rows, offence)
    if rows.declaration.capacity == "exact":
        yield _exact_prompt(rows)
    elif rows.declaration.capacity == "rounded":
        yield _rounded(rows)
    yield _closed(rows)
    yield from decoder_binding.traces(rows)


def _prompts(rows: DecoderRows) -> Iterator[Offence]:
    some, vocabulary = rows.tokens, rows.config.vocabulary
    empty = some[:, :0]
    yield Offence("empty-prompt", "DECODE-REFUSE-EMPTY-PROMPT", ("empty_prompt",), 0, "prefill", empty)
    if rows.declaration.capacity == "exact":
        yield Offence(
            "long-prompt", "DECODE-REFUSE-LONG-PROMPT", ("prompt_exceeds_capacity",), 0, "prefill",
            some[:, : CAPACITY + 1],
        )  # fmt: skip
    for name, bad in (("next", vocabulary), ("far", vocabulary + 1000), ("negative", -1)):
        yield Offence(
            f"prompt-token-{name}", "DECODE-REFUSE-TOKEN", ("token_out_of_vocabulary",), 0, "prefill",
            with_token(some[:, :3], bad),
        )  # fmt: skip
    for name, tokens in (
        ("one-axis", some[:, 0]), ("three-axes", some[:, :2, None]),
        ("one-lane-more", _lane_more(some[:, :2])), ("one-lane-less", some[1:, :2]),
    ):  # fmt: skip
        yield Offence(f"prompt-{name}", "DECODE-REFUSE-FORM", FORM, 0, "prefill", tokens)
    for held in (1, 2, CAPACITY):
        yield Offence(
            f"second-prefill-{held}", "DECODE-REFUSE-SECOND-PREFILL", ("prefill_not_empty",), held,
            "prefill", some[:, :2],
        )  # fmt: skip


def _decodes(rows: DecoderRows) -> Iterator[Offence]:
    some, vocabulary = rows.tokens, rows.config.vocabulary
    yield Offence(
        "decode-first", "DECODE-REFUSE-DECODE-FIRST", ("prefill_required",), 0, "decode", some[:, 0]
    )
    for name, bad in (("next", vocabulary), ("negative", -1)):
        yield Offence(
            f"token-{name}", "DECODE-REFUSE-TOKEN", ("token_out_of_vocabulary",), 2, "decode",
            with_token(some[:, 2], bad),
        )  # fmt: skip
    for name, tokens in (
        ("two-axes", some[:, 2:3]), ("one-lane-more", _lane_more(some[:, 2])), ("one-lane-less", some[1:, 2])
    ):  # fmt: skip
        yield Offence(f"decode-{name}", "DECODE-REFUSE-FORM", FORM, 2, "decode", tokens)
    if rows.declaration.capacity == "exact":
        yield Offence("full", "DECODE-REFUSE-FULL", ("full",), CAPACITY, "decode", some[:, CAPACITY])


def _pairs(rows: DecoderRows) -> Iterator[Offence]:
    """Calls that break two rules; the kind of the first is asked."""
    some, bad = rows.tokens, rows.config.vocabulary
    order = "DECODE-REFUSE-ORDER"
    unknown = ("token_out_of_vocabulary",)
    yield Offence("empty-and-not-empty", order, ("empty_prompt",), 2, "prefill", some[:, :0])
    yield Offence("token-and-not-empty", order, unknown, 2, "prefill", with_token(some[:, :2], bad))
    yield Offence("token-and-no-prefill", order, unknown, 0, "decode", with_token(some[:, 0], bad))
    if rows.declaration.capacity == "exact":
        too_long = ("prompt_exceeds_capacity",)
        long = some[:, : CAPACITY + 1]
        yield Offence("long-and-token", order, too_long, 0, "prefill", with_token(long, bad))
        yield Offence("long-and-not-empty", order, too_long, 2, "prefill", long)
        yield Offence(
            "token-and-full", order, unknown, CAPACITY, "decode", with_token(some[:, CAPACITY], bad)
        )


def with_token(tokens: Any, bad: int) -> Any:
    """The tokens with the very last one replaced: last lane, last position."""
    changed = tokens.copy()
    changed[(-1,) * changed.ndim] = bad
    return changed


def _lane_more(tokens: Any) -> Any:
    return np.concatenate([tokens, tokens[:1]])


def held_steps(rows: DecoderRows, held: int, *sessions: str) -> list[Operation]:
    """The first `held` tokens in every session: a prompt of at most two, the others one by one."""
    steps: list[Operation] = []
    for session in sessions:
        if held:
            steps.append(prefilled(rows, session, 0, min(held, 2)))
        steps += [decoded(rows, session, t) for t in range(2, held)]
    return steps


def untouched(rows: DecoderRows, session: str = "main") -> tuple[Expectation, ...]:
    """What a refused call must leave alone, in every layer."""
    layers = tuple(
        Unchanged(
            name, length="DECODE-ATOMIC-LENGTH", rows="DECODE-ATOMIC-ROWS",
            storage="DECODE-ATOMIC-STORAGE", addresses="DECODE-ATOMIC-STORAGE",
        )
        for name in rows.watch(session)
    )  # fmt: skip
    return (*layers, Custom("DECODE-ATOMIC-WORK", "counts_kept"))


def future(rows: DecoderRows, held: int, capacity: int = CAPACITY) -> list[Operation]:
    """The next calls of main and twin, bit for bit alike; of full sessions after a reset of both."""
    steps: list[Operation] = []
    if held == capacity:
        steps = [Operation(op="reset", target=name, label=f"reset {name}") for name in ("main", "twin")]
        held = 0
    for start in range(held, min(held + 3, capacity)):
        if start == 1 and not held:
            continue
        stop = start + 1 if start else 2
        filed = "DECODE-ATOMIC-FUTURE"
        steps.append(token_call(rows, "twin", start, stop, label=f"twin goes on at {start}"))
        same = like(rows, filed, "main", "twin", f"twin goes on at {start}")
        label = f"main goes on at {start}"
        steps.append(token_call(rows, "main", start, stop, label=label, filed=filed, expect=same))
    return steps


def refused(rows: DecoderRows, offence: Offence) -> Trace:
    """The offence on a session that holds some rows, beside an untouched twin on a model of its own."""
    steps = held_steps(rows, offence.held, "main", "twin")
    steps.append(
        Operation(
            op=offence.op, target="main", inputs={"tokens": offence.tokens}, watch=rows.watch(),
            label=f"{offence.name}, {offence.held} rows held",
            expect=(Refused(offence.requirement, offence.kinds), *untouched(rows)),
        )
    )  # fmt: skip
    steps += future(rows, offence.held)
    return decoder_trace(
        rows, f"refused-{offence.name}", f"{offence.name.replace('-', ' ')} is refused", steps,
        **two_models(rows, CAPACITY),
    )  # fmt: skip


def _exact_prompt(rows: DecoderRows) -> Trace:
    """The control: a prompt of exactly the capacity is taken."""
    fits = (Accepted("DECODE-REFUSE-LONG-PROMPT"),)
    steps = [prefilled(rows, "main", 0, CAPACITY, extra=fits, label="a prompt of the whole capacity")]
    return decoder_trace(
        rows, "prompt-fits", "a prompt of exactly the capacity", steps,
        caches={"main": CacheSpec("a", rows.lanes, CAPACITY)},
    )  # fmt: skip


def _rounded(rows: DecoderRows) -> Trace:
    """Filled to the capacity that it shows; then one token too many, twice."""
    far = replace(rows.config.layer.rope, max_positions=2**13)
    config = replace(rows.config, layer=replace(rows.config.layer, rope=far))
    plain = replace(rows, config=config)
    token = {"tokens": rows.tokens[:, 2]}
    unknown = {"reason": "a rounded capacity is not known before; a token too many is asked instead"}
    full = (Refused("DECODE-REFUSE-FULL", ("full",)), *untouched(rows))
    steps = [
        token_call(
            plain, "main", 0, 2, expect=(Custom("DECODE-REFUSE-LONG-PROMPT", "not_asked", unknown),)
        ),
        Operation(
            op="fill", target="main", inputs=token, label="filled", watch=rows.watch(),
            expect=(Accepted("DECODE-REFUSE-FULL"),),
        ),
        *(
            Operation(
                op="decode", target="main", inputs=token, label=f"a token too many, {time} time",
                watch=rows.watch(), expect=full,
            )
            for time in ("first", "second")
        ),
    ]  # fmt: skip
    return decoder_trace(
        plain, "rounded", "a session is filled to the capacity that it shows", steps,
        caches={"main": CacheSpec("a", rows.lanes, CAPACITY)},
    )  # fmt: skip


def _closed(rows: DecoderRows) -> Trace:
    """Every call on a closed session; then a new one on the same model."""
    steps = [prefilled(rows, "main", 0, 2), Operation(op="close", target="main", label="close", watch=())]
    for op, inputs in (
        ("decode", {"tokens": rows.tokens[:, 2]}), ("prefill", {"tokens": rows.tokens[:, :2]}), ("reset", {}),
    ):  # fmt: skip
        steps.append(
            Operation(
                op=op, target="main", inputs=inputs, watch=(), label=f"{op} of a closed session",
                expect=(Refused("DECODE-REFUSE-CLOSED", ("session_closed",)),),
            )
        )  # fmt: skip
    steps += decoder_binding.reopened_anew(rows)
    return decoder_trace(rows, "closed", "a closed session is of no more use", steps)
