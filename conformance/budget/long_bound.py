"""The error of mixed values for long prefixes: never below the dense form, in memory of the rows' size.

For every pair of rows the dense form adds |q| E(k) over features and p_tj eps_tj |v_j - o_t| over positions.
Three inequalities turn both sums into matrix products with the weights that a pass forms anyway: sums over
features are at most products of Euclidean norms; eps_tj is at most slope_t * beta_j + offset_t; and by
Cauchy and Schwarz the sum over positions is at most the root mean square of eps times the standard
deviation of the values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformance.budget.attend import causal_blocks
from conformance.budget.mixing_bound import Mixed, finish_heads, furthest, hull, row_lengths
from conformance.budget.score_bound import Operand, Operands, ScoreCosts
from conformance.budget.units import Array, Units

# Norms and sums are rounded in other orders than in the dense form; this keeps the larger form larger.
_SLACK = 1.0 + 2.0**-30

_TINY = 2.0**-1000


def mix_in_blocks(given: Operands, costs: ScoreCosts, units: Units) -> Mixed:
    """As `mix_dense`, but without weights; the heads without error are computed on the way."""
    query, key, value = given.query, given.key, given.value.shared()
    parts = _separate(query, key, costs)
    walked = _walk(query.exact, key.exact, given.value, parts.beta)
    heads, largest = walked.heads, walked.largest

    slope, beta = parts.slope[..., None], walked.beta
    offset = costs.underflow + costs.largest * np.abs(largest)
    offset += costs.position * row_lengths(heads.shape[-2])
    spread = (slope * beta + offset) * _SLACK
    worst = slope * furthest(parts.beta[..., None])[:, :, None] + offset
    size = np.sqrt((slope * slope) * walked.beta_squared + offset * (2.0 * slope * beta + offset))
    # e**x - 1 <= x (e**worst - 1) / worst, and sum p e**-eps >= e**-spread by convexity
    rise = np.where(worst > 0.0, np.expm1(worst) / worst, 1.0) * np.exp(spread) * _SLACK
    growth = np.exp(worst + spread) * _SLACK

    error = np.fmin((rise * size) * walked.deviation, hull(value.exact, heads))
    error += np.fmin(growth * walked.carried, furthest(value.error))
    summed = np.fmin(growth * (np.abs(heads) + walked.deviation + walked.carried), furthest(value.reach))
    logarithm = np.abs(largest) + parts.size[..., None]
    error = finish_heads(error, heads=heads, value=value, summed=summed, logarithm=logarithm, units=units)
    return Mixed(heads, error * _SLACK, None, spread[..., 0])


@dataclass(frozen=True, eq=False)
class _Separated:
    """slope [B,G,r,T] and beta [B,G,T], 0 to 1; size [B,G,r,T] bounds the largest |score| of a row."""

    slope: Array
    beta: Array
    size: Array


def _separate(query: Operand, key: Operand, costs: ScoreCosts) -> _Separated:
    scale = 1.0 / np.sqrt(query.exact.shape[-1])
    key_size = _norm(key.exact)
    key_error = _norm(key.error + costs.dot * key.reach)
    query_size = scale * _norm(query.exact)
    # |score| <= |q| |k|, so that the cost of scaling joins the error of the query
    on_size = (1.0 + costs.scale) * scale * _norm(query.error) + costs.scale * query_size
    on_error = (1.0 + costs.scale) * scale * _norm(query.reach)
    largest_size = key_size.max(axis=-1, keepdims=True)
    largest_error = key_error.max(axis=-1, keepdims=True)
    beta = np.maximum(_share(key_size, largest_size), _share(key_error, largest_error))
    slope = on_size * largest_size[:, :, None] + on_error * largest_error[:, :, None]
    return _Separated(
        slope=slope * _SLACK,
        beta=beta,
        size=query_size * np.maximum.accumulate(key_size, axis=-1)[:, :, None] * _SLACK,
    )


@dataclass(frozen=True, eq=False)
class _Walked:
    """Means under the weights of every row, each but `heads` never too small.

    heads, deviation (of the values, root mean square) and carried (of their errors) [B,G,r,T,dv];
    beta, beta_squared and largest (score) [B,G,r,T,1].
    """

    heads: Array
    deviation: Array
    carried: Array
    beta: Array
    beta_squared: Array
    largest: Array


def _walk(query: Array, key: Array, value: Operand, beta: Array) -> _Walked:
    share, count, width = query.shape[2], query.shape[3], value.exact.shape[-1]
    centre = value.exact.mean(axis=-2, keepdims=True)
    away = value.exact - centre
    reach = _top(np.abs(away))
    away /= reach
    moments = np.concatenate([away, away * away], axis=-1)
    limit = _top(value.error)
    # these means need few digits, and single precision halves their cost; `lost` gives back what it loses
    narrow = np.concatenate([value.error / limit, beta[..., None], beta[..., None] ** 2], axis=-1)
    narrow = narrow.astype(np.float32)

    means = np.empty((*query.shape[:-1], 3 * width + 2))
    largest = np.empty((*query.shape[:-1], 1))
    for block in causal_blocks(query, key):
        lane, stop = block.lane, block.rows.stop
        mean = np.empty((len(block.weights), means.shape[-1]))
        mean[:, : 2 * width] = block.weights @ moments[lane][:stop]
        mean[:, 2 * width :] = block.weights.astype(np.float32) @ narrow[lane][:stop]
        mean /= block.weights.sum(axis=-1, keepdims=True)
        means[lane][:, block.rows] = mean.reshape(share, -1, mean.shape[-1])
        largest[lane][:, block.rows] = block.largest.reshape(share, -1, 1)

    first, second = means[..., :width], means[..., width : 2 * width]
    lost = (count + 8.0) * 2.0**-23
    rest = means[..., 2 * width :] * (1.0 + lost) + count * 2.0**-120
    variance = np.maximum(second - first * first, 0.0) + (4.0 * count + 64.0) * 2.0**-53 * second + _TINY
    return _Walked(
        heads=centre[:, :, None] + reach[:, :, None] * first,
        deviation=reach[:, :, None] * np.sqrt(variance),
        carried=limit[:, :, None] * rest[..., :width],
        beta=rest[..., width : width + 1],
        beta_squared=rest[..., width + 1 :],
        largest=largest,
    )


def _top(magnitude: Array) -> Array:
    """[B,G,1,c]: the largest of every column, or a harmless number where all are zero."""
    top: Array = np.maximum(magnitude.max(axis=-2, keepdims=True), _TINY)
    return top


def _norm(array: Array) -> Array:
    norm: Array = np.sqrt(np.einsum("...d,...d->...", array, array)) * _SLACK
    return norm


def _share(part: Array, whole: Array) -> Array:
    share: Array = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0)
    return share
