"""One full causal pass of an attention layer, straight from the formulas, without a cache.

    q, k, v = x W_Q, x W_K, x W_V     split into H query heads and G key/value heads of width d
    q', k'  = q, k turned at their positions: pair i by the angle  p * base**(-2i/d)
    s_tj    = q'_t . k'_j / sqrt(d)   for j <= t, query head h against key/value head h // (H/G)
    o_t     = sum_j exp(s_tj) v_j / sum_j exp(s_tj)
    y_t     = concat(o_t) W_O

Source: System 1, One step; Vaswani et al. 2017, section 3.2; Su et al. 2021 (rotary positions); Ainslie et
al. 2023 (grouped queries).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from reference_impl.exact.arithmetic import Arithmetic, MpmathArithmetic, Number

Row = list[Number]
Rows = list[Row]
Heads = list[Rows]


class RopeSettings(Protocol):
    """Rotary positions 0 to max_positions - 1; pairing is "adjacent" (2i, 2i+1) or "half" (i, i + d/2)."""

    @property
    def base(self) -> float: ...
    @property
    def pairing(self) -> str: ...
    @property
    def max_positions(self) -> int: ...


class LayerSettings(Protocol):
    """The geometry that the pass reads; any object with these attributes will do."""

    @property
    def model_width(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...
    @property
    def head_width(self) -> int: ...
    @property
    def rope(self) -> RopeSettings: ...


class LayerWeights(Protocol):
    """query [D, H*d], key and value [D, G*d], output [H*d, D], as nested sequences or arrays."""

    @property
    def query(self) -> Any: ...
    @property
    def key(self) -> Any: ...
    @property
    def value(self) -> Any: ...
    @property
    def output(self) -> Any: ...


@dataclass(frozen=True)
class LayerPass:
    """Everything that a pass over rows [B, T, D] computes, as nested lists of numbers of one arithmetic.

    Fields of queries hold the rows from `first` on (n = T - first of them): query, rotated_query and heads
    [B][H][n][d]; scores and weights [B][H][n][t + 1], the causal triangle only; merged [B][n][H*d]; output
    [B][n][D]. Fields of keys and values hold all rows: key, rotated_key (what a cache keeps as keys) and
    value [B][G][T][d].
    """

    first: int
    query: list[Heads]
    key: list[Heads]
    value: list[Heads]
    rotated_query: list[Heads]
    rotated_key: list[Heads]
    scores: list[Heads]
    weights: list[Heads]
    heads: list[Heads]
    merged: list[Rows]
    output: list[Rows]


class ExactLayer:
    """A layer whose numbers are exact; `run` makes one pass, each lane by itself.

    Numbers are taken as they stand: ints, Fractions, floats by their binary value, mpf. Raises ValueError
    where the weights do not have the shapes that the geometry says, or the geometry makes no layer.
    """

    def __init__(
        self, config: LayerSettings, weights: LayerWeights, *, arithmetic: Arithmetic | None = None
    ) -> None:
        _require_geometry(config)
        self.config = config
        self.arithmetic = arithmetic or MpmathArithmetic()
        inner, outer = config.heads * config.head_width, config.kv_heads * config.head_width
        with self.arithmetic.working():
            self._query = self._columns("query", weights.query, config.model_width, inner)
            self._key = self._columns("key", weights.key, config.model_width, outer)
            self._value = self._columns("value", weights.value, config.model_width, outer)
            self._output = self._columns("output", weights.output, inner, config.model_width)
            self._scale = self.arithmetic.number(1) / self.arithmetic.root(config.head_width)
            self._frequencies = self._all_frequencies()

    def run(self, rows: Any, *, first: int = 0) -> LayerPass:
        """The pass over rows [B, T, D] at positions 0 to T - 1, queries from row `first` on.

        Raises ValueError where a row has another width than the layer, or T exceeds the positions.
        """
        lanes = _plain(rows)
        for b, lane in enumerate(lanes):
            self._require_rows(b, lane)
        with self.arithmetic.working():
            found = [self._lane(lane, first) for lane in lanes]
        return LayerPass(first, *([list(field) for field in zip(*found, strict=True)] or [[]] * 10))

    def _require_rows(self, lane: int, rows: Sequence[Sequence[Any]]) -> None:
        positions, width = self.config.rope.max_positions, self.config.model_width
        if len(rows) > positions:
            raise ValueError(f"lane {lane} has {len(rows)} rows; the layer has {positions} positions")
        for position, row in enumerate(rows):
            if len(row) != width:
                raise ValueError(f"lane {lane}, row {position}: {len(row)} numbers; the layer takes {width}")

    def _lane(self, lane: Sequence[Sequence[Any]], first: int) -> tuple[Any, ...]:
        config = self.config
        rows = [[self.arithmetic.number(x) for x in row] for row in lane]
        query = self._split(self._project(rows[first:], self._query), config.heads)
        key = self._split(self._project(rows, self._key), config.kv_heads)
        value = self._split(self._project(rows, self._value), config.kv_heads)
        rotated_query = [self._rotate(head, first) for head in query]
        rotated_key = [self._rotate(head, 0) for head in key]
        group = config.heads // config.kv_heads
        scores, weights, heads = [], [], []
        for h in range(config.heads):
            head_scores, head_weights, mixed = self._attend(
                rotated_query[h], rotated_key[h // group], value[h // group], first
            )
            scores.append(head_scores)
            weights.append(head_weights)
            heads.append(mixed)
        merged = [[x for head in heads for x in head[t]] for t in range(len(rows) - first)]
        output = self._project(merged, self._output)
        return query, key, value, rotated_query, rotated_key, scores, weights, heads, merged, output

    def _project(self, rows: Rows, columns: Rows) -> Rows:
        return [[self.arithmetic.dot(row, column) for column in columns] for row in rows]

    def _split(self, rows: Rows, heads: int) -> Heads:
        width = self.config.head_width
        return [[row[h * width : (h + 1) * width] for row in rows] for h in range(heads)]

    def _rotate(self, rows: Rows, first: int) -> Rows:
        return [self._turn(row, position) for position, row in enumerate(rows, start=first)]

    def _turn(self, row: Row, position: int) -> Row:
        if position == 0:
            return list(row)  # a turn by no angle is exact, also where sines and cosines are enclosures
        half = self.config.head_width // 2
        turned = list(row)
        for i, frequency in enumerate(self._frequencies):
            left, right = (2 * i, 2 * i + 1) if self.config.rope.pairing == "adjacent" else (i, i + half)
            cosine, sine = self.arithmetic.cos_sin(self.arithmetic.number(position) * frequency)
            turned[left] = row[left] * cosine - row[right] * sine
            turned[right] = row[left] * sine + row[right] * cosine
        return turned

    def _attend(self, queries: Rows, keys: Rows, values: Rows, first: int) -> tuple[Rows, Rows, Rows]:
        """Scores, weights and mixed values of one head; the query at position t reads rows 0 to t."""
        arithmetic, columns = self.arithmetic, [list(column) for column in zip(*values, strict=True)]
        scores, weights, mixed = [], [], []
        for t, query in enumerate(queries, start=first):
            row = [arithmetic.dot(query, key) * self._scale for key in keys[: t + 1]]
            # A single row has the weight 1 whatever its score, and exactly. Exponents may have any size
            # in these arithmetics, so no maximum need be taken off.
            shares = [arithmetic.exp(score) for score in row] if t else [arithmetic.number(1)]
            total = arithmetic.total(shares)
            scores.append(row)
            weights.append([share / total for share in shares])
            mixed.append([arithmetic.dot(shares, column[: t + 1]) / total for column in columns])
        return scores, weights, mixed

    def _all_frequencies(self) -> Row:
        width, base = self.config.head_width, self.arithmetic.number(self.config.rope.base)
        slower = [self.arithmetic.power(base, Fraction(-2 * i, width)) for i in range(1, width // 2)]
        return [self.arithmetic.number(1), *slower]

    def _columns(self, name: str, matrix: Any, height: int, width: int) -> Rows:
        rows = _plain(matrix)
        if len(rows) != height or any(len(row) != width for row in rows):
            found = f"{len(rows)} rows of {sorted({len(row) for row in rows})} numbers"
            raise ValueError(f"the {name} weights must be [{height}, {width}]; they have {found}")
        return [[self.arithmetic.number(x) for x in column] for column in zip(*rows, strict=True)]


def _require_geometry(config: LayerSettings) -> None:
    heads, groups, width = config.heads, config.kv_heads, config.head_width
    if heads < 1 or groups < 1 or heads % groups:
        raise ValueError(f"{groups} key/value heads do not divide {heads} query heads")
    if width < 2 or width % 2:
        raise ValueError(f"head width {width} has no whole number of rotary pairs")
    if config.rope.pairing not in ("adjacent", "half"):
        raise ValueError(f"pairing {config.rope.pairing!r} is neither 'adjacent' nor 'half'")


def _plain(numbers: Any) -> Any:
    return numbers.tolist() if hasattr(numbers, "tolist") else numbers
