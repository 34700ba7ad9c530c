"""Rounding to narrow dtypes that NumPy does not have."""

from __future__ import annotations

import numpy as np

from conformance.killers.open_state import Array


def to_bfloat16(given: Array) -> Array:
    """Rounded to 8 significant bits, ties to even, as float64; for numbers within the range of float32."""
    bits = given.astype(np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    made: Array = (rounded & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)
    return made
