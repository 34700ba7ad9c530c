"""The error of weights and of mixed values, dense: every query row against every position it sees.

Queries, heads and scores stand grouped, [B,G,r,T,*]; keys and values are [B,G,T,*].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from conformance.budget.attend import Attended, hidden
from conformance.budget.score_bound import Operand, Operands, ScoreCosts
from conformance.budget.units import Array, Units, accumulated_each

_DISTANCE_ELEMENTS = 2**20
_BEYOND_USE = 2.0**200


@dataclass(frozen=True, eq=False)
class Mixed:
    """heads [B,G,r,T,dv] without error; error of the same shape; weights [B,G,r,T,T]: their error, or None.

    spread [B,G,r,T]: the mean relative error of the weights of each row, sum_j p_j eps_j.
    """

    heads: Array
    error: Array
    weights: Array | None
    spread: Array


def mix_dense(given: Operands, exact: Attended, costs: ScoreCosts, units: Units) -> Mixed:
    """The error of softmax(scores) times value; `exact` holds scores, weights and heads without error.

    Raises AssertionError where `exact` was computed in blocks and holds no scores.
    """
    scores, weights, heads = exact.scores, exact.weights, exact.heads
    assert scores is not None
    assert weights is not None
    shared = given.shared()
    value = shared.value
    count = scores.shape[-1]
    magnitude = np.abs(scores)
    above = hidden(count)
    visible = np.where(above, -np.inf, scores)
    largest = visible.max(axis=-1, keepdims=True)
    lengths = row_lengths(count)

    relative = score_error(shared.query, shared.key, magnitude, costs)
    relative += costs.largest * np.abs(largest) + costs.position * lengths
    np.copyto(relative, 0.0, where=above)
    visible -= largest
    raised = np.exp(visible + relative)
    raised /= np.exp(visible - relative).sum(axis=-1, keepdims=True)
    # raised * (1 - e**-eps) is p (e**eps - 1) without its cancellation, whatever the size of eps
    moved = raised * -np.expm1(-relative)

    shift = np.fmin(_mean_distance(moved, value.exact, heads), hull(value.exact, heads))
    carried = np.fmin(raised @ value.error, furthest(value.error))
    summed = np.fmin(raised @ value.reach, furthest(value.reach))
    logarithm = np.abs(largest) + magnitude.max(axis=-1, keepdims=True)
    error = finish_heads(
        shift + carried,
        heads=heads,
        seen=np.cumsum(value.reach, axis=-2),
        summed=summed,
        logarithm=logarithm,
        units=units,
    )

    rest = _others(weights)
    own = np.fmin(moved * rest + weights * _others(moved), np.maximum(weights, rest))
    own += normalising(logarithm, lengths, units) * (weights + own)
    own += _sums(lengths, units) * (weights + own) + 4.0 * (lengths + 1.0) * units.underflow
    own = units.stored(own, weights)
    np.copyto(own, 0.0, where=above)
    return Mixed(heads, error, own, (weights * relative).sum(axis=-1))


def _mean_distance(moved: Array, value: Array, heads: Array) -> Array:
    """sum_j moved_tj |v_j - o_t|, [B,G,r,T,dv], a few query rows at a time where rows are many or wide."""
    count = moved.shape[-1]
    height = max(1, _DISTANCE_ELEMENTS // (heads.size // count * count))
    total = np.empty_like(heads)
    for start in range(0, count, height):
        rows = slice(start, start + height)
        distance = np.abs(value[..., None, :, :] - heads[..., rows, None, :])
        total[..., rows, :] = (moved[..., rows, None, :] @ distance)[..., 0, :]
    return total


def _others(array: Array) -> Array:
    """The sum over the last axis without the element itself; a difference of sums would cancel."""
    total = np.zeros_like(array)
    total[..., 1:] += np.cumsum(array, axis=-1)[..., :-1]
    total[..., :-1] += np.cumsum(array[..., :0:-1], axis=-1)[..., ::-1]
    return total


def score_error(query: Operand, key: Operand, magnitude: Array, costs: ScoreCosts) -> Array:
    """[..., T, T]: the error of each score as far as query and key cause it, as an error of log weights."""
    keys = key.error + costs.dot * key.reach
    products = query.error @ key.magnitude.swapaxes(-1, -2)
    products += query.reach @ keys.swapaxes(-1, -2)
    products *= 1.0 / np.sqrt(query.exact.shape[-1])
    error: Array = products + costs.scale * (magnitude + products) + costs.underflow
    return error


def finish_heads(
    error: Array, *, heads: Array, seen: Array, summed: Array, logarithm: Array, units: Units
) -> Array:
    """Add what mixing itself rounds to `error` [..., T, dv], the error that weights and values cause.

    seen: sum_j |v_j|. summed: sum_j p_j |v_j|. logarithm [..., T, 1]: largest magnitude of a score plus that
    of the maximum.
    """
    lengths = row_lengths(heads.shape[-2])
    magnitude = np.abs(heads)
    reach = magnitude + error
    error = error + normalising(logarithm, lengths, units) * reach
    np.add(magnitude, error, out=reach)
    reach += summed
    reach *= _sums(lengths, units) + units.storage
    error += reach
    floor = 1.0 + seen
    if units.stored_underflow:
        error += units.stored_underflow * floor
    floor += lengths
    floor *= 2.0 * units.underflow
    error += floor
    return units.stored(error, magnitude)


def row_lengths(count: int) -> Array:
    """[T, 1]: how many positions each row sees."""
    return np.arange(1.0, count + 1.0)[:, None]


def normalising(logarithm: Array, lengths: Array, units: Units) -> Array:
    """Relative error of weights taken as exp(score - log-sum-exp), which no later division cancels.

    The difference is off by as many roundings as the scores are large, the weight by e to that power; held
    finite, so that it stays an error of nothing where there is nothing.
    """
    roundings = 2.0 * (logarithm + np.log(lengths)) + 6.0
    factor: Array = np.minimum(np.expm1(roundings * units.softmax), _BEYOND_USE) * (lengths > 1.0)
    return factor


def hull(value: Array, heads: Array) -> Array:
    """[..., T, dv]: the largest distance of a mixture from any value that it may mix."""
    lowest, highest = running_range(value)
    distance: Array = np.maximum(heads - lowest, highest - heads)
    return distance


def running_range(value: Array) -> tuple[Array, Array]:
    """[..., T, dv] each: the smallest and the largest of the positions seen so far."""
    return np.minimum.accumulate(value, axis=-2), np.maximum.accumulate(value, axis=-2)


def furthest(magnitude: Array) -> Array:
    """[..., T, dv]: the largest of the positions seen so far."""
    return np.maximum.accumulate(magnitude, axis=-2)


def _sums(lengths: Array, units: Units) -> Array:
    """n products, two sums over n, a quotient, and the weights rounded from one dtype to the other."""
    return accumulated_each(2.0 * lengths + 4.0, units.mixing)
