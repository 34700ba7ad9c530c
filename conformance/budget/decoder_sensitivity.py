"""How far small errors of the rows between half blocks move everything behind them.

Derivatives are taken by the complex step: rows get an imaginary part of 2**-100 in one feature, and what
comes out has the derivative as its imaginary part, without cancellation. Absolute values are taken last, of
whole derivatives; taken at every matrix on the way they would multiply up to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from conformance.budget.decoder_forward import Numbers, halves, logits_of
from conformance.budget.units import Array
from conformance.values import DecoderConfig

MOST_FEATURES = 640
"""Features of a lane (rows times width) up to which derivatives are taken; they cost the square of it."""

_STEP = 2.0**-100
_DIRECTIONS = 64


@dataclass(frozen=True, eq=False)
class Moved:
    """How far each result may move, summed over all errors: rows between halves, keys, values and logits.

    rows[s] [B,T,D] is what half s is given; keys and values [L,B,G,T,d]; logits [B,T,V].
    """

    rows: list[Array]
    keys: Array
    values: Array
    logits: Array


def moved(
    config: DecoderConfig, weights: Mapping[str, Array], rows: list[Array], errors: list[Array]
) -> Moved:
    """The first-order effect of errors[s] in rows[s] for every s from 0 to 2L, beyond the rows themselves.

    rows and errors [B,T,D].
    """
    total = _nothing(config, rows)
    for first, (state, error) in enumerate(zip(rows, errors, strict=True)):
        for part, size in _directions(state, error):
            _follow(config, weights, (first, part), size, total)
    return total


def _nothing(config: DecoderConfig, rows: list[Array]) -> Moved:
    lanes, count, _ = rows[0].shape
    kept = (config.layers, lanes, config.layer.kv_heads, count, config.layer.head_width)
    logits = np.zeros((lanes, count, config.vocabulary))
    return Moved([np.zeros_like(state) for state in rows], np.zeros(kept), np.zeros(kept), logits)


def _directions(state: Array, error: Array) -> Iterator[tuple[Numbers, Array]]:
    """Complex rows [B,n,T,D] of some directions, and how large each direction's error is, [B,n]."""
    lanes, count, width = state.shape
    flat = error.reshape(lanes, count * width)
    wanted = np.flatnonzero(flat.any(axis=0))
    for start in range(0, len(wanted), _DIRECTIONS):
        chosen = wanted[start : start + _DIRECTIONS]
        turned: Numbers = np.repeat(state.reshape(lanes, 1, -1), len(chosen), axis=1).astype(np.complex128)
        turned[:, np.arange(len(chosen)), chosen] += 1j * _STEP
        yield turned.reshape(lanes, len(chosen), count, width), flat[:, chosen]


def _follow(
    config: DecoderConfig, weights: Mapping[str, Array], start: tuple[int, Numbers], size: Array, total: Moved
) -> None:
    """Add to `total` what the directions `start[1]` in front of half `start[0]` move."""
    lanes, directions = size.shape
    first, rows = start

    def gathered(found: Numbers) -> Array:
        slope = np.abs(found.imag / _STEP).reshape(lanes, directions, -1)
        effect: Array = (size[:, None] @ slope).reshape(lanes, *found.shape[1:])
        return effect

    last = rows.reshape(lanes * directions, *rows.shape[2:])
    for index, half in enumerate(halves(config, weights, last, first), start=first):
        last = half.rows
        total.rows[index + 1] += gathered(last)
        if half.keys is not None and half.values is not None:
            total.keys[index // 2] += gathered(half.keys)
            total.values[index // 2] += gathered(half.values)
    total.logits[...] += gathered(logits_of(config, weights, last))
