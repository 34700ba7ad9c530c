"""The formulas of a decoder block outside attention; the dtype of the operands is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def mean_square(rows: Array) -> Array:
    """Mean of the squares of each row, last axis kept with length 1."""
    squares: Array = np.mean(rows * rows, axis=-1, keepdims=True)
    return squares


def rms_norm(rows: Array, squares: Array, gain: Array, epsilon: float) -> Array:
    """RMSNorm of rows whose `mean_square` is `squares`: `x / sqrt(mean(x^2) + epsilon) * gain`."""
    return rows / np.sqrt(squares + epsilon) * gain


def silu(gate: Array) -> Array:
    """`x / (1 + exp(-x))`; where the exponential overflows, the quotient is the right limit, -0."""
    return gate / (1.0 + np.exp(-gate))
