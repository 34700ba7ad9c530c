"""The stages of a decoder outside attention: each takes values with their errors and gives them onward.

Every stage holds for any order of its sums and for the customary forms of its formula; the derivation is
`docs/error-bounds-decoder.md`.
"""

from __future__ import annotations

import numpy as np

from conformance.budget.score_bound import Operand
from conformance.budget.units import Array, Units, accumulated

_STEEPEST_SILU = 1.1
"""No less than the largest slope of x / (1 + exp(-x)), which is 1.0998 at x = 2.4."""


def exact(values: Array) -> Operand:
    """Values that carry no error: parameters as they were handed in."""
    return Operand(values, np.zeros_like(values))


def kept(values: Array, error: Array, units: Units) -> Operand:
    """The operand once it has been stored."""
    return Operand(values, units.stored(error, np.abs(values)))


def linear(rows: Operand, weight: Array, bias: Array | None, units: Units) -> Operand:
    """`x @ W`, plus a bias where there is one; rows [...,in] to [...,out]."""
    terms = weight.shape[0] + (bias is not None)
    lift = accumulated(terms, units.arithmetic)
    error = (rows.error + lift * rows.reach) @ np.abs(weight) + 2.0 * terms * units.underflow
    product = rows.exact @ weight
    if bias is None:
        return kept(product, error, units)
    # The product may be stored before the bias is added, and the bias may stand anywhere in the sum.
    error = units.stored(error, np.abs(product)) + lift * (np.abs(bias) + np.abs(product) + error)
    return kept(product + bias, error, units)


def added(left: Operand, right: Operand, units: Units) -> Operand:
    """A residual, or a position added to an embedding."""
    total, carried = left.exact + right.exact, left.error + right.error
    return kept(total, carried + units.arithmetic * (np.abs(total) + carried), units)


def rms_norm(rows: Operand, gain: Array, epsilon: float, units: Units) -> Operand:
    """`x / sqrt(mean(x^2) + epsilon) * gain`.

    Errors of the row move its mean square; that moves all features of the row by one relative error. However
    wrong the row, no feature leaves sqrt(D) times its gain.
    """
    width = rows.exact.shape[-1]
    size, carried = np.abs(rows.exact), rows.error
    square = np.mean(rows.exact * rows.exact, axis=-1, keepdims=True) + epsilon
    moved = np.mean(carried * (2.0 * size + carried), axis=-1, keepdims=True)
    moved = moved + accumulated(width + 6.0, units.arithmetic) * (square + moved) + width * units.underflow
    relative = _of_inverse_root(moved / square)
    scale = np.abs(gain) / np.sqrt(square)
    normed = rows.exact / np.sqrt(square) * gain
    error = scale * (carried * (1.0 + relative) + size * relative)
    reach = (1.0 + accumulated(width + 6.0, units.arithmetic)) * np.sqrt(width) * np.abs(gain)
    error = np.fmin(error, np.abs(normed) + reach)
    # Root, quotient and two products; the normed row may be stored before its gain.
    error = error + (accumulated(8.0, units.arithmetic) + units.storage) * (np.abs(normed) + error)
    error = error + 4.0 * (1.0 + np.abs(gain) + scale) * (units.underflow + units.stored_underflow)
    return kept(normed, error, units)


def _of_inverse_root(relative: Array) -> Array:
    """How far 1/sqrt(s) moves, relatively, when s moves by `relative`; infinite where s may vanish."""
    left = 1.0 - relative
    moved: Array = np.where(left > 0.0, 1.0 / np.sqrt(np.where(left > 0.0, left, 1.0)) - 1.0, np.inf)
    return moved


def gated(gate: Operand, up: Operand, units: Units) -> Operand:
    """SwiGLU's hidden row, `silu(gate) * up` with silu(x) = x / (1 + exp(-x))."""
    activated = gate.exact / (1.0 + np.exp(-gate.exact))
    error = _STEEPEST_SILU * gate.error
    # Quotient or product with a sigmoid; the last term is a sigmoid taken from a hyperbolic tangent, whose
    # error is absolute.
    error = error + accumulated(8.0, units.arithmetic) * (np.abs(activated) + error)
    error = units.stored(error + 2.0 * units.arithmetic * gate.reach + units.underflow, np.abs(activated))
    silu = Operand(activated, error)
    product = silu.exact * up.exact
    moved = silu.error * up.reach + silu.magnitude * up.error
    moved = moved + units.arithmetic * (np.abs(product) + moved) + units.underflow * (1.0 + up.reach)
    return kept(product, moved, units)
