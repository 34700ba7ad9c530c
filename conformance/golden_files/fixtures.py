"""The golden fixtures: a layer, its rows and a chunk schedule, each made by a rule and for a purpose.

Every fixture has two sequences: `first`, and the shorter `second` of other rows, which is appended after a
reset. Together they kill what the figures of the published example cannot show: see docs/golden-files.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from conformance.golden_files.rules import (
    Lanes,
    Matrix,
    identity,
    lanes,
    matrix,
    modular_matrix,
    modular_rows,
    padded,
    sparse,
)
from conformance.values import LayerConfig, Pairing, RopeConfig


@dataclass(frozen=True)
class Rows:
    """Input rows [B, T, D] and how the schedule `chunked` cuts them: the chunks sum to T."""

    lanes: Lanes
    chunks: tuple[int, ...]

    @property
    def count(self) -> int:
        """T, the rows of each lane."""
        return len(self.lanes[0])


@dataclass(frozen=True)
class Fixture:
    """One golden file before it is computed. `rule` says how to make the inputs again by hand."""

    id: str
    about: str
    rule: str
    config: LayerConfig
    parameters: Mapping[str, Matrix]
    capacity: int
    first: Rows
    second: Rows


def modular(
    name: str, about: str, *, heads: int, kv_heads: int, head_width: int, batch: int, capacity: int,
    chunks: tuple[int, ...], then: tuple[int, ...], pairing: Pairing = "adjacent",
) -> Fixture:
    """Generic rows and weights, every entry k/8 with |k| at most 6; model width is heads * head width."""
    inner, outer = heads * head_width, kv_heads * head_width
    return Fixture(
        id=name,
        about=about,
        rule="W(a,b,s)[i,j] = (((a i + b j + s + i j) mod 11) - 5)/8; query W(3,5,1), key W(7,2,4), value "
        "W(2,9,3), output W(5,3,6); x[b,t,i] = (((5b + 7t + 3i + 2ti + b t^2) mod 13) - 6)/8, z the same "
        "with 5 added before the mod",
        config=LayerConfig(inner, heads, kv_heads, head_width, RopeConfig(100.0, pairing, 16)),
        parameters={
            "query": modular_matrix(inner, inner, a=3, b=5, s=1),
            "key": modular_matrix(inner, outer, a=7, b=2, s=4),
            "value": modular_matrix(inner, outer, a=2, b=9, s=3),
            "output": modular_matrix(inner, inner, a=5, b=3, s=6),
        },
        capacity=capacity,
        first=Rows(modular_rows(batch, sum(chunks), inner), chunks),
        second=Rows(modular_rows(batch, sum(then), inner, shift=5), then),
    )


def extreme() -> Fixture:
    """Winner takes all: scores differ by 1024 or more, so an output row is the value row at the maximum."""
    first = ((1, 2, 3), (-3, -1, 5), (2, 5, 7), (-1, -2, 11), (4, 4, 13), (-5, -3, 17))
    second = ((-2, 1, 19), (3, -4, 23), (1, -1, 29), (5, 2, 31))

    def rows(triples: tuple[tuple[int, int, int], ...]) -> Lanes:
        return lanes(1, len(triples), 8, lambda _, t, i: (1, *triples[t], 0, 0, 0, 0)[i])

    value = ((3, 0, 1), (3, 1, -1), (2, 2, 1), (1, 3, 1), (3, 4, 2), (2, 5, 1), (1, 6, 1), (3, 7, 1))
    return Fixture(
        id="extreme",
        about="Scores up to 30000 apart: an output row is the value row at the running maximum (head 0) or "
        "minimum (head 1). Finds exponentials that overflow, masks of -10000, a maximum over the wrong axis.",
        rule="x[t] = (1, a, b, c, 0, 0, 0, 0); head 0 scores 1024 a_j, head 1 scores -1024 (24 + b_j), both "
        "on the slow pair of base 2^40; values are c, -c, b, a and 2c, b, a, c",
        config=LayerConfig(8, 2, 2, 4, RopeConfig(2.0**40, "adjacent", 16)),
        parameters={
            "query": sparse(8, 8, [(0, 2, 64), (0, 6, -64)]),
            "key": sparse(8, 8, [(1, 2, 32), (2, 6, 32), (0, 6, 32 * 24)]),
            "value": sparse(8, 8, value),
            "output": matrix(8, 8, lambda i, j: i == (j + 1) % 8),
        },
        capacity=8,
        first=Rows(rows(first), (1, 1, 1, 2, 1)),
        second=Rows(rows(second), (1, 2, 1)),
    )


def mean() -> Fixture:
    """Query weights of zero: an output is the running mean of the values, a + b t for values a + 2 b t."""
    def progression(start: int, lane: int, sign: int, steps: int, quarter: int) -> Lanes:
        def entry(b: int, t: int, i: int) -> Fraction:
            if i >= 4:
                return Fraction(0)
            first = (start + i + lane * b) * (1 + Fraction(1, 2**30))
            return first + 2 * Fraction(sign * (-1) ** i * (1 + b), quarter) * t

        return lanes(2, steps, 8, entry)

    return Fixture(
        id="mean",
        about="Query weights are zero, so every weight is 1/n and every output is rational: the running "
        "mean, exactly. Finds faults of values, mask, groups and merge alone, and rows kept in float32.",
        rule="x[b,t,i] = (1 + i + 8b)(1 + 2^-30) + 2t (-1)^i (1 + b)/4 for i < 4, z = (3 + i + 4b)"
        "(1 + 2^-30) - 2t (-1)^i (1 + b)/8, zero beyond; key W(3,5,1), value the identity, output row i has "
        "2^(i mod 4 - 1) in column 3i + 1 mod 8",
        config=LayerConfig(8, 4, 2, 2, RopeConfig(100.0, "adjacent", 16)),
        parameters={
            "query": matrix(8, 8, lambda _i, _j: 0),
            "key": padded(modular_matrix(4, 4, a=3, b=5, s=1), 8),
            "value": padded(identity(4), 8),
            "output": matrix(8, 8, lambda i, j: Fraction(2) ** (i % 4 - 1) if j == (3 * i + 1) % 8 else 0),
        },
        capacity=9,
        first=Rows(progression(1, 8, 1, 8, 4), (1, 2, 1, 3, 1)),
        second=Rows(progression(3, 4, -1, 5, 8), (2, 1, 2)),
    )


def weights() -> Fixture:
    """Constant content and one-hot values: an output row is the attention weights themselves."""
    def rows(content: Fraction, start: int, count: int) -> Lanes:
        def entry(_: int, t: int, i: int) -> Fraction | int:
            return content if i == 0 else int(i == 1 + (start + t) % 8)

        return lanes(1, count, 16, entry)

    query = [(0, 8 * h + 2 * i, 2 * (i + 1)) for h in range(2) for i in range(4)]
    key = [(0, 8 * h + 2 * i + h, Fraction(1 + i % 2, 2)) for h in range(2) for i in range(4)]
    value = [(1 + t, 8 * h + t, 1) for h in range(2) for t in range(8)]
    return Fixture(
        id="weights",
        about="An output row is the softmax of sum_i a_i cos((t-j) 16^-i)/sqrt(8) in head 0 and of the same "
        "with sine in head 1, a = (1, 4, 3, 8). Finds faults of rotation, its sign, and the score scale.",
        rule="x[t] = (1, one-hot of t), z[t] = (1/2, one-hot of t + 3 mod 8), padded to 16; query a row of "
        "2(i + 1), key a row of (1 + i mod 2)/2 on first (head 0) or second (head 1) features of the pairs",
        config=LayerConfig(16, 2, 2, 8, RopeConfig(65536.0, "adjacent", 16)),
        parameters={
            "query": sparse(16, 16, query),
            "key": sparse(16, 16, key),
            "value": sparse(16, 16, value),
            "output": identity(16),
        },
        capacity=9,
        first=Rows(rows(Fraction(1), 0, 8), (1, 1, 2, 1, 3)),
        second=Rows(rows(Fraction(1, 2), 3, 5), (3, 2)),
    )


def derived() -> tuple[Fixture, ...]:
    """Every fixture of golden/derived, in the order of their names."""
    grouped = "Grouped queries, two lanes, three rotary frequencies, no slot to spare: most faults show."
    found = (
        modular("mod-gqa-adjacent", f"{grouped} Features (2i, 2i+1) are paired.",
                heads=4, kv_heads=2, head_width=6, batch=2, capacity=7, chunks=(2, 1, 3, 1), then=(1, 3, 1)),
        modular("mod-gqa-half", f"{grouped} Features (i, i + d/2) are paired.",
                heads=4, kv_heads=2, head_width=6, batch=2, capacity=7, chunks=(2, 1, 3, 1), then=(1, 3, 1),
                pairing="half"),
        modular("mod-gqa6", "Six query heads on three key/value heads, three lanes: tells repeated heads "
                "from tiled ones, and any order of heads from any other.",
                heads=6, kv_heads=3, head_width=4, batch=3, capacity=5, chunks=(1, 3, 1), then=(2, 1)),
        modular("mod-mqa", "Multi-query: three query heads share one key/value head.",
                heads=3, kv_heads=1, head_width=4, batch=2, capacity=6, chunks=(3, 1, 2), then=(1, 2)),
        modular("mod-square", "As many key/value heads as query heads, square unsymmetric weights, one lane: "
                "for implementations that know no groups and take one row at a time.",
                heads=2, kv_heads=2, head_width=4, batch=1, capacity=7, chunks=(3, 2), then=(1, 2)),
        extreme(),
        mean(),
        weights(),
    )
    return tuple(sorted(found, key=lambda fixture: fixture.id))
