"""The error of mixed values for long prefixes: never below the dense form, in memory of the rows' size.

For every pair of rows the dense form adds |q| E(k) over features and p_tj eps_tj |v_j - o_t| over positions.
Three inequalities turn both sums into matrix products with the weights that a pass forms anyway: sums over
features are at most products of Euclidean norms; eps_tj is at most slope_t * beta_j + offset_t; and by
Cauchy and Schwarz the sum over positions is at most the root mean square of eps times the standard
deviation of the values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from conformance.budget.attend import causal_blocks
from conformance.budget.mixing_bound import Mixed, finish_heads, furthest, row_lengths, running_range
from conformance.budget.score_bound import Operand, Operands, ScoreCosts
from conformance.budget.units import Array, Units

# Norms and sums are rounded in other orders than in the dense form; this keeps the larger form larger.
_SLACK = 1.0 + 2.0**-30

_TINY = 2.0**-1000

_LANE_ELEMENTS = 2**15
"""From this size on a lane is computed by itself."""


@dataclass(frozen=True)
class Claim:
    """One precision for which the error is asked: operands that differ from those of other claims by their
    errors alone, and what roundings cost."""

    operands: Operands
    costs: ScoreCosts
    units: Units

    def of(self, lanes: tuple[slice, slice]) -> Claim:
        """The same of some lanes and key/value heads alone."""
        return replace(self, operands=self.operands.of(lanes))


def mix_in_blocks(given: Operands, costs: ScoreCosts, units: Units) -> Mixed:
    """As `mix_dense`, but without weights; the heads without error are computed on the way."""
    return mix_all_in_blocks([Claim(given, costs, units)])[0]


def mix_all_in_blocks(claims: Sequence[Claim]) -> list[Mixed]:
    """`mix_in_blocks` for several precisions of the same rows, in one walk over the weights.

    Large lanes are taken one after the other, so that what is computed of one stays in the processor's cache.
    """
    exact = claims[0].operands.value.exact
    if exact[0, 0].size < _LANE_ELEMENTS or exact.shape[:2] == (1, 1):
        return _mix_lanes(claims)
    shape = claims[0].operands.query.exact.shape
    found = [
        Mixed(np.empty((*shape[:-1], exact.shape[-1])), np.empty((*shape[:-1], exact.shape[-1])), None,
              np.empty(shape[:-1]))
        for _ in claims
    ]  # fmt: skip
    for b, g in np.ndindex(*exact.shape[:2]):
        lane = np.s_[b : b + 1, g : g + 1]
        for whole, part in zip(found, _mix_lanes([claim.of(lane) for claim in claims]), strict=True):
            whole.heads[lane], whole.error[lane], whole.spread[lane] = part.heads, part.error, part.spread
    return found


def _mix_lanes(claims: Sequence[Claim]) -> list[Mixed]:
    parts = [_separate(claim.operands.query, claim.operands.key, claim.costs) for claim in claims]
    first = claims[0].operands
    errors = [claim.operands.value.error for claim in claims]
    walked = _walk(first.query.exact, first.key.exact, first.value.exact, errors, [p.beta for p in parts])
    return [
        _mixed(claim, part, walked, own) for claim, part, own in zip(claims, parts, walked.own, strict=True)
    ]


def _mixed(claim: Claim, parts: _Separated, walked: _Walked, own: _Means) -> Mixed:
    costs, units, value = claim.costs, claim.units, claim.operands.value.shared()
    heads, largest = walked.heads, walked.largest
    slope, beta = parts.slope[..., None], own.beta
    offset = costs.underflow + costs.largest * np.abs(largest)
    offset += costs.position * row_lengths(heads.shape[-2])
    spread = (slope * beta + offset) * _SLACK
    worst = slope * furthest(parts.beta[..., None])[:, :, None] + offset
    size = np.sqrt((slope * slope) * own.beta_squared + offset * (2.0 * slope * beta + offset))
    # e**x - 1 <= x (e**worst - 1) / worst, and sum p e**-eps >= e**-spread by convexity
    rise = np.where(worst > 0.0, np.expm1(worst) / worst, 1.0) * np.exp(spread) * _SLACK
    growth = np.exp(worst + spread) * _SLACK

    lowest, highest = running_range(value.exact)
    furthest_error = furthest(value.error)
    reach = np.maximum(highest, -lowest)
    reach += furthest_error
    error = np.fmin((rise * size) * walked.deviation, np.maximum(heads - lowest, highest - heads))
    error += np.fmin(growth * own.carried, furthest_error)
    summed = np.abs(heads)
    summed += walked.deviation
    summed += own.carried
    summed *= growth
    np.fmin(summed, reach, out=summed)
    logarithm = np.abs(largest) + parts.size[..., None]
    error = finish_heads(
        error, heads=heads, seen=row_lengths(heads.shape[-2]) * reach, summed=summed,
        logarithm=logarithm, units=units,
    )  # fmt: skip
    error *= _SLACK
    return Mixed(heads, error, None, spread[..., 0])


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
class _Means:
    """Means of one claim under the weights of every row, never too small: carried (the errors of the values)
    [B,G,r,T,dv], beta and beta_squared [B,G,r,T,1]."""

    carried: Array
    beta: Array
    beta_squared: Array


@dataclass(frozen=True, eq=False)
class _Walked:
    """Means under the weights of every row, each but `heads` never too small.

    heads and deviation (of the values, root mean square) [B,G,r,T,dv]; largest (score) [B,G,r,T,1]; own: what
    belongs to each claim.
    """

    heads: Array
    deviation: Array
    largest: Array
    own: list[_Means]


def _walk(query: Array, key: Array, value: Array, errors: list[Array], betas: list[Array]) -> _Walked:
    share, count, width = query.shape[2], query.shape[3], value.shape[-1]
    centre = value.mean(axis=-2, keepdims=True)
    away = value - centre
    reach = _top(np.abs(away))
    away /= reach
    away *= away
    limits = [_top(error) for error in errors]
    scaled = [error / limit for error, limit in zip(errors, limits, strict=True)]
    pairs = [column for beta in betas for column in (beta[..., None], beta[..., None] ** 2)]
    # means of what is only bounded need few digits, and single precision halves their cost; `lost` gives back
    # what it loses
    columns = np.concatenate([away, *scaled, *pairs], axis=-1, dtype=np.float32, casting="same_kind")

    heads = np.empty((*query.shape[:-1], width))
    means = np.empty((*query.shape[:-1], columns.shape[-1]))
    largest = np.empty((*query.shape[:-1], 1))
    single = np.empty(0, dtype=np.float32)
    lost, flushed = 1.0 + (count + 8.0) * 2.0**-23, count * 2.0**-120
    for block in causal_blocks(query, key):
        lane, stop, weights = block.lane, block.rows.stop, block.weights
        total = weights.sum(axis=-1, keepdims=True)
        # as `attend` has it, so that the heads are those of the pass
        mixed = weights @ value[lane][:stop]
        mixed /= total
        single = single if single.size >= weights.size else np.empty(weights.size, dtype=np.float32)
        narrow = single[: weights.size].reshape(weights.shape)
        np.copyto(narrow, weights, casting="same_kind")
        heads[lane][:, block.rows] = mixed.reshape(share, -1, width)
        mean = (narrow @ columns[lane][:stop]).reshape(share, -1, columns.shape[-1])
        own = means[lane][:, block.rows]
        np.multiply(mean, lost / total.reshape(share, -1, 1), out=own)
        own += flushed
        largest[lane][:, block.rows] = block.largest.reshape(share, -1, 1)

    names = range(len(errors))
    starts = [width * (1 + name) for name in names]
    ends = [width * (1 + len(errors)) + 2 * name for name in names]
    return _Walked(
        heads=heads,
        deviation=_deviation(means[..., :width], heads, value, centre, reach),
        largest=largest,
        own=[
            _Means(
                carried=limit[:, :, None] * means[..., start : start + width],
                beta=means[..., end : end + 1],
                beta_squared=means[..., end + 1 : end + 2],
            )
            for limit, start, end in zip(limits, starts, ends, strict=True)
        ],
    )


def _deviation(second: Array, heads: Array, value: Array, centre: Array, reach: Array) -> Array:
    """The root mean square of v - o, from that of (v - c) / reach and from o; never too small."""
    count = value.shape[-2]
    away = np.abs(heads - centre[:, :, None])
    # what summing has cost the heads, which may have made them too far from the centre
    away -= (4.0 * count + 64.0) * 2.0**-53 * _top(np.abs(value))[:, :, None]
    np.maximum(away, 0.0, out=away)
    away /= reach[:, :, None]
    away *= away
    variance: Array = second - away
    np.maximum(variance, 0.0, out=variance)
    variance += (4.0 * count + 64.0) * 2.0**-53 * second
    variance += _TINY
    np.sqrt(variance, out=variance)
    variance *= reach[:, :, None]
    return variance


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
