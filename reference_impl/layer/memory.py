"""Element counts and memory: both can be refused, and neither refusal may come from somewhere deep inside."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.typing import NDArray

from reference_impl.layer_errors import AllocationFailedError, ElementCountOverflowError

Array = NDArray[np.float64]
MAX_ELEMENTS = 2**63 - 1


def element_count(*factors: int) -> int:
    """The product of the factors. Raises ElementCountOverflowError, which carries them, above 2**63 - 1."""
    product = prod(factors)
    if product > MAX_ELEMENTS:
        raise ElementCountOverflowError(factors)
    return product


def allocate(shape: tuple[int, ...], *, zeroed: bool = True) -> Array:
    """A new row-major float64 array, +0.0 everywhere or (`zeroed=False`) for the caller to fill.

    Raises AllocationFailedError, which carries the element count, where memory cannot be had.
    """
    try:
        return np.zeros(shape) if zeroed else np.empty(shape)
    except (MemoryError, ValueError) as error:  # ValueError: more bytes than an array can have
        raise AllocationFailedError(prod(shape)) from error


def read_only(array: Array) -> Array:
    """The same memory, through a view whose write flag cannot be turned on."""
    return np.asarray(array.data.toreadonly())
