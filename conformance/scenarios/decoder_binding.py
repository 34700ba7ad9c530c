"""Decoders: parameters locked while a session is open and stale afterwards; models told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.budget.decoder_shapes import decoder_shapes
from conformance.scenarios.decoder_material import (
    CAPACITY,
    DecoderRows,
    decoded,
    decoder_parameters,
    decoder_trace,
    like,
    prefilled,
    two_models,
)
from conformance.trace.expect import Accepted, Array, Expectation, Refused, Unchanged
from conformance.trace.model import CacheSpec, Derived, Operation, Trace
from conformance.values import DecoderConfig

UPDATE = frozenset({"update_parameters"})
BOTH = frozenset({"update_parameters", "rewire"})
REWIRE = frozenset({"rewire"})
SOME = (
    "token_embedding.weight", "blocks.1.attention.key.weight", "blocks.2.ffn.down.weight", "final_norm.gain",
)  # fmt: skip
"""A parameter of each part: embedding, a block's attention, the last block's feed-forward part, the norm."""


def traces(rows: DecoderRows) -> Iterator[Trace]:
    """Traces of profile decoder that need parameters updated or models rewired."""
    yield _locked(rows)
    yield _locked_by_another(rows)
    yield _stale(rows)
    for number, name in enumerate(decoder_shapes(rows.config)):
        yield _reopened_stale(rows, number, name)
    yield _reopened_stale(rows, 0, SOME[0], equal=True)
    for name in decoder_shapes(rows.config):
        yield _other_model(rows, name, (name,))
    yield _other_model(rows, "everything", tuple(decoder_shapes(rows.config)))
    for name, config in _configurations(rows.config):
        yield _other_configuration(rows, name, config)
    yield from _two_offences(rows)


def update(
    name: str, value: Array, label: str, expect: tuple[Expectation, ...], watch: tuple[str, ...] = ()
) -> Operation:
    """New numbers for one parameter of model a."""
    return Operation(op="update", layer="a", inputs={name: value}, label=label, expect=expect, watch=watch)


def reopened_anew(rows: DecoderRows) -> list[Operation]:
    """A new session `new` on model a, and what it must give."""
    built = Operation(
        op="build", target="new", layer="a", watch=rows.watch("new")[:0], label="a new session",
        arguments={"batch_size": rows.lanes, "capacity": CAPACITY},
    )  # fmt: skip
    return [built, prefilled(rows, "new", 0, 3), decoded(rows, "new", 3)]


def _locked(rows: DecoderRows) -> Trace:
    """Updates refused while the session is open, empty and filled; it goes on as its twin does."""
    changed = decoder_parameters(rows.config, shift=4)
    kept = tuple(
        Unchanged(name, length="DECODE-ATOMIC-LENGTH", rows="DECODE-ATOMIC-ROWS") for name in rows.watch()
    )
    steps: list[Operation] = []
    for number, name in enumerate(SOME):
        refused: tuple[Expectation, ...] = (Refused("DECODE-REFUSE-LOCKED", ("parameters_locked",)), *kept)
        steps.append(update(name, changed[name], f"update of {name} at {number}", refused, rows.watch()))
        for session in ("twin", "main"):
            label = f"{session} at {number}"
            extra: tuple[Expectation, ...] = ()
            if session == "main":
                extra = like(rows, "DECODE-REFUSE-LOCKED", "main", "twin", f"twin at {number}")
            steps.append(
                decoded(rows, session, number + 1, label=label, extra=extra)
                if number
                else prefilled(rows, session, 0, 2, label=label, extra=extra)
            )
    steps += [
        Operation(op="close", target="main", label="close", watch=()),
        update(SOME[0], changed[SOME[0]], "update after the close", (Accepted("DECODE-REFUSE-LOCKED"),)),
    ]
    return decoder_trace(
        rows, "locked", "parameters updated while a session is open", steps, needs=UPDATE, **two_models(rows)
    )


def _locked_by_another(rows: DecoderRows) -> Trace:
    """Two sessions: while one of them is open, whichever, the parameters stay locked."""
    value = decoder_parameters(rows.config, shift=4)[SOME[1]]
    refused = (Refused("DECODE-REFUSE-LOCKED", ("parameters_locked",)),)
    steps = [
        prefilled(rows, "main", 0, 2),
        Operation(op="close", target="other", label="the other session is closed", watch=()),
        update(SOME[1], value, "update while one session is open", refused),
        decoded(rows, "main", 2),
        Operation(op="close", target="main", label="the last session is closed", watch=()),
        update(SOME[1], value, "update without a session", (Accepted("DECODE-REFUSE-LOCKED"),)),
    ]
    return decoder_trace(
        rows, "locked-by-another", "two sessions, closed one after the other", steps, needs=UPDATE,
        caches={name: CacheSpec("a", rows.lanes, CAPACITY) for name in ("main", "other")},
    )  # fmt: skip


def _stale(rows: DecoderRows) -> Trace:
    """Close, update, decode on the old session: refused. A new session has the new weights."""
    changed = decoder_parameters(rows.config, shift=4)
    new = replace(rows, parameters={**rows.parameters, SOME[2]: changed[SOME[2]]})
    kinds = ("stale_parameters", "session_closed")
    steps = [
        prefilled(rows, "main", 0, 2),
        Operation(op="close", target="main", label="close", watch=()),
        update(SOME[2], changed[SOME[2]], "update", ()),
        Operation(
            op="decode", target="main", inputs={"tokens": rows.tokens[:, 2]}, watch=(),
            label="decode with the old rows", expect=(Refused("DECODE-REFUSE-STALE", kinds),),
        ),
        *reopened_anew(new),
    ]  # fmt: skip
    return decoder_trace(rows, "stale", "old rows and new weights", steps, needs=UPDATE)


def _reopened_stale(rows: DecoderRows, number: int, name: str, *, equal: bool = False) -> Trace:
    """The caches of a closed session reopened after an update of one parameter, also with equal numbers."""
    value = rows.parameters[name] if equal else decoder_parameters(rows.config, shift=4)[name]
    details = {"parameter": number}
    steps = [
        prefilled(rows, "main", 0, 2),
        Operation(op="close", target="main", label="close", watch=()),
        update(name, value, f"update of {name}", ()),
        Operation(
            op="reopen", target="main", layer="a", watch=(), label="the old caches reopened",
            expect=(Refused("DECODE-REFUSE-STALE", ("stale_parameters",), details),),
        ),
    ]  # fmt: skip
    what = f"{name}{', equal numbers' if equal else ''}"
    suffix = "-equal" if equal else ""
    return decoder_trace(
        rows, f"reopened-stale-{name}{suffix}", f"reopened after an update of {what}", steps, needs=BOTH
    )


def _other_model(rows: DecoderRows, name: str, fresh: tuple[str, ...]) -> Trace:
    return _reopened(
        rows, f"rebuilt-{name}", "DECODE-REFUSE-MODEL", "model_mismatch", Derived("a", fresh=fresh)
    )


def _other_configuration(rows: DecoderRows, name: str, config: DecoderConfig) -> Trace:
    return _reopened(
        rows, f"configuration-{name}", "DECODE-REFUSE-CONFIGURATION", "configuration_mismatch",
        Derived("a", config=config),
    )  # fmt: skip


def _reopened(rows: DecoderRows, name: str, requirement: str, kind: str, other: Derived) -> Trace:
    """Reopened on another model: refused. On its own model: it goes on where it stood."""
    parts = two_models(rows)
    steps = [
        prefilled(rows, "twin", 0, 2),
        decoded(rows, "twin", 2, label="twin goes on"),
        prefilled(rows, "main", 0, 2),
        Operation(op="close", target="main", label="close", watch=()),
        Operation(
            op="reopen", target="main", layer="other", watch=(), label="reopened on another model",
            expect=(Refused(requirement, (kind,)),),
        ),
        Operation(
            op="reopen", target="main", layer="a", watch=(), label="reopened on its own model",
            expect=(Accepted(requirement),),
        ),
        decoded(rows, "main", 2, extra=like(rows, requirement, "main", "twin", "twin goes on")),
    ]  # fmt: skip
    layers = {**parts["layers"], "other": other}
    return decoder_trace(
        rows, f"reopened-{name}", f"old caches on another model: {name}", steps, layers=layers,
        caches=parts["caches"], needs=REWIRE,
    )  # fmt: skip


def _two_offences(rows: DecoderRows) -> Iterator[Trace]:
    """Reopened on a model that differs in two ways: the kind of the first is asked."""
    config = next(iter(_configurations(rows.config)))[1]
    for name, kind, other in (
        ("model-and-configuration", "model_mismatch", Derived("a", config=config, fresh=(SOME[3],))),
        ("model-and-revision", "model_mismatch", Derived("a", fresh=(SOME[3],))),
        ("configuration-and-revision", "configuration_mismatch", Derived("a", config=config)),
    ):
        stale = (
            [update(SOME[0], rows.parameters[SOME[0]], f"update of {SOME[0]}", ())]
            if "revision" in name
            else []
        )
        steps = [
            prefilled(rows, "main", 0, 2),
            Operation(op="close", target="main", label="close", watch=()),
            *stale,
            Operation(
                op="reopen", target="main", layer="other", watch=(), label=name.replace("-", " "),
                expect=(Refused("DECODE-REFUSE-ORDER", (kind,)),),
            ),
        ]  # fmt: skip
        yield decoder_trace(
            rows, f"reopened-{name}", f"old caches on another model: {name}", steps, needs=BOTH,
            layers={"a": rows.source, "other": other},
        )  # fmt: skip


def _configurations(config: DecoderConfig) -> Iterator[tuple[str, DecoderConfig]]:
    """One setting changed at a time, as little as it can be; the parameters fit all of them."""
    rope = config.layer.rope

    def rotated(**changes: object) -> DecoderConfig:
        return replace(config, layer=replace(config.layer, rope=replace(rope, **changes)))  # type: ignore[arg-type]

    yield "epsilon", replace(config, norm_epsilon=config.norm_epsilon * (1.0 + 2.0**-52))
    yield "base", rotated(base=rope.base * (1.0 + 2.0**-52))
    yield "pairing", rotated(pairing="half")
    yield "positions", rotated(max_positions=rope.max_positions + 1)
    width = config.layer.heads * config.layer.head_width
    yield "heads", replace(config, layer=replace(config.layer, heads=1, kv_heads=1, head_width=width))
