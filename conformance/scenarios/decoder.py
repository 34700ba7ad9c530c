"""Decoders: agreement with the complete prefix however a prompt is cut, causality, options, generation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.adapter import Declaration
from conformance.budget.decoder import decoder_pass
from conformance.scenarios import decoder_life, decoder_overflow, decoder_refusals
from conformance.scenarios.chunks import partitions
from conformance.scenarios.decoder_material import (
    FORMULA,
    DecoderRows,
    Filing,
    decoded,
    decoder_rows,
    decoder_trace,
    like,
    prefilled,
    two_models,
)
from conformance.trace.expect import Custom, Expectation, Refused, Unchanged
from conformance.trace.model import CacheSpec, Operation, Trace

FULL_PREFIX = frozenset({"full_prefix"})

OPTIONS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "learned": ("DECODE-LEARNED", {"positions": "learned"}),
    "untied": ("DECODE-UNTIED", {"tied": False}),
    "biases": ("DECODE-BIASES", {"biases": True}),
    "half-pairs": ("DECODE-HALF-PAIRS", {"pairing": "half"}),
    "grouped": ("DECODE-GROUPED", {"heads": 6, "kv_heads": 3, "head_width": 2}),
    "multi-query": ("DECODE-MULTI-QUERY", {"kv_heads": 1}),
}
"""Options that not every decoder has: requirement and configuration."""


def traces(declaration: Declaration) -> Iterator[Trace]:
    """Traces of level decoder; of a decoder of its own architecture those that need no formula."""
    if declaration.levels[0] != "decoder":
        return
    rows = decoder_rows(declaration)
    yield _causal(rows)
    yield from _own_pass(rows)
    yield _own_pass_apart(rows)
    yield from decoder_life.traces(rows)
    if not rows.has_formula:
        return
    for prompt in range(1, rows.tokens.shape[1] + 1):
        yield _partition(rows, prompt)
    yield _greedy(rows)
    yield from _options(declaration)
    if "chunks" in declaration.features:
        yield from _chunks(rows)
    yield from decoder_refusals.traces(rows)
    yield from decoder_overflow.traces(rows)


def steps_of(
    rows: DecoderRows, session: str, prompt: int, stop: int, *, filed: Filing = FORMULA, name: str = ""
) -> list[Operation]:
    """A prefill of `prompt` tokens and decodes up to `stop`, labelled by session and position."""
    label = name or session
    return [
        prefilled(rows, session, 0, prompt, label=f"{label}, prompt", filed=filed),
        *(decoded(rows, session, t, label=f"{label}, token {t}", filed=filed) for t in range(prompt, stop)),
    ]


def _partition(rows: DecoderRows, prompt: int) -> Trace:
    filed = Filing() if prompt == 2 else Filing.all("DECODE-PARTITIONS")
    count = rows.tokens.shape[1]
    return decoder_trace(
        rows, f"prompt-{prompt}", f"a prompt of {prompt} tokens, then {count - prompt} one by one",
        steps_of(rows, "main", prompt, count, filed=filed),
    )  # fmt: skip


def _causal(rows: DecoderRows) -> Trace:
    """The same prompt with another last token: whatever was before it stays."""
    other = rows.tokens.copy()
    other[:, 4] = (other[:, 4] + 3) % rows.config.vocabulary
    changed = rows.with_tokens(other)
    steps = [
        prefilled(rows, "main", 0, 5, label="prompt"),
        prefilled(
            changed, "twin", 0, 5, label="prompt with another last token",
            extra=like(rows, "DECODE-CAUSAL", "twin", "main", "prompt", stop=4),
        ),
    ]  # fmt: skip
    return decoder_trace(rows, "causal", "the last token of a prompt is changed", steps, **two_models(rows))


def _own_pass(rows: DecoderRows, option: str = "") -> Iterator[Trace]:
    """Six tokens: cached calls against the implementation's own pass without the cache."""
    count = rows.tokens.shape[1]
    for prompt in (3,) if option else (1, 3):
        steps = steps_of(rows, "main", prompt, count)
        cached = {"steps": tuple(step.label for step in steps)}
        expect: list[Expectation] = [Custom("DECODE-SELF-AGREEMENT", "cached_stream_agrees", cached)]
        if rows.has_formula:
            value, gate = rows.logits(0, count)
            expect.append(Custom("DECODE-OWN-PASS", "cached_stream_agrees", {**cached, "bound": gate}))
            expect.append(rows.close("DECODE-OWN-PASS", "output", value, gate))
        steps.append(
            Operation(
                op="full_prefix", layer="a", inputs={"tokens": rows.tokens}, watch=(),
                label="own pass without the cache", expect=tuple(expect),
            )
        )  # fmt: skip
        yield decoder_trace(
            rows, f"own-pass{option}-{prompt}",
            f"prompt of {prompt}, against the own pass without the cache", steps,
            needs=FULL_PREFIX, optional=bool(option),
        )  # fmt: skip


def _own_pass_apart(rows: DecoderRows) -> Trace:
    """Passes without the cache before and between cached calls; a twin model goes without them."""
    kept = tuple(
        Unchanged(name, length="DECODE-OWN-PASS-APART", rows="DECODE-OWN-PASS-APART") for name in rows.watch()
    )
    steps = steps_of(rows, "twin", 2, 5)
    for prompt, length in ((0, 3), (2, 6), (3, 1), (4, 5)):
        steps.append(
            Operation(
                op="full_prefix", layer="a", inputs={"tokens": rows.tokens[:, ::-1][:, :length]},
                watch=rows.watch(), label=f"own pass of {length} while {prompt} are held", expect=kept,
            )
        )  # fmt: skip
        label = "twin, prompt" if not prompt else f"twin, token {prompt}"
        same = like(rows, "DECODE-OWN-PASS-APART", "main", "twin", label)
        if not prompt:
            steps.append(prefilled(rows, "main", 0, 2, extra=same))
        else:
            steps.append(decoded(rows, "main", prompt, extra=same))
    return decoder_trace(
        rows, "own-pass-apart", "passes without the cache in between", steps, needs=FULL_PREFIX,
        **two_models(rows),
    )  # fmt: skip


def _greedy(rows: DecoderRows) -> Trace:
    """Two tokens, then the largest logit of each lane, until the capacity is used up."""
    capacity, tokens = 6, rows.tokens[:, :2]
    while tokens.shape[1] <= capacity:
        logits = decoder_pass(rows.config, rows.parameters, tokens).logits[:, -1]
        tokens = np.concatenate([tokens, logits.argmax(axis=-1)[:, None]], axis=1)
    chosen = rows.with_tokens(tokens)
    steps = []
    for position in range(1, capacity):
        extra = _choice(chosen, position)
        filed = Filing(logits="DECODE-GREEDY")
        steps.append(
            prefilled(chosen, "main", 0, 2, filed=filed, extra=extra, label="prompt")
            if position == 1
            else decoded(chosen, "main", position, filed=filed, extra=extra, label=f"token {position}")
        )
    if rows.declaration.capacity == "exact":
        steps.append(
            Operation(
                op="decode", target="main", inputs={"tokens": tokens[:, capacity]}, watch=rows.watch(),
                label="the context limit", expect=(Refused("DECODE-REFUSE-FULL", ("full",)),),
            )
        )  # fmt: skip
    return decoder_trace(
        rows, "greedy", "greedy generation up to the context limit", steps,
        caches={"main": CacheSpec("a", rows.lanes, capacity)},
    )  # fmt: skip


def _choice(rows: DecoderRows, position: int) -> tuple[Custom, ...]:
    """The next token of each lane, asked where no correct implementation can choose another."""
    value, gate = (part[:, 0] for part in rows.logits(position, position + 1))
    ordered = np.sort(value, axis=-1)
    if (ordered[:, -1] - ordered[:, -2] <= 2.0 * gate.max()).any():
        return ()
    tokens = tuple(int(token) for token in value.argmax(axis=-1))
    return (Custom("DECODE-GREEDY", "chooses", {"tokens": tokens}),)


def _options(declaration: Declaration) -> Iterator[Trace]:
    """Every option with a prompt of three; the learned table also over a reset, with other tokens."""
    for name, (requirement, options) in OPTIONS.items():
        rows = decoder_rows(declaration, **options)
        filed = Filing.all(requirement)
        needs = frozenset({"gqa"} if "kv_heads" in options else ())
        steps = steps_of(rows, "main", 3, 6, filed=filed)
        if name == "learned":
            others = decoder_rows(declaration, shift=1, **options)
            steps.append(Operation(op="reset", target="main", label="reset", watch=rows.watch()))
            steps += steps_of(others, "main", 2, 4, filed=filed, name="after the reset")
        yield decoder_trace(rows, name, f"a decoder with option {name}", steps, optional=True, needs=needs)
        if name == "learned":
            # A pass that starts at the position of the cached calls is right under rotation alone.
            yield from _own_pass(rows, "-learned")


def _chunks(rows: DecoderRows) -> Iterator[Trace]:
    for sizes in partitions(rows.tokens.shape[1]):
        steps, start = [], 0
        for size in sizes:
            steps.append(prefilled(rows, "main", start, start + size, filed=Filing.all("DECODE-CHUNKS")))
            start += size
        name = "-".join(map(str, sizes))
        made = decoder_trace(rows, f"chunks-{name}", f"six tokens in prompts of {name}", steps)
        yield replace(made, needs=frozenset({"chunks"}))
