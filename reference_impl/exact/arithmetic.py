"""Three ways of computing with real numbers, behind one small set of operations.

`MpmathArithmetic` carries many digits and rounds; `IntervalArithmetic` and `BallArithmetic` carry a set that
is certain to hold the exact value. The formulas of a layer are written once and run on any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import Any, Protocol

from mpmath import MPContext, libmp
from mpmath.ctx_iv import MPIntervalContext

from reference_impl.exact.rounding import as_fraction

Number = Any
"""A number of one arithmetic; `+`, `-`, `*`, `/` between two of them work."""

DIGITS = 50
"""Decimal digits that the reference carries."""
PROOF_DIGITS = 80
"""Decimal digits of the enclosures: enough to fix 40 digits of a value near 1e-17 that cancelled."""


class Arithmetic(Protocol):
    """What the formulas need. `name` says in words what computes, for provenance."""

    @property
    def name(self) -> str: ...

    def working(self) -> AbstractContextManager[Any]:
        """A context in which the operations below, and those between numbers, have their precision."""

    def number(self, value: Any) -> Number:
        """An int, Fraction, finite float or mpf, exactly where the precision allows, enclosed otherwise."""

    def dot(self, left: Iterable[Number], right: Iterable[Number]) -> Number:
        """The sum of products."""

    def total(self, terms: Iterable[Number]) -> Number:
        """The sum."""

    def exp(self, x: Number) -> Number:
        """e to the x."""

    def root(self, n: int) -> Number:
        """The square root of a positive whole number."""

    def power(self, base: Number, exponent: Fraction) -> Number:
        """A positive base to a rational exponent."""

    def cos_sin(self, angle: Number) -> tuple[Number, Number]:
        """Cosine and sine of an angle in radians."""

    def ends(self, x: Number) -> tuple[Fraction, Fraction]:
        """The least and the largest value that x may stand for, as exact fractions."""


class MpmathArithmetic:
    """mpmath numbers of `digits` decimal digits; a sum of products rounds once."""

    def __init__(self, digits: int = DIGITS) -> None:
        # A context of its own: nobody else's precision changes, and nobody changes this one.
        self._mp = MPContext()
        self._mp.dps = digits
        self.digits = digits
        self.name = f"mpmath, {digits} digits"

    def working(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def number(self, value: Any) -> Number:
        if isinstance(value, (int, float)):
            return self._mp.mpf(value)
        exact = as_fraction(value)
        return self._mp.mpf(exact.numerator) / exact.denominator

    def dot(self, left: Iterable[Number], right: Iterable[Number]) -> Number:
        return self._mp.fdot(left, right)

    def total(self, terms: Iterable[Number]) -> Number:
        return self._mp.fsum(terms)

    def exp(self, x: Number) -> Number:
        return self._mp.exp(x)

    def root(self, n: int) -> Number:
        return self._mp.sqrt(n)

    def power(self, base: Number, exponent: Fraction) -> Number:
        return self._mp.power(base, self.number(exponent))

    def cos_sin(self, angle: Number) -> tuple[Number, Number]:
        cosine, sine = self._mp.cos_sin(angle)
        return cosine, sine

    def ends(self, x: Number) -> tuple[Fraction, Fraction]:
        return (exact := as_fraction(x)), exact


class IntervalArithmetic:
    """mpmath intervals with ends of `digits` decimal digits, rounded outwards."""

    def __init__(self, digits: int = PROOF_DIGITS) -> None:
        self._iv = MPIntervalContext()
        self._iv.dps = digits
        self.digits = digits
        self.name = f"mpmath.iv, {digits} digits"

    def working(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def number(self, value: Any) -> Number:
        exact = as_fraction(value)
        return self._iv.mpf(exact.numerator) / self._iv.mpf(exact.denominator)

    def dot(self, left: Iterable[Number], right: Iterable[Number]) -> Number:
        return self.total(a * b for a, b in zip(left, right, strict=True))

    def total(self, terms: Iterable[Number]) -> Number:
        return sum(terms, start=self._iv.mpf(0))

    def exp(self, x: Number) -> Number:
        return self._iv.exp(x)

    def root(self, n: int) -> Number:
        return self._iv.sqrt(self._iv.mpf(n))

    def power(self, base: Number, exponent: Fraction) -> Number:
        return base ** self.number(exponent)

    def cos_sin(self, angle: Number) -> tuple[Number, Number]:
        return self._iv.cos(angle), self._iv.sin(angle)

    def ends(self, x: Number) -> tuple[Fraction, Fraction]:
        low, high = (libmp.to_rational(end) for end in x._mpi_)
        return Fraction(*map(int, low)), Fraction(*map(int, high))


class BallArithmetic:
    """FLINT balls (python-flint's `arb`) of `digits` decimal digits: a middle and a radius.

    Raises ImportError, with what to install, where python-flint is missing.
    """

    def __init__(self, digits: int = PROOF_DIGITS) -> None:
        try:
            import flint  # noqa: PLC0415 - an extra: only this class needs it
        except ImportError as missing:
            raise ImportError(
                "ball arithmetic needs python-flint; install it with: pip install 'kv-conformance[rigorous]'"
            ) from missing
        self._flint = flint
        self._bits = libmp.dps_to_prec(digits)
        self.digits = digits
        self.name = f"python-flint {flint.__version__} arb, {digits} digits"

    def working(self) -> AbstractContextManager[Any]:
        # FLINT's precision is global, so it is borrowed for the pass and given back.
        context: AbstractContextManager[Any] = self._flint.ctx.workprec(self._bits)
        return context

    def number(self, value: Any) -> Number:
        exact = as_fraction(value)
        return self._flint.arb(self._flint.fmpq(exact.numerator, exact.denominator))

    def dot(self, left: Iterable[Number], right: Iterable[Number]) -> Number:
        return self.total(a * b for a, b in zip(left, right, strict=True))

    def total(self, terms: Iterable[Number]) -> Number:
        return sum(terms, start=self._flint.arb(0))

    def exp(self, x: Number) -> Number:
        return x.exp()

    def root(self, n: int) -> Number:
        return self._flint.arb(n).sqrt()

    def power(self, base: Number, exponent: Fraction) -> Number:
        return base ** self.number(exponent)

    def cos_sin(self, angle: Number) -> tuple[Number, Number]:
        sine, cosine = angle.sin_cos()
        return cosine, sine

    def ends(self, x: Number) -> tuple[Fraction, Fraction]:
        middle, radius = _dyadic(x.mid().man_exp()), _dyadic(x.rad().man_exp())
        return middle - radius, middle + radius


def _dyadic(mantissa_exponent: Sequence[Any]) -> Fraction:
    mantissa, exponent = (int(part) for part in mantissa_exponent)
    return Fraction(mantissa) * (Fraction(2**exponent) if exponent >= 0 else Fraction(1, 2**-exponent))
