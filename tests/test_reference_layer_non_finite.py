"""Numbers that are not finite: each stage alone, exact, named, and before anything is written."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.layer import Layer, LayerCache, append
from reference_impl.layer.stages import Stages, first_non_finite
from reference_impl.layer_errors import NonFiniteError, StepError
from tests.reference_layer_samples import LARGE, Array, diagonal, image, layer, rows

QUIET = 2.0**-60


def poison(name: str) -> tuple[Layer, Array, Array]:
    """A layer whose step fails at one stage alone: the layer, a lawful row and the row that fails.

    Feature 0 is 0 in lawful rows; weight row 0 is what the poisoned feature meets. The pair of 1.6e308
    leaves the range at position 2, where it turns to 1.6e308 * (cos 2 - sin 2).
    """
    lawful = np.array([[[0.0, 0.5, -0.25, 1.0]]])
    bad = lawful.copy()
    bad[0, 0, 0] = LARGE
    weights: dict[str, Array] = {name: np.eye(4) for name in ("query", "key", "value", "output")}
    for weight in ("query", "key", "value"):
        weights[weight][0] = [QUIET / LARGE, 0, 0, 0]
    if name in ("query", "key", "value"):
        weights[name][0, 0] = 2.0**900
    elif name in ("rotated_query", "rotated_key"):
        bad[0, 0, 0] = 1.0
        weights[name.removeprefix("rotated_")][0, :2] = 1.6e308
    elif name in ("score", "score_minus"):
        weights["query"][0, 0] = -LARGE if name == "score_minus" else LARGE
        weights["key"][0, 0] = LARGE
    elif name == "output":
        weights["value"][0, 0] = 1.0
        weights["output"] = np.full((4, 4), 2.0**1000)
    return diagonal(**weights), lawful, bad


STAGES = ["query", "key", "value", "rotated_query", "rotated_key", "score", "score_minus", "output"]


@pytest.mark.parametrize(
    ("stage", "held"),
    [(stage, held) for stage in STAGES for held in ([2] if stage.startswith("rotated") else [0, 2, 3])],
)
def test_each_stage_alone_is_named_and_nothing_is_written(stage: str, held: int) -> None:
    made, lawful, bad = poison(stage)
    cache = LayerCache(made, 1, 4)
    for _ in range(held):
        append(made, cache, lawful)
    before, twin = image(cache), cache.clone()
    with pytest.raises(StepError) as refused:
        append(made, cache, bad)
    error = refused.value
    assert error.stage == stage.removesuffix("_minus")
    assert isinstance(error.cause, NonFiniteError)
    assert not np.isfinite(error.cause.value)
    assert image(cache) == before
    assert append(made, cache, lawful).output.tobytes() == append(made, twin, lawful).output.tobytes()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_met_by_the_first_projection(value: float) -> None:
    made = layer()
    cache = LayerCache(made, 2, 4)
    row = rows(made, 1)
    row[1, 0, 3] = value
    before = image(cache)
    with pytest.raises(StepError) as refused:
        append(made, cache, row)
    cause = refused.value.cause
    assert isinstance(cause, NonFiniteError)
    assert refused.value.stage == "query"
    assert cause.index == made.config.heads * made.config.head_width  # lane 1, first feature
    assert image(cache) == before


def test_a_score_of_minus_infinity_is_refused_although_the_output_would_be_finite() -> None:
    made, lawful, bad = poison("score_minus")
    cache = LayerCache(made, 1, 4)
    append(made, cache, lawful)
    with pytest.raises(StepError) as refused:
        append(made, cache, bad)
    assert refused.value == StepError("score", NonFiniteError(1, -np.inf))


def test_overflow_of_the_published_demonstration_is_a_score() -> None:
    made = diagonal()
    cache = LayerCache(made, 1, 4)
    with pytest.raises(StepError) as refused:
        append(made, cache, np.full((1, 1, 4), np.finfo(np.float64).max))
    assert refused.value == StepError("score", NonFiniteError(0, np.inf))


def test_overflow_of_a_projection_needs_larger_weights() -> None:
    made = diagonal(query=np.full((4, 4), np.finfo(np.float64).max))
    with pytest.raises(StepError) as refused:
        append(made, LayerCache(made, 1, 4), np.full((1, 1, 4), 2.0))
    assert refused.value == StepError("query", NonFiniteError(0, np.inf))


def test_the_flat_index_counts_row_major_in_the_tensor_of_its_stage() -> None:
    made, lawful, bad = poison("score")
    cache = LayerCache(made, 2, 4)
    append(made, cache, np.concatenate([lawful, lawful]))
    with pytest.raises(StepError) as refused:
        append(made, cache, np.concatenate([lawful, bad]))
    # scores [B=2, H=2, T=1, n=2]: lane 1, head 0, position 1
    assert refused.value == StepError("score", NonFiniteError(5, np.inf))


def test_numbers_near_the_end_of_the_range_are_taken() -> None:
    made = diagonal(query=np.zeros((4, 4)))
    cache = LayerCache(made, 1, 4)
    big = np.array([[[1e308, -1e308, 1e300, 1.7e308]]])
    output = append(made, cache, big).output
    assert output.tobytes() == big.tobytes()


def test_a_masked_score_that_overflows_is_not_refused() -> None:
    query, key = np.zeros((4, 4)), np.zeros((4, 4))
    query[0, 0] = key[1, 0] = 2.0**600
    made = diagonal(query=query, key=key)
    asks, answers = np.array([[[1.0, 0.0, 0.5, 0.25]]]), np.array([[[0.0, 1.0, 0.5, -0.25]]])
    chunk = np.concatenate([asks, answers], axis=1)
    cache = LayerCache(made, 1, 4)
    single = [append(made, cache, row).output for row in (asks, answers)]
    chunked = append(made, LayerCache(made, 1, 4), chunk, rows_per_append="any")
    assert np.array_equal(np.concatenate(single, axis=1), chunked.output)
    with pytest.raises(StepError, match="score"):  # the same two rows meet where nothing is masked
        append(made, LayerCache(made, 1, 4), chunk[:, ::-1], rows_per_append="any")


def test_one_lane_that_fails_keeps_all_lanes_as_they_were() -> None:
    made, lawful, bad = poison("output")
    cache = LayerCache(made, 3, 4)
    append(made, cache, np.concatenate([lawful] * 3))
    before = image(cache)
    with pytest.raises(StepError):
        append(made, cache, np.concatenate([lawful, lawful, bad]))
    assert image(cache) == before


def test_no_numpy_warning_leaks_and_no_error_state_of_the_caller_matters() -> None:
    for stage in STAGES:
        made, lawful, bad = poison(stage)
        cache = LayerCache(made, 1, 4)
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error")
            append(made, cache, lawful)
            append(made, cache, lawful)
            with pytest.raises(StepError):
                append(made, cache, bad)
            with pytest.raises(StepError):
                made.full_prefix(np.concatenate([lawful, lawful, bad], axis=1))
        assert np.geterr()["over"] == "warn"


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_finite_check_is_exact(data: Any) -> None:
    shape = data.draw(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)))
    numbers = st.floats(width=64) | st.sampled_from([1e308, -1e308, 0.0, -0.0, 5e-324])
    count = int(np.prod(shape))
    array = np.array(data.draw(st.lists(numbers, min_size=count, max_size=count))).reshape(shape)
    bad = np.flatnonzero(~np.isfinite(array))
    expected = int(bad[0]) if bad.size else None
    for view in (array, np.asfortranarray(array), np.repeat(array, 2, axis=-1)[..., ::2]):
        with np.errstate(all="ignore"):
            assert first_non_finite(view) == expected
        stages = Stages()
        stages.enter("score", view.size)
        if expected is None:
            with np.errstate(all="ignore"):
                assert stages.finite(view) is view
        else:
            with np.errstate(all="ignore"), pytest.raises(StepError) as refused:
                stages.finite(view)
            cause = refused.value.cause
            assert isinstance(cause, NonFiniteError)
            assert cause.index == expected
            assert str(cause.value) == str(float(array.ravel()[expected]))


@settings(max_examples=60, deadline=None)
@given(
    exponents=st.lists(st.integers(-1000, 1000), min_size=4, max_size=4),
    place=st.tuples(st.sampled_from(["query", "key", "value", "output"]), st.integers(0, 15)),
    weight=st.integers(-1000, 1000),
    held=st.integers(0, 2),
)
def test_the_quick_checks_refuse_exactly_when_the_full_ones_do(
    exponents: list[int], place: tuple[str, int], weight: int, held: int
) -> None:
    """The first run leaves out checks that a later one implies: no step may slip through for that."""
    name, index = place
    matrix = np.eye(4)
    matrix.flat[index] = 2.0**weight
    made = diagonal(**{name: matrix})
    row = np.array([[[2.0**e for e in exponents]]])
    cache = LayerCache(made, 1, 4)
    for _ in range(held):
        append(made, cache, np.array([[[0.5, -0.25, 1.0, 0.125]]]) * 2.0 ** min(0, -weight))
    full = _with_every_check(made, cache, row)
    try:
        append(made, cache, row)
        quick = None
    except StepError as refused:
        quick = refused
    assert quick == full or (quick is not None and str(quick) == str(full))


def _with_every_check(made: Layer, cache: LayerCache, row: Array) -> StepError | None:
    from reference_impl.layer.calculation import _step  # noqa: PLC0415 - the private half under test

    try:
        with np.errstate(all="ignore"):
            _step(Stages(every=True), made, cache, row, False)
    except StepError as refused:
        return refused
    return None
