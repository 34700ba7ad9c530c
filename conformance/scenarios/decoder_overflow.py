"""A finite token that overflows in the last block, the final norm or the head alone: every layer stays.

Feature 0 is zero in every lawful row: no lawful token has it, and no block writes it. Only the poisonous
token has it, as large as all else is small, and only weights that read feature 0 are huge. Every overflow
exceeds the range by 2^100 in every order of summation; in the final norm, where no product can be so large,
by 2.7 times in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from conformance.scenarios.decoder_material import (
    CAPACITY,
    DecoderRows,
    decoder_trace,
    like,
    token_call,
    two_models,
)
from conformance.scenarios.decoder_refusals import untouched
from conformance.trace.expect import Array, Refused
from conformance.trace.model import Operation, Trace

POISON = 6
LARGE, HALF_RANGE, NEAR_TOP = 2.0**140, 2.0**600, 2.0**1020
LARGEST = 1.7e308


def traces(rows: DecoderRows) -> Iterator[Trace]:
    """Each stage with the poison at the end of a prompt, and as a decode; float64 alone has this range."""
    if rows.declaration.dtypes[0] != "float64":
        return
    lawful = rows.with_tokens(rows.tokens % POISON)
    last = f"blocks.{rows.config.layers - 1}"
    stages = {
        "score": ("DECODE-REFUSE-BLOCK", {f"{last}.attention.query.weight": HALF_RANGE,
                                          f"{last}.attention.key.weight": HALF_RANGE}),
        "hidden": ("DECODE-REFUSE-BLOCK", {f"{last}.ffn.gate.weight": HALF_RANGE,
                                           f"{last}.ffn.up.weight": HALF_RANGE}),
        "final-norm": ("DECODE-REFUSE-NORM", {"final_norm.gain": LARGEST}),
        "head": ("DECODE-REFUSE-HEAD", {"final_norm.gain": NEAR_TOP}),
    }  # fmt: skip
    for name, (requirement, huge) in stages.items():
        own = replace(lawful, parameters=_poisonous(rows, huge))
        for held in (0, 2):
            yield _overflow(own, lawful, (name, requirement), held)


def _poisonous(rows: DecoderRows, huge: dict[str, float]) -> dict[str, Array]:
    """Weights that keep feature 0 apart; those named in `huge` read it with that factor."""
    made = {name: value.copy() for name, value in rows.parameters.items()}
    made["token_embedding.weight"][:, 0] = 0.0
    made["token_embedding.weight"][POISON] = 0.0
    made["token_embedding.weight"][POISON, 0] = LARGE
    for name, value in made.items():
        if name.endswith(("attention.output.weight", "ffn.down.weight")):
            value[:, 0] = 0.0
    for name, size in huge.items():
        # Same sign everywhere in the row, so that no head and no inner feature cancels.
        made[name][0] = size
    return made


def _overflow(rows: DecoderRows, plain: DecoderRows, stage: tuple[str, str], held: int) -> Trace:
    """Poison in the last lane only. What is lawful goes on as in a twin that never saw it.

    plain: the same tokens of a decoder without huge weights, whose error bound is that of lawful tokens.
    """
    name, requirement = stage
    steps: list[Operation] = []
    if held:
        steps += [token_call(rows, session, 0, held) for session in ("main", "twin")]
    count = 1 if held else 3
    poisoned = rows.tokens[:, held : held + count].copy()
    poisoned[-1, -1] = POISON
    steps.append(
        Operation(
            op="decode" if held else "prefill", target="main", watch=rows.watch(),
            inputs={"tokens": poisoned[:, 0] if held else poisoned},
            label=f"a token that overflows in {name.replace('-', ' ')}",
            expect=(Refused(requirement, ("non_finite",)), *untouched(rows)),
        )
    )  # fmt: skip
    for start in (held, held + 1) if held else (0, 2):
        for session in ("twin", "main"):
            label = f"{session} goes on at {start}"
            own = f"twin goes on at {start}"
            extra = like(plain, "DECODE-ATOMIC-FUTURE", "main", "twin", own) if session == "main" else ()
            stop = start + 1 if start else 2
            filed = "DECODE-ATOMIC-FUTURE" if extra else "DECODE-LENGTH"
            steps.append(token_call(rows, session, start, stop, label=label, filed=filed, expect=extra))
    return decoder_trace(
        rows, f"overflow-{name}-{held}", f"overflow in {name.replace('-', ' ')}, {held} rows held", steps,
        **two_models(rows, CAPACITY),
    )  # fmt: skip
