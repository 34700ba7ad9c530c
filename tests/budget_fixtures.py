"""The designed fixtures of the error-bound tests: small exact inputs made by rule, without padding.

Each is `(config, parameters, rows)`. The output width may differ from the model width here, which a golden
trace avoids by padding; conditions are published for these plain forms.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from conformance.values import LayerConfig, LayerParameters, Pairing, RopeConfig


class Fixture(NamedTuple):
    """The first three operands of every function of the budget."""

    config: LayerConfig
    parameters: LayerParameters
    rows: Any


def _config(
    width: int, heads: int, kv_heads: int, head: int, *, base: float, pairing: Pairing = "adjacent"
) -> LayerConfig:
    return LayerConfig(width, heads, kv_heads, head, RopeConfig(base, pairing, 2**21))


def _eighths(rows: int, columns: int, a: int, b: int, shift: int) -> Any:
    i, j = np.indices((rows, columns))
    return ((a * i + b * j + shift + i * j) % 11 - 5) / 8


def seed() -> Fixture:
    """Two heads of one pair; identity projections, an output that swaps the heads; rows of unit length."""
    identity = np.eye(4)
    swap = identity[[2, 3, 0, 1]]
    c1, s1, c2, s2 = np.cos(1.0), np.sin(1.0), np.cos(2.0), np.sin(2.0)
    rows = np.array([[[1, 0, 1, 0], [c1, -s1, 0, 1], [c2, -s2, 1, 1]]])
    return Fixture(_config(4, 2, 2, 2, base=100.0), LayerParameters(identity, identity, identity, swap), rows)


def mod(
    *,
    count: int = 7,
    heads: int = 4,
    kv_heads: int = 2,
    head: int = 6,
    batch: int = 2,
    pairing: Pairing = "adjacent",
    base: float = 100.0,
) -> Fixture:
    """Entries k/8 by modular rules, unsymmetric everywhere, several lanes, irrational sqrt(6)."""
    width, shared = heads * head, kv_heads * head
    b, t, i = np.indices((batch, count, width))
    parameters = LayerParameters(
        _eighths(width, width, 3, 5, 1),
        _eighths(width, shared, 7, 2, 4),
        _eighths(width, shared, 2, 9, 3),
        _eighths(width, width, 5, 3, 6),
    )
    rows = ((5 * b + 7 * t + 3 * i + 2 * t * i + b * t * t) % 13 - 6) / 8
    return Fixture(_config(width, heads, kv_heads, head, base=base, pairing=pairing), parameters, rows)


def square() -> Fixture:
    """`mod` for implementations with one key/value head per query head and one lane."""
    return mod(count=5, heads=2, kv_heads=2, head=4, batch=1)


def mean() -> Fixture:
    """Query weights of zero: every output is a running mean, a + b t exactly."""
    heads, kv_heads, head, batch, count = 4, 2, 2, 2, 8
    width, inner = kv_heads * head, heads * head
    b, t, i = np.indices((batch, count, width))
    rows = (1 + i + 8 * b) * (1 + 2.0**-30) + (-1.0) ** i * (1 + b) / 2 * t
    output = np.zeros((inner, inner))
    for row in range(inner):
        output[row, (3 * row + 1) % inner] = 2.0 ** (row % 4 - 1)
    parameters = LayerParameters(
        np.zeros((width, inner)), _eighths(width, width, 3, 5, 1), np.eye(width), output
    )
    return Fixture(_config(width, heads, kv_heads, head, base=100.0), parameters, rows)


def weights() -> Fixture:
    """Constant content and one-hot values: the output row is the row of attention weights."""
    heads, head, count = 2, 8, 8
    width, inner = 1 + count, heads * head
    rows = np.zeros((1, count, width))
    rows[0, :, 0] = 1
    rows[0, np.arange(count), 1 + np.arange(count)] = 1
    query, key, value = (np.zeros((width, inner)) for _ in range(3))
    for i in range(head // 2):
        query[0, 2 * i] = query[0, head + 2 * i] = 2.0 * (i + 1)
        key[0, 2 * i] = key[0, head + 2 * i + 1] = 0.5 * (1 + i % 2)
    for h in range(heads):
        value[1:, h * head : h * head + count] = np.eye(count)
    parameters = LayerParameters(query, key, value, np.eye(inner))
    return Fixture(_config(width, heads, heads, head, base=65536.0), parameters, rows)


def extreme() -> Fixture:
    """Winner takes all: scores to 30000 and gaps of 1024, so that every head is exactly one value."""
    a, b, c = (1, -3, 2, -1, 4, -5), (2, -1, 5, -2, 4, -3), (3, 5, 7, 11, 13, 17)
    rows = np.array([[[1.0, *row] for row in zip(a, b, c, strict=True)]])
    query, key, value = (np.zeros((4, 8)) for _ in range(3))
    query[0, 2], key[1, 2] = 64.0, 32.0
    query[0, 6], key[2, 6], key[0, 6] = -64.0, 32.0, 768.0
    for row, column, entry in (
        (3, 0, 1), (3, 1, -1), (2, 2, 1), (1, 3, 1), (3, 4, 2), (2, 5, 1), (1, 6, 1), (3, 7, 1),
    ):
        value[row, column] = entry
    output = np.eye(8)[:, [1, 2, 3, 4, 5, 6, 7, 0]]
    return Fixture(_config(4, 2, 2, 4, base=2.0**40), LayerParameters(query, key, value, output), rows)


DESIGNED = {
    "seed": seed, "mod": mod, "square": square, "mean": mean, "weights": weights, "extreme": extreme,
}
