"""Where a calculation stands, so that whatever goes wrong is reported with the stage that met it."""

from __future__ import annotations

from math import isfinite

import numpy as np

from reference_impl.layer.memory import Array, element_count
from reference_impl.layer_errors import (
    AllocationFailedError,
    CacheError,
    NonFiniteError,
    StepError,
)

STAGES = (
    "query", "key", "value",
    "query_heads", "key_heads", "value_heads",
    "rotated_query", "rotated_key",
    "score", "softmax", "heads", "merged", "output",
    "candidate_key", "candidate_value",
)  # fmt: skip
"""Every stage of a step, in its order; the first three are the projections."""


def first_non_finite(array: Array) -> int | None:
    """The flat row-major index of the first NaN or infinity, or None.

    Exact. A finite sum of squares has only finite terms, which settles nearly every call in one pass
    without a temporary; only a sum that overflows or is poisoned is looked at element by element. To be
    called under `np.errstate(all="ignore")`, because the sum may overflow.
    """
    flat = array.ravel()
    if isfinite(flat.dot(flat)):
        return None
    finite = np.isfinite(array)
    return None if finite.all() else int(finite.argmin())


class Stages:
    """A cursor over the stages of one calculation; every refusal leaves as StepError with the stage's name.

    name: the stage that is being computed. every: whether numbers are also checked whose failure a later
    check cannot miss. A first run leaves those out, which keeps small work from between the large reads of
    a step; whoever is refused runs the calculation again with `every`, to learn which stage was the first.
    That is sound because nothing is written before the end.
    """

    __slots__ = ("elements", "every", "name")

    def __init__(self, *, every: bool = True) -> None:
        self.every, self.name, self.elements = every, "", 0

    def enter(self, name: str, elements: int) -> None:
        """The next stage begins; its result has so many elements."""
        self.name, self.elements = name, elements

    def finite(self, array: Array) -> Array:
        """The array itself. Raises StepError(NonFiniteError) for its first number that is not finite."""
        flat = array.ravel()
        if not isfinite(flat.dot(flat)):  # the short cut of first_non_finite, a call less
            index = first_non_finite(array)
            if index is not None:
                raise self.failed(NonFiniteError(index, float(flat[index])))
        return array

    def count(self, *factors: int) -> int:
        """`element_count`, refused as StepError."""
        try:
            return element_count(*factors)
        except CacheError as cause:
            raise self.failed(cause) from cause

    def allocate(self, shape: tuple[int, ...]) -> Array:
        """Memory of this shape, not filled; refused as StepError."""
        try:
            return np.empty(shape)
        except (MemoryError, ValueError):  # ValueError: more bytes than an array can have
            refusal = self.out_of_memory()
            raise refusal from refusal.cause

    def failed(self, cause: CacheError) -> StepError:
        """The refusal that this stage reports."""
        return StepError(self.name, cause)

    def out_of_memory(self) -> StepError:
        """The refusal for a stage whose result could not be had."""
        return self.failed(AllocationFailedError(self.elements))
