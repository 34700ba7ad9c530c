"""How much one rounding costs, for every dtype that a precision profile can name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from conformance.adapter import Precision
from conformance.errors import AdapterError

Array = NDArray[np.float64]

_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}

# The smallest normal number, because an implementation may flush subnormal results to zero. Hardware does
# not do so in float16, whose normal range ends at 6e-5, so there the smallest subnormal is enough.
_UNDERFLOW = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-24, "bfloat16": 2.0**-126}


def unit_roundoff(dtype: str) -> float:
    """The largest relative error of one rounding to nearest. Raises AdapterError for an unknown name."""
    if dtype not in _ROUNDOFF:
        raise AdapterError(
            f"precision names the dtype {dtype!r}, for which no error bound is known; "
            f"known are {', '.join(_ROUNDOFF)}"
        )
    return _ROUNDOFF[dtype]


@dataclass(frozen=True)
class Units:
    """Relative cost of one rounding at each place, and the absolute cost of one underflow.

    arithmetic: sums and products. storage: what keeping a tensor adds (0 where storage is no coarser than
    arithmetic). softmax: exponentials and their sum. angle: frequencies, angles, cosines and sines.
    table: rounding cosines and sines to the arithmetic. cast: rounding scores to the softmax. eager:
    scores, scaled queries, cosines, sines and the products of the rotation are stored too.
    """

    arithmetic: float = 0.0
    storage: float = 0.0
    softmax: float = 0.0
    angle: float = 0.0
    table: float = 0.0
    cast: float = 0.0
    underflow: float = 0.0
    stored_underflow: float = 0.0
    eager: bool = False

    @classmethod
    def of(cls, precision: Precision, *, eager: bool = False) -> Units:
        """The units of a declared profile."""
        arithmetic, storage, softmax, angle = (
            unit_roundoff(dtype)
            for dtype in (precision.arithmetic, precision.storage, precision.softmax, precision.angles)
        )
        return cls(
            arithmetic=arithmetic,
            storage=storage if storage > arithmetic else 0.0,
            softmax=softmax,
            angle=angle,
            table=arithmetic if arithmetic > angle else 0.0,
            cast=softmax if softmax > arithmetic else 0.0,
            underflow=max(_UNDERFLOW[precision.arithmetic], _UNDERFLOW[precision.softmax]),
            stored_underflow=_UNDERFLOW[precision.storage] if storage > arithmetic else 0.0,
            eager=eager and storage > arithmetic,
        )

    @property
    def mixing(self) -> float:
        """Sums over positions run in the coarser of arithmetic and softmax: a fused kernel may do either."""
        return max(self.arithmetic, self.softmax)

    @property
    def intermediate(self) -> float:
        """What an eager implementation adds when it stores an intermediate tensor."""
        return self.storage if self.eager else 0.0

    def stored(self, error: Array, magnitude: Array) -> Array:
        """The error of a tensor of this magnitude once it has been stored."""
        if not self.storage:
            return error
        kept: Array = error + self.storage * (magnitude + error) + self.stored_underflow
        return kept


def accumulated(count: float, unit: float) -> float:
    """Relative error of `count` roundings, in whatever order and whether they multiply or divide.

    (1 - u)**-count - 1, which is at most the customary count*u / (1 - count*u) and needs no count*u < 1.
    """
    return float(np.expm1(-count * np.log1p(-unit)))


def accumulated_each(count: Array, unit: float) -> Array:
    """`accumulated` for an array of counts."""
    each: Array = np.expm1(-count * np.log1p(-unit))
    return each
