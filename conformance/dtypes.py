"""The dtypes of a declaration: what an implementation is fed with in each, and where it may round.

The first is the one in which everything is played. In every further one the golden traces are played again,
with inputs rounded to it, and judged by the precision that it implies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import DTYPES, Declaration, Precision
from conformance.trace.expect import Array, Close, Expectation
from conformance.trace.model import Derived, Operation, Source, Trace
from conformance.values import PARAMETERS, LayerParameters

COMPUTED_IN = {"float16": "float32", "bfloat16": "float32"}
"""What arithmetic of a dtype is done in where nothing else is declared; every other one is its own."""

BFLOAT16_BITS = 8


def in_dtype(declaration: Declaration, dtype: str) -> Declaration:
    """The declaration as if `dtype`, a further one of its own, were the only one; else as it is."""
    if dtype == declaration.dtypes[0] or dtype not in declaration.dtypes:
        return declaration
    return replace(declaration, dtypes=(dtype,), precision=implied(declaration, dtype))


def implied(declaration: Declaration, dtype: str) -> Precision:
    """Where an implementation rounds that is fed with `dtype`, one of its further dtypes.

    It stores in that dtype, and computes in it or, where it has 16 bits, in float32. A place for which the
    declaration says something coarser than its first dtype is as coarse here, if not coarser.
    """
    computed = COMPUTED_IN.get(dtype, dtype)
    here = Precision(storage=dtype, arithmetic=computed, softmax=computed, angles=computed)
    if declaration.precision == Precision.of(declaration.dtypes[0]):
        return here
    said = vars(declaration.precision)
    coarsest = {place: max(own, said[place], key=DTYPES.index) for place, own in vars(here).items()}
    return Precision(**coarsest)


def fed(trace: Trace, dtype: str) -> Trace:
    """The trace as an implementation of that dtype gets it: every input and every weight rounded to it.

    Of a store the expectations are rounded too, for its rows come back as they went in. Elsewhere what must
    come out is left for `golden_bounds` to compute.
    """
    if dtype == "float64":
        return trace
    layers = {name: _source(given, dtype) for name, given in trace.layers.items()}
    steps = tuple(_step(step, dtype, store=trace.level == "store") for step in trace.steps)
    return replace(trace, layers=layers, steps=steps)


def rounded(values: NDArray[Any], dtype: str) -> Array:
    """The numbers that an implementation of `dtype` gets, as float64."""
    given = np.asarray(values, dtype=np.float64)
    if dtype == "float64":
        return given
    with np.errstate(all="ignore"):
        if dtype != "bfloat16":
            return np.asarray(given.astype(dtype), dtype=np.float64)
        fraction, exponent = np.frexp(given)
        scale = 2.0**BFLOAT16_BITS
        return np.asarray(np.ldexp(np.round(fraction * scale) / scale, exponent), dtype=np.float64)


def _source(given: Source | Derived, dtype: str) -> Source | Derived:
    if isinstance(given, Derived):
        return given
    parameters = given.parameters
    if isinstance(parameters, LayerParameters):
        own = {name: rounded(getattr(parameters, name), dtype) for name in PARAMETERS}
        return replace(given, parameters=replace(parameters, **own))
    if parameters is None:
        return given
    return replace(given, parameters={name: rounded(value, dtype) for name, value in parameters.items()})


def _step(step: Operation, dtype: str, *, store: bool) -> Operation:
    inputs: Mapping[str, Any] = {
        name: rounded(value, dtype) if value.dtype.kind == "f" else value
        for name, value in step.inputs.items()
    }
    expect = tuple(_kept(e, dtype) for e in step.expect) if store else step.expect
    return replace(step, inputs=inputs, expect=expect)


def _kept(e: Expectation, dtype: str) -> Expectation:
    return replace(e, value=rounded(e.value, dtype)) if isinstance(e, Close) else e
