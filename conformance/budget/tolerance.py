"""How far apart an implementation and its expected value may lie when both have been computed.

A bound is about one computation and the exact result. A frozen golden value *is* the exact result, rounded
once, and the bound alone is its gate. A value from `layer_pass` has an error of its own, in float64; if the
gate were the implementation's bound alone, a correct implementation at one end of its bound and our pass at
the other end of its own would be called wrong. So both bounds are added: for a float64 implementation the
tolerance is twice the bound, for a coarser one hardly more than its own.
"""

from __future__ import annotations

from typing import Any, TypeVar

from conformance.adapter import Precision
from conformance.budget.bound import attention_bound, layer_bound
from conformance.budget.bounds import AttentionBound, LayerBound
from conformance.budget.forward import LayerPass, layer_pass
from conformance.values import AttentionConfig, LayerConfig, LayerParameters

Bound = TypeVar("Bound", LayerBound, AttentionBound)

PASS_PRECISION = Precision()
"""What `layer_pass` and `attention_pass` compute in: float64 throughout."""

# Bounds are evaluated in float64 at computed values, and the difference that is compared is rounded too.
_SLACK = 1.0 + 2.0**-20


def tolerance(implementation: Bound, expected: Bound) -> Bound:
    """The bound of an implementation plus that of the computed expected value, for the same rows."""
    if implementation is expected:
        return implementation.scaled(2.0 * _SLACK)
    return implementation.plus(expected).scaled(_SLACK)


def layer_tolerance(
    config: LayerConfig,
    parameters: LayerParameters,
    rows: Any,
    precision: Precision,
    *,
    first_position: int = 0,
    eager: bool = False,
    expected: LayerPass | None = None,
) -> LayerBound:
    """The gate for an implementation of `precision` held against `layer_pass` of the same rows.

    expected: that pass, where it is at hand. `applicable` says whether the implementation's precision is
    fine enough. Raises TraceError where a shape does not fit.
    """
    if expected is None:
        expected = layer_pass(config, parameters, rows, first_position=first_position)
    own = layer_bound(
        config, parameters, rows, PASS_PRECISION, first_position=first_position, expected=expected
    )
    theirs = own
    if precision != PASS_PRECISION:
        theirs = layer_bound(
            config, parameters, rows, precision, first_position=first_position, eager=eager, expected=expected
        )
    return tolerance(theirs, own)


def attention_tolerance(
    config: AttentionConfig, query: Any, key: Any, value: Any, precision: Precision, *, eager: bool = False
) -> AttentionBound:
    """The gate for an implementation of `precision` held against `attention_pass` of the same operands.

    The operands of both are the same and exact, so that only `output` and `weights` carry an error of ours.
    """
    own = attention_bound(config, query, key, value, PASS_PRECISION)
    theirs = own
    if precision != PASS_PRECISION:
        theirs = attention_bound(config, query, key, value, precision, eager=eager)
    return tolerance(theirs, own)
