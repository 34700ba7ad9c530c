"""The condition of a golden sequence, and the bound where the promise of 1e-12 cannot be proved."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_CEILING, Context, Decimal

import numpy as np

from conformance.budget import layer_kappa
from conformance.golden_files.numbers import Tree
from conformance.golden_files.rules import Lanes, Matrix
from conformance.values import PARAMETERS, LayerConfig, LayerParameters

PROVABLE_KAPPA = 9007.0
"""Up to this condition 1e-12 is proved: it is 1e-12 over the unit roundoff of float64, 2**-53."""

FIELDS = ("output", "keys", "values", "weights")


def sequence_kappa(
    config: LayerConfig, parameters: Mapping[str, Matrix], rows: Lanes
) -> tuple[Tree, float]:
    """The condition of each field as the format writes it, and the largest of arithmetic plus angle.

    Each field has three numbers, arithmetic, storage and angle: the largest of its elements, rounded up to
    three significant digits.
    """
    weights = LayerParameters(**{name: _floats(parameters[name]) for name in PARAMETERS})
    kappa = layer_kappa(config, weights, _floats(rows))
    largest = {name: kappa.largest(name) for name in FIELDS}
    written = {name: " ".join(rounded_up(x, 3) for x in channels) for name, channels in largest.items()}
    return written, max(arithmetic + angle for arithmetic, _, angle in largest.values())


def rounded_up(value: float, digits: int) -> str:
    """`value`, not negative, up to the next number of `digits` significant digits.

    One part in 1e9 is taken for the noise of summation, so that every machine writes the same digits.
    """
    lowered = Decimal(value) * (1 - Decimal("1e-9"))
    figures = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(lowered).normalize()
    return f"{figures:f}" if not figures or figures > Decimal("1e-4") else f"{figures:e}"


def provable_bound(kappa: float) -> str | None:
    """The bound that is proved instead of 1e-12, or None where 1e-12 is."""
    return rounded_up(kappa * 2.0**-53, 2) if kappa > PROVABLE_KAPPA else None


def _floats(nested: Matrix | Lanes) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(nested, dtype=object).astype(np.float64)
