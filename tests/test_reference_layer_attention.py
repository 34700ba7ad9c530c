"""Attention alone: rotated queries and keys handed in, widths of their own, the same atomicity."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import reference_impl.layer_errors as errors
from reference_impl.attention import AttentionCache, AttentionShape, HeadsRankError, append
from tests.reference_layer_samples import LARGE, Array

SHAPE = AttentionShape(heads=6, kv_heads=3, key_width=4, value_width=5)


def heads(count: int, *, lanes: int = 2, seed: int = 3) -> tuple[Array, Array, Array]:
    """Random query [B,6,T,4], key [B,3,T,4] and value [B,3,T,5]."""
    random = np.random.default_rng(seed)
    return (
        random.standard_normal((lanes, 6, count, 4)),
        random.standard_normal((lanes, 3, count, 4)),
        random.standard_normal((lanes, 3, count, 5)),
    )


def part(given: tuple[Array, Array, Array], start: int, stop: int) -> tuple[Array, Array, Array]:
    """The rows start to stop - 1 of query, key and value."""
    return tuple(array[:, :, start:stop] for array in given)  # type: ignore[return-value]


def image(cache: AttentionCache) -> tuple[Any, ...]:
    """Length, bytes and addresses."""
    storages = (cache.key_storage, cache.value_storage)
    return (cache.length, *(s.tobytes() for s in storages), *(s.ctypes.data for s in storages))


@pytest.mark.parametrize("edges", [(0, 1, 2, 3, 4, 5), (0, 5), (0, 2, 3, 5)])
def test_every_row_agrees_with_the_formula(edges: tuple[int, ...]) -> None:
    cache, given = AttentionCache(SHAPE, 2, 5), heads(5)
    outputs = [append(cache, *part(given, a, b)).output for a, b in pairwise(edges)]
    output = np.concatenate(outputs, axis=2)
    query, key, value = given
    for lane in range(2):
        for head in range(6):
            for t in range(5):
                scores = [
                    math.fsum(query[lane, head, t] * key[lane, head // 2, j]) / 2.0 for j in range(t + 1)
                ]
                weights = [math.exp(s - max(scores)) for s in scores]
                for feature in range(5):
                    mixed = math.fsum(w * value[lane, head // 2, j, feature] for j, w in enumerate(weights))
                    assert abs(output[lane, head, t, feature] - mixed / math.fsum(weights)) <= 1e-12
    assert cache.key_storage.tobytes() == key.tobytes()
    assert cache.value_storage.tobytes() == value.tobytes()


def test_a_snapshot_is_a_copy_and_reset_keeps_every_byte() -> None:
    cache = AttentionCache(SHAPE, 2, 4)
    append(cache, *heads(3))
    keys, values = cache.snapshot()
    assert (keys.shape, values.shape) == ((2, 3, 3, 4), (2, 3, 3, 5))
    before = image(cache)
    keys[:], values[:] = 0.0, 0.0
    cache.reset()
    assert image(cache)[1:] == before[1:]
    assert cache.length == 0


def test_stored_rows_keep_every_bit() -> None:
    cache = AttentionCache(SHAPE, 1, 2)
    query, key, value = (np.full_like(array, -0.0) for array in heads(1, lanes=1))
    append(cache, query, key, value)
    assert np.signbit(cache.key_storage[:, :, 0]).all()
    assert np.signbit(cache.value_storage[:, :, 0]).all()


@pytest.mark.parametrize("poison", [np.nan, 1e300])
def test_unused_slots_are_never_read(poison: float) -> None:
    clean, dirty = AttentionCache(SHAPE, 2, 6), AttentionCache(SHAPE, 2, 6)
    dirty._keys[:], dirty._values[:] = poison, poison
    given = heads(4)
    for t in range(4):
        one, other = append(clean, *part(given, t, t + 1)), append(dirty, *part(given, t, t + 1))
        assert one.output.tobytes() == other.output.tobytes()


def _bad(which: int, index: tuple[int, ...], value: float) -> tuple[Array, Array, Array]:
    given = heads(1)
    given[which][index] = value
    return given


@pytest.mark.parametrize("held", [0, 2])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (tuple(a[0] for a in heads(1)), HeadsRankError(3)),
        (heads(0), errors.EmptyChunkError()),
        (heads(1, lanes=3), errors.InputBatchMismatchError(2, 3)),
        (tuple(a[:, :3] for a in heads(1)), errors.CacheHeadCountMismatchError(6, 3)),
        (tuple(a[..., :4] for a in heads(1)), errors.CacheHeadWidthMismatchError(5, 4)),
        (heads(5), errors.CacheFullError(4)),
        (_bad(0, (1, 0, 0, 2), np.nan), "query"),
        (_bad(1, (1, 2, 0, 3), -np.inf), errors.StepError("key", errors.NonFiniteError(23, -np.inf))),
        (_bad(2, (0, 1, 0, 4), np.inf), errors.StepError("value", errors.NonFiniteError(9, np.inf))),
    ],
    ids=["rank", "empty", "lanes", "heads", "width", "full", "query", "key", "value"],
)
def test_refusals_change_nothing(given: Any, expected: Any, held: int) -> None:
    cache = AttentionCache(SHAPE, 2, 4)
    if held:
        append(cache, *heads(held))
    before = image(cache)
    with pytest.raises(errors.CacheError) as refused:
        append(cache, *given)
    if expected == "query":  # it carries NaN and equals nothing
        assert isinstance(refused.value, errors.StepError)
        assert refused.value.stage == "query"
    else:
        assert refused.value == expected
    assert image(cache) == before


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_of_either_infinity_are_refused(sign: float) -> None:
    cache, (query, key, value) = AttentionCache(SHAPE, 2, 4), heads(1)
    query[1, 5, 0, 0], key[1, 2, 0, 0] = sign * LARGE * 2.0**300, LARGE * 2.0**300
    before = image(cache)
    with pytest.raises(errors.StepError) as refused:
        append(cache, query, key, value)
    assert refused.value == errors.StepError("score", errors.NonFiniteError(11, sign * np.inf))
    assert image(cache) == before


def test_one_row_can_be_demanded() -> None:
    with pytest.raises(errors.SingleTokenRequiredError):
        append(AttentionCache(SHAPE, 2, 4), *heads(2), rows_per_append="one")


def test_query_key_and_value_must_have_as_many_rows() -> None:
    query, key, value = heads(2)
    with pytest.raises(ValueError, match=r"\[2, 2, 1\]"):
        append(AttentionCache(SHAPE, 2, 4), query, key, value[:, :, :1])


@pytest.mark.parametrize(
    ("batch_size", "capacity", "expected"),
    [
        (0, 0, errors.ZeroBatchSizeError(0)),
        (1, 0, errors.ZeroCapacityError(0)),
        (2**20, 2**48, errors.ElementCountOverflowError((2**20, 3, 2**48, 4))),
        (2**7, 2**48, errors.AllocationFailedError(2**7 * 3 * 2**48 * 4)),
    ],
)
def test_construction_is_refused_in_order(
    batch_size: int, capacity: int, expected: errors.CacheError
) -> None:
    with pytest.raises(errors.CacheError) as refused:
        AttentionCache(SHAPE, batch_size, capacity)
    assert refused.value == expected


def test_a_shape_that_means_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="evenly"):
        AttentionShape(4, 3, 2, 2)
    with pytest.raises(ValueError, match="value_width is 0"):
        AttentionShape(4, 2, 2, 0)
