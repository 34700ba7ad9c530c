"""Exact values as decimals that are proved to round to the right float64, whatever computes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath

from conformance.errors import ConformanceError
from conformance.golden_files.numbers import Tree
from reference_impl.exact import (
    Arithmetic,
    BallArithmetic,
    Certified,
    IntervalArithmetic,
    MpmathArithmetic,
    Undecided,
    certify,
    nearest_float64,
)

PROOFS: Mapping[str, Callable[[int], Arithmetic]] = {"interval": IntervalArithmetic, "ball": BallArithmetic}
"""The arithmetics that can prove a golden value, by the name under which they are asked for."""

Rows = Mapping[str, list[list[Any]]]
"""Arrays by name, each as the rows of its last axis, in numbers of one arithmetic."""

_PRECISIONS = (80, 120, 200, 320)
"""Digits of the enclosures, in the order in which they are tried: cancelled values need more."""


@dataclass(frozen=True)
class Proved:
    """Decimals of every array, row by row, and what computed and proved them.

    count: how many numbers. radius: the largest half width of an enclosure, 0 where all were points.
    """

    decimals: Mapping[str, list[list[str]]]
    certificate: str
    oracle: str
    count: int
    radius: Fraction

    @property
    def provenance(self) -> Tree:
        """The same as a golden file says it; versions of tools are informative."""
        return {
            "oracle": f"{self.oracle} (mpmath {mpmath.__version__})",
            "certificate": self.certificate,
            "radius_log2": str(math.ceil(math.log2(self.radius))) if self.radius else "points",
        }


def prove(run: Callable[[Arithmetic], Rows], *, proof: str, where: str) -> Proved:
    """Run a computation in enclosures and prove every decimal; `where` names it in messages.

    Raises ConformanceError where a value stays undecided at every precision (it lies on a rounding
    boundary, or is an irrational zero: another input must be chosen), or where mpmath at its usual digits
    rounds to another float64 than the one proved.
    """
    undecided = ""
    for digits in _PRECISIONS:
        arithmetic = PROOFS[proof](digits)
        enclosed = run(arithmetic)
        enclosures = {
            name: [[arithmetic.ends(x) for x in row] for row in rows] for name, rows in enclosed.items()
        }
        try:
            certified = {name: _certified(rows, f"{where}, {name}") for name, rows in enclosures.items()}
        except Undecided as reason:
            undecided = str(reason)
            continue
        oracle = MpmathArithmetic()
        _require_same_float64(certified, run(oracle), where)
        ends = [pair for rows in enclosures.values() for row in rows for pair in row]
        return Proved(
            decimals={
                name: [[number.decimal for number in row] for row in rows] for name, rows in certified.items()
            },
            certificate=arithmetic.name,
            oracle=oracle.name,
            count=len(ends),
            radius=max((high - low) / 2 for low, high in ends),
        )
    raise ConformanceError(
        f"{undecided} (at {_PRECISIONS[-1]} digits); it cannot stand in a golden file, so change the inputs"
    )


def _certified(rows: list[list[tuple[Fraction, Fraction]]], where: str) -> list[list[Certified]]:
    found = []
    for index, row in enumerate(rows):
        try:
            found.append([certify(low, high) for low, high in row])
        except Undecided as reason:
            raise Undecided(f"{where}, row {index}: {reason}") from None
    return found


def _require_same_float64(certified: Mapping[str, list[list[Certified]]], oracle: Rows, where: str) -> None:
    for name, rows in certified.items():
        for index, (proved, computed) in enumerate(zip(rows, oracle[name], strict=True)):
            for one, other in zip(proved, computed, strict=True):
                if one.float64 != nearest_float64(other):
                    raise ConformanceError(
                        f"{where}, {name}, row {index}: {one.decimal} is proved, but mpmath gives {other}; "
                        f"one of the two arithmetics is wrong"
                    )
