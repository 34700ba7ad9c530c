"""Expected values where a trace has none frozen, and how far a correct implementation may lie from them.

`layer_pass` and `attention_pass` compute the full prefix in float64 with NumPy alone; `layer_bound` and
`attention_bound` bound the rounding error of any correct implementation of a declared precision, element
by element; `tolerance` adds the error of the expected value itself. The derivation is `docs/error-bounds.md`.
"""

from conformance.budget.attend import DENSE_ROWS
from conformance.budget.bound import attention_bound, layer_bound
from conformance.budget.bounds import AttentionBound, LayerBound
from conformance.budget.condition import Kappa, layer_kappa
from conformance.budget.expected import attention_expected, layer_expected
from conformance.budget.forward import AttentionPass, LayerPass, attention_pass, layer_pass
from conformance.budget.tolerance import attention_tolerance, layer_tolerance, tolerance
from conformance.budget.units import Units, unit_roundoff

__all__ = [
    "DENSE_ROWS",
    "AttentionBound",
    "AttentionPass",
    "Kappa",
    "LayerBound",
    "LayerPass",
    "Units",
    "attention_bound",
    "attention_expected",
    "attention_pass",
    "attention_tolerance",
    "layer_bound",
    "layer_expected",
    "layer_kappa",
    "layer_pass",
    "layer_tolerance",
    "tolerance",
    "unit_roundoff",
]
