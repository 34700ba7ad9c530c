"""The exact attention layer: the formulas at 50 digits, and the proof of what they round to.

    arithmetic   three ways of computing with real numbers: mpmath, mpmath intervals, FLINT balls
    layer        one full causal pass of a layer, written once for all of them
    rounding     from an exact number to a float64, to 40 digits, to printed places
    certificate  the proof that a decimal is the exact value rounded, from an enclosure of it

Nothing here changes mpmath's global precision, and nothing here is shared with the float64 layers.
"""

from __future__ import annotations

from reference_impl.exact.arithmetic import (
    Arithmetic,
    BallArithmetic,
    IntervalArithmetic,
    MpmathArithmetic,
)
from reference_impl.exact.certificate import Certified, Undecided, certify
from reference_impl.exact.layer import ExactLayer, LayerPass
from reference_impl.exact.rounding import as_fraction, decimal_string, fixed_point, nearest_float64

__all__ = [
    "Arithmetic",
    "BallArithmetic",
    "Certified",
    "ExactLayer",
    "IntervalArithmetic",
    "LayerPass",
    "MpmathArithmetic",
    "Undecided",
    "as_fraction",
    "certify",
    "decimal_string",
    "fixed_point",
    "nearest_float64",
]
