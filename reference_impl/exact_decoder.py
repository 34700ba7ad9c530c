"""The exact decoder: tokens to logits at 50 digits, straight from the formulas, without a cache.

One call makes one full causal pass over one lane. Row t of it is what a pass over the first t + 1 tokens
ends with, because no row reads a later one; so one pass holds the logits of every prefix. Written once for
every arithmetic of `reference_impl.exact`, and shares no code with the NumPy decoders.
Source: System 3, chapter 38.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from reference_impl.exact.arithmetic import Arithmetic, MpmathArithmetic, Number
from reference_impl.exact.layer import LayerSettings

Row = list[Number]
Rows = list[Row]


class DecoderSettings(Protocol):
    """The decoder geometry that the exact decoder reads; any object with these attributes will do."""

    @property
    def vocabulary(self) -> int: ...
    @property
    def layers(self) -> int: ...
    @property
    def layer(self) -> LayerSettings: ...
    @property
    def norm_epsilon(self) -> float: ...
    @property
    def positions(self) -> str: ...
    @property
    def tied(self) -> bool: ...
    @property
    def biases(self) -> bool: ...


@dataclass(frozen=True)
class ExactPass:
    """One lane of n tokens, exact to about 50 digits.

    logits[t][v]: logits after token t, that is those of the prefix of length t + 1.
    keys[layer][g][t][i] and values[layer][g][t][i]: what a cache holds after n tokens: keys rotated (as
    projected where positions come from a learned table), values as projected.
    """

    logits: list[Row]
    keys: list[list[Rows]]
    values: list[list[Rows]]


def exact_pass(
    config: DecoderSettings,
    parameters: Mapping[str, Any],
    tokens: Sequence[int],
    *,
    arithmetic: Arithmetic | None = None,
) -> ExactPass:
    """One full causal pass over `tokens`, at least one of them; 50 digits of mpmath unless told otherwise.

    parameters maps names to nested sequences or arrays, rows projected as `x @ W`, so W is [in, out]:
    `token_embedding.weight` [V, D]; `position_embedding.weight` [max_positions, D] when positions are
    learned; for each block `blocks.N.attention_norm.gain`, `blocks.N.ffn_norm.gain` [D],
    `blocks.N.attention.{query,key,value,output}.weight`, `blocks.N.ffn.{gate,up,down}.weight`, each with a
    `.bias` beside its `.weight` when `config.biases`; `final_norm.gain` [D]; `head.weight` [D, V] unless
    tied, in which case logits are `x @ E^T` with E the token embedding.
    Numbers are taken as they stand: ints, Fractions, floats by their binary value, mpf.
    Raises ValueError for no token, a token outside the vocabulary, or more tokens than positions.
    """
    _require_lawful(config, tokens)
    arithmetic = arithmetic or MpmathArithmetic()
    with arithmetic.working():
        return _Decoder(config, parameters, arithmetic).run([int(token) for token in tokens])


def _require_lawful(config: DecoderSettings, tokens: Sequence[int]) -> None:
    if not len(tokens):
        raise ValueError("exact_pass was given no token; a full pass needs at least one")
    outside = [int(token) for token in tokens if not 0 <= int(token) < config.vocabulary]
    if outside:
        last = config.vocabulary - 1
        raise ValueError(f"exact_pass was given token {outside[0]}; the vocabulary is 0..{last}")
    positions = config.layer.rope.max_positions
    if len(tokens) > positions:
        raise ValueError(f"exact_pass was given {len(tokens)} tokens; the decoder has {positions} positions")


class _Decoder:
    """One pass in one arithmetic; numbers are converted as they are met, each matrix once."""

    def __init__(
        self, config: DecoderSettings, parameters: Mapping[str, Any], arithmetic: Arithmetic
    ) -> None:
        self.config, self.parameters, self.exact = config, parameters, arithmetic

    def run(self, tokens: list[int]) -> ExactPass:
        embedding = self._matrix("token_embedding.weight")
        rows = [embedding[token] for token in tokens]
        if self.config.positions == "learned":
            table = self._matrix("position_embedding.weight")
            rows = [_sum(row, table[position]) for position, row in enumerate(rows)]
        keys, values = [], []
        for block in range(self.config.layers):
            normed = self._norm(rows, f"blocks.{block}.attention_norm.gain")
            mixed, block_keys, block_values = self._attention(normed, f"blocks.{block}.attention")
            rows = [_sum(row, more) for row, more in zip(rows, mixed, strict=True)]
            normed = self._norm(rows, f"blocks.{block}.ffn_norm.gain")
            rows = [_sum(row, more) for row, more in zip(rows, self._swiglu(normed, block), strict=True)]
            keys.append(block_keys)
            values.append(block_values)
        final = self._norm(rows, "final_norm.gain")
        head = embedding if self.config.tied else _columns(self._matrix("head.weight"))
        return ExactPass([[self.exact.dot(row, column) for column in head] for row in final], keys, values)

    def _vector(self, name: str) -> Row:
        return [self.exact.number(x) for x in _plain(self.parameters[name])]

    def _matrix(self, name: str) -> Rows:
        return [[self.exact.number(x) for x in row] for row in _plain(self.parameters[name])]

    def _project(self, rows: Rows, name: str) -> Rows:
        columns = _columns(self._matrix(f"{name}.weight"))
        projected = [[self.exact.dot(row, column) for column in columns] for row in rows]
        if not self.config.biases:
            return projected
        bias = self._vector(f"{name}.bias")
        return [_sum(row, bias) for row in projected]

    def _norm(self, rows: Rows, name: str) -> Rows:
        """RMSNorm: `x / sqrt(mean(x^2) + epsilon) * gain`."""
        gain, epsilon = self._vector(name), self.exact.number(self.config.norm_epsilon)
        normed = []
        for row in rows:
            mean = self.exact.dot(row, row) / self.exact.number(len(row))
            root = self.exact.power(mean + epsilon, Fraction(1, 2))
            normed.append([x / root * g for x, g in zip(row, gain, strict=True)])
        return normed

    def _swiglu(self, rows: Rows, block: int) -> Rows:
        """`down(silu(x @ gate) * (x @ up))` with `silu(x) = x / (1 + exp(-x))`."""
        gate = self._project(rows, f"blocks.{block}.ffn.gate")
        up = self._project(rows, f"blocks.{block}.ffn.up")
        one = self.exact.number(1)
        hidden = [
            [g / (one + self.exact.exp(-g)) * u for g, u in zip(gates, ups, strict=True)]
            for gates, ups in zip(gate, up, strict=True)
        ]
        return self._project(hidden, f"blocks.{block}.ffn.down")

    def _attention(self, rows: Rows, name: str) -> tuple[Rows, list[Rows], list[Rows]]:
        """The attention rows [T][D], and the keys as a cache keeps them and the values [G][T][d]."""
        shape = self.config.layer
        queries = self._split(self._project(rows, f"{name}.query"), shape.heads)
        keys = self._split(self._project(rows, f"{name}.key"), shape.kv_heads)
        values = self._split(self._project(rows, f"{name}.value"), shape.kv_heads)
        if self.config.positions == "rope":
            queries = [self._rotate(head) for head in queries]
            keys = [self._rotate(head) for head in keys]
        group = shape.heads // shape.kv_heads
        mixed = [self._mix(queries[h], keys[h // group], values[h // group]) for h in range(shape.heads)]
        merged = [[x for head in mixed for x in head[t]] for t in range(len(rows))]
        return self._project(merged, f"{name}.output"), keys, values

    def _split(self, rows: Rows, heads: int) -> list[Rows]:
        width = self.config.layer.head_width
        return [[row[h * width : (h + 1) * width] for row in rows] for h in range(heads)]

    def _rotate(self, rows: Rows) -> Rows:
        """Each row turned to its own position: row t stands at position t, and row 0 is not turned at all."""
        rope, width = self.config.layer.rope, self.config.layer.head_width
        base, half = self.exact.number(rope.base), width // 2
        rotated = [list(row) for row in rows]
        for position, turned in enumerate(rotated[1:], start=1):
            row = rows[position]
            for i in range(half):
                left, right = (2 * i, 2 * i + 1) if rope.pairing == "adjacent" else (i, i + half)
                angle = self.exact.number(position) * self.exact.power(base, Fraction(-2 * i, width))
                cosine, sine = self.exact.cos_sin(angle)
                turned[left] = row[left] * cosine - row[right] * sine
                turned[right] = row[left] * sine + row[right] * cosine
        return rotated

    def _mix(self, queries: Rows, keys: Rows, values: Rows) -> Rows:
        """Causal softmax attention of one head: row t mixes values 0..t."""
        scale = self.exact.number(1) / self.exact.root(self.config.layer.head_width)
        columns = _columns(values)
        mixed = [list(values[0])]
        for t, query in enumerate(queries[1:], start=1):
            # Exponents of any size can be had here, so no maximum need be taken off.
            shares = [self.exact.exp(self.exact.dot(query, key) * scale) for key in keys[: t + 1]]
            total = self.exact.total(shares)
            mixed.append([self.exact.dot(shares, column[: t + 1]) / total for column in columns])
        return mixed


def _plain(numbers: Any) -> Any:
    return numbers.tolist() if hasattr(numbers, "tolist") else numbers


def _columns(matrix: Rows) -> Rows:
    return [list(column) for column in zip(*matrix, strict=True)]


def _sum(left: Row, right: Row) -> Row:
    return [a + b for a, b in zip(left, right, strict=True)]
