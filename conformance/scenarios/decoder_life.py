"""Decoders: reset, lanes, sessions, the caller's arrays, storage and work counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from conformance.scenarios.decoder_material import (
    CAPACITY,
    DecoderRows,
    decoded,
    decoder_rows,
    decoder_trace,
    like,
    prefilled,
    two_models,
)
from conformance.trace.expect import Custom, Expectation, InputsKept, Length, Refused, Unchanged
from conformance.trace.model import CacheSpec, Operation, Trace

WORK = frozenset({"work"})


def traces(rows: DecoderRows) -> Iterator[Trace]:
    """Traces of one decoder; those that need no formula are all that a decoder of its own is asked."""
    others = rows.with_tokens(decoder_rows(rows.declaration, shift=2).tokens)
    yield _new(rows)
    yield _replay(rows, 3)
    yield _replay(rows, 1)
    yield _other_tokens(rows, others)
    yield _lanes(decoder_rows(rows.declaration, lanes=3))
    yield _sessions(rows, others)
    yield _tokens(rows)
    if rows.has_formula:
        yield _phase(rows)
        yield _work(decoder_rows(rows.declaration, lanes=1))
        yield _scores(rows)


def reset(rows: DecoderRows, session: str = "main", label: str = "reset") -> Operation:
    """A reset: every layer at length 0, its storage as it was."""
    expect: list[Expectation] = []
    for name in rows.watch(session):
        expect.append(Length("DECODE-RESET-LENGTH", 0, name))
        if rows.has_formula:
            expect.append(Unchanged(name, storage="DECODE-RESET-STORAGE", addresses="DECODE-RESET-STORAGE"))
    return Operation(op="reset", target=session, label=label, watch=rows.watch(session), expect=tuple(expect))


def _new(rows: DecoderRows) -> Trace:
    expect: list[Expectation] = [Length("DECODE-LENGTH", 0, name) for name in rows.watch()]
    if "storage" in rows.declaration.features and rows.has_formula:
        expect.append(Custom("DECODE-LAYERS-APART", "layers_apart", {"layers": rows.watch()}))
    seen = Operation(
        op="observe", target="main", watch=rows.watch(), label="new session", expect=tuple(expect)
    )
    return decoder_trace(rows, "new", "what a new session looks like", [seen])


def _replay(rows: DecoderRows, prompt: int) -> Trace:
    """A prompt of one token too: a wrong position there is a wrong number, and no mask of a wrong shape."""
    steps = [prefilled(rows, "main", 0, prompt, label="prompt")]
    steps += [decoded(rows, "main", t, label=f"token {t}") for t in range(prompt, prompt + 2)]
    steps.append(reset(rows))
    steps.append(
        prefilled(
            rows, "main", 0, prompt, label="prompt again",
            extra=like(rows, "DECODE-RESET-REPLAY", "main", "main", "prompt"),
        )
    )  # fmt: skip
    steps += [
        decoded(
            rows, "main", t, label=f"token {t} again",
            extra=like(rows, "DECODE-RESET-REPLAY", "main", "main", f"token {t}"),
        )
        for t in range(prompt, prompt + 2)
    ]  # fmt: skip
    steps += [reset(rows, label="second reset"), reset(rows, label="third reset")]
    return decoder_trace(rows, f"reset-replay-{prompt}", "the same tokens after a reset", steps)


def _other_tokens(rows: DecoderRows, others: DecoderRows) -> Trace:
    """A long history, a reset, and a shorter one of other tokens, beside a session that never held any."""
    steps = [prefilled(rows, "main", 0, 2), *(decoded(rows, "main", t) for t in range(2, 6)), reset(rows)]
    steps.append(prefilled(others, "fresh", 0, 2, label="fresh, prompt"))
    steps.append(
        prefilled(
            others, "main", 0, 2,
            extra=like(rows, "DECODE-RESET-INFLUENCE", "main", "fresh", "fresh, prompt"),
        )
    )  # fmt: skip
    for t in (2, 3):
        steps.append(decoded(others, "fresh", t, label=f"fresh, token {t}"))
        extra = like(rows, "DECODE-RESET-INFLUENCE", "main", "fresh", f"fresh, token {t}")
        steps.append(decoded(others, "main", t, extra=extra))
    return decoder_trace(
        rows, "reset-other-tokens", "other tokens after a reset, beside a fresh session", steps,
        **two_models(rows, names=("main", "fresh")),
    )  # fmt: skip


def _phase(rows: DecoderRows) -> Trace:
    """After a reset, and after two, a decode needs a prompt again."""
    steps = [prefilled(rows, "main", 0, 2), decoded(rows, "main", 2)]
    for label in ("reset", "second reset"):
        steps.append(reset(rows, label=label))
        steps.append(
            Operation(
                op="decode", target="main", inputs={"tokens": rows.tokens[:, 0]}, watch=rows.watch(),
                label=f"decode after the {label}",
                expect=(Refused("DECODE-RESET-PHASE", ("prefill_required",)),),
            )
        )  # fmt: skip
    steps += [prefilled(rows, "main", 0, 3), decoded(rows, "main", 3)]
    return decoder_trace(rows, "reset-phase", "a decode straight after a reset", steps)


def _lanes(rows: DecoderRows) -> Trace:
    """Three lanes; the same lanes in another order; one lane changed."""
    order, kept = (2, 0, 1), (0, 2)
    permuted = rows.with_tokens(rows.tokens[list(order)])
    other = rows.tokens.copy()
    other[1] = (other[1] + 2) % rows.config.vocabulary
    changed = rows.with_tokens(other)

    def as_main(label: str, start: int, stop: int, lanes: tuple[int, ...], own: tuple[int, ...]) -> Custom:
        given: dict[str, Any] = {"other": label, "lanes": lanes, "own": own}
        if rows.has_formula:
            first = stop - 1 if rows.declaration.prefill_logits == "last" else start
            given["bound"] = 2.0 * rows.logits(first, stop)[1][list(own) if len(own) == 3 else slice(None)]
        return Custom("DECODE-LANES", "lanes_as", given)

    steps = [prefilled(rows, "main", 0, 2, label="prompt")]
    steps.append(prefilled(permuted, "permuted", 0, 2, extra=(as_main("prompt", 0, 2, (0, 1, 2), order),)))
    steps.append(prefilled(changed, "changed", 0, 2, extra=(as_main("prompt", 0, 2, kept, kept),)))
    for t in (2, 3):
        steps.append(decoded(rows, "main", t, label=f"token {t}"))
        extra = as_main(f"token {t}", t, t + 1, (0, 1, 2), order)
        steps.append(decoded(permuted, "permuted", t, extra=(extra,)))
        steps.append(decoded(changed, "changed", t, extra=(as_main(f"token {t}", t, t + 1, kept, kept),)))
    models = {"main": "a", "permuted": "b", "changed": "c"}
    return decoder_trace(
        rows, "lanes", "lanes permuted, and one lane changed", steps,
        layers=dict.fromkeys(models.values(), rows.source),
        caches={name: CacheSpec(model, 3, CAPACITY) for name, model in models.items()},
    )  # fmt: skip


def _sessions(rows: DecoderRows, others: DecoderRows) -> Trace:
    """Two sessions of one model, used alternately; the first also stands alone on another model."""
    filed = "DECODE-SESSIONS"
    steps = [prefilled(rows, "alone", 0, 2, label="alone, prompt")]
    steps += [decoded(rows, "alone", t, label=f"alone, token {t}") for t in (2, 3, 4)]
    steps.append(prefilled(rows, "main", 0, 2, extra=like(rows, filed, "main", "alone", "alone, prompt")))
    # Of the other session nothing is asked but what it does to the first one.
    tokens = {"prefill": {"tokens": others.tokens[:, :1]}, "decode": {"tokens": others.tokens[:, 1]}}
    untouched = tuple(Unchanged(name, length=filed, rows=filed) for name in rows.watch("main"))
    for t, op in zip((2, 3, 4), ("prefill", "decode", "reset"), strict=True):
        steps.append(
            Operation(
                op=op, target="other", inputs=tokens.get(op, {}), watch=rows.watch("main"),
                expect=untouched, label=f"{op} of the other session",
            )
        )  # fmt: skip
        extra = like(rows, filed, "main", "alone", f"alone, token {t}")
        steps.append(_only(decoded(rows, "main", t, label=f"main, token {t}"), extra))
    models = {"main": "a", "other": "a", "alone": "b"}
    return decoder_trace(
        rows, "sessions", "two sessions of one model, used alternately", steps,
        layers={"a": rows.source, "b": rows.source},
        caches={name: CacheSpec(model, rows.lanes, CAPACITY) for name, model in models.items()},
    )  # fmt: skip


def _only(step: Operation, expect: tuple[Expectation, ...]) -> Operation:
    return Operation(
        op=step.op, target=step.target, inputs=step.inputs, watch=step.watch, label=step.label, expect=expect
    )


def _tokens(rows: DecoderRows) -> Trace:
    """The caller's array is only read, and may be used for something else after the call."""
    filed = "DECODE-TOKENS"
    steps = [prefilled(rows, "twin", 0, 3, label="twin, prompt")]
    steps += [decoded(rows, "twin", t, label=f"twin, token {t}") for t in (3, 4)]
    untouched = tuple(Unchanged(name, length=filed, rows=filed) for name in rows.watch())
    for t in (0, 3, 4):
        name = f"token {t}" if t else "prompt"
        extra = (InputsKept(filed), *like(rows, filed, "main", "twin", f"twin, {name}"))
        call = prefilled(rows, "main", 0, 3, label=name) if not t else decoded(rows, "main", t, label=name)
        steps.append(_only(call, extra))
        steps.append(
            Operation(
                op="overwrite_input", target="main", arguments={"step": name}, watch=rows.watch(),
                label=f"the caller writes over the array of the {name}", expect=untouched,
            )
        )  # fmt: skip
    return decoder_trace(rows, "tokens", "the caller's arrays of tokens", steps, **two_models(rows))


def counted(rows: DecoderRows, calls: list[tuple[int, int]]) -> dict[str, int]:
    """Work counts after calls that took tokens start to stop - 1, for one lane. Source: System 3."""
    layers, heads = rows.config.layers, rows.config.layer.heads
    taken = sum(stop - start for start, stop in calls)
    prompt = calls[0][1] if calls else 0
    return {
        "prefill_tokens": prompt,
        "decode_tokens": taken - prompt,
        "cache_appends": layers * taken,
        "qkv_rows": 3 * layers * taken,
        "cached_scores": layers * heads * sum(range(1, taken + 1)),
        "complete_prefix_scores": layers * heads * sum(stop * stop for _, stop in calls),
    }


def _work(rows: DecoderRows) -> Trace:
    """Counts of one lane after each call, zeroed by a reset, and counted anew."""
    steps: list[Operation] = []
    for again in range(2):
        calls: list[tuple[int, int]] = []
        for start, stop in ((0, 2), (2, 3), (3, 4)) if not again else ((0, 3), (3, 4)):
            calls.append((start, stop))
            extra = (Custom("DECODE-WORK", "counts", {"counts": counted(rows, calls)}),)
            step = prefilled(rows, "main", start, stop, extra=extra)
            steps.append(step if not start else decoded(rows, "main", start, extra=extra))
        none = Custom("DECODE-RESET-WORK", "counts", {"counts": counted(rows, [])})
        steps.append(_only(reset(rows, label=f"reset {again + 1}"), (none,)))
    return decoder_trace(rows, "work", "work counts of one lane, over a reset", steps, needs=WORK)


def _scores(rows: DecoderRows) -> Trace:
    """The scores of two lanes are twice those of one."""
    steps: list[Operation] = []
    calls: list[tuple[int, int]] = []
    for start, stop in ((0, 3), (3, 4)):
        calls.append((start, stop))
        counts = counted(rows, calls)
        scores = {name: rows.lanes * counts[name] for name in ("cached_scores", "complete_prefix_scores")}
        extra = (Custom("DECODE-WORK", "counts", {"counts": scores}),)
        step = prefilled(rows, "main", start, stop, extra=extra)
        steps.append(step if not start else decoded(rows, "main", start, extra=extra))
    return decoder_trace(rows, "scores", "score counts of two lanes", steps, needs=WORK)
