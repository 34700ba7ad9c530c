"""Golden expectations of a decoder for a declaration other than float64 with every row of logits.

Value and bound are computed from the tokens of the trace and from weights rounded to the declared dtype,
which is what such an implementation is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from conformance.adapter import Declaration, Precision
from conformance.dtypes import rounded
from conformance.scenarios.decoder_material import DecoderRows
from conformance.trace.expect import Close, Expectation
from conformance.trace.model import Derived, Operation, Trace
from conformance.values import DecoderConfig


def decoder_bounded(trace: Trace, declaration: Declaration) -> Trace:
    """The trace with values and bounds for this declaration; in plain float64 as the file has them."""
    plain = declaration.precision == Precision() and declaration.dtypes[0] == "float64"
    if plain and declaration.keys == "rotated" and declaration.prefill_logits == "all":
        return trace
    return trace.with_steps(tuple(_steps(trace, declaration)))


def _steps(trace: Trace, declaration: Declaration) -> Iterator[Operation]:
    """Every step, with what each session holds since its last reset."""
    held: dict[str, Any] = {}
    for step in trace.steps:
        start = held[step.target].shape[1] if step.target in held else 0
        if step.op == "reset":
            held.pop(step.target, None)
        elif step.op in ("prefill", "decode") and any(isinstance(e, Close) for e in step.expect):
            tokens = step.inputs["tokens"]
            tokens = tokens[:, None] if tokens.ndim == 1 else tokens
            before = held.get(step.target, tokens[:, :0])
            held[step.target] = np.concatenate([before, tokens], axis=1)
        rows = _rows(trace, declaration, step, held.get(step.target))
        if rows is None:
            yield step
            continue
        stop = rows.tokens.shape[1]
        yield replace(step, expect=tuple(_own(e, rows, start, stop) for e in step.expect))


def _rows(trace: Trace, declaration: Declaration, step: Operation, tokens: Any) -> DecoderRows | None:
    source = trace.layers[trace.caches[step.target].layer] if step.target in trace.caches else None
    if tokens is None or source is None or isinstance(source, Derived):
        return None
    config, parameters = source.config, source.parameters
    if not isinstance(config, DecoderConfig) or not isinstance(parameters, dict):
        return None
    weights = {name: rounded(value, declaration.dtypes[0]) for name, value in parameters.items()}
    return DecoderRows(declaration, config, tokens, weights)


def _own(e: Expectation, rows: DecoderRows, start: int, stop: int) -> Expectation:
    if not isinstance(e, Close):
        return e
    what, _, place = e.field.partition(":")
    if what == "output":
        first = stop - 1 if rows.declaration.prefill_logits == "last" else start
        value, gate = rows.logits(first, stop)
    else:
        value, gate = rows.kept(what, int(place.partition("/")[2] or 0), stop)
    return rows.close(e.requirement, e.field, value, gate)
