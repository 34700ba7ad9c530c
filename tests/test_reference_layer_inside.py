"""Rules of System 1 that no black box can see: the contract points at these tests by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reference_impl.layer as public
from reference_impl.layer import LayerCache, append, prepare
from reference_impl.layer import attend as attend_module
from reference_impl.layer import calculation as calculation_module
from reference_impl.layer.attend import attend
from reference_impl.layer.memory import MAX_ELEMENTS
from reference_impl.layer.stages import Stages
from reference_impl.layer_errors import (
    AllocationFailedError,
    CandidateNonFiniteError,
    ElementCountOverflowError,
    NonFiniteError,
    StepError,
)
from tests.reference_layer_samples import Array, diagonal, filled, image, layer, rows


def test_the_raw_append_is_not_reachable_from_outside() -> None:
    cache = filled(layer(), 1)
    offered = {name for name in dir(cache) if not name.startswith("_")}
    assert offered == {
        "batch_size", "binding", "capacity", "clone", "head_width", "heads", "is_empty", "is_full",
        "key_address", "key_storage", "kv_heads", "length", "model_width", "place", "reset", "snapshot",
        "value_address", "value_storage",
    }  # fmt: skip
    for name in offered - {"clone", "place", "reset", "snapshot"}:
        with pytest.raises(AttributeError):
            setattr(cache, name, 0)
    assert not any("ticket" in name.lower() or "write" in name for name in set(public.__all__) - {"Ticket"})


@pytest.mark.parametrize(("batch_size", "tokens"), [(1, 1), (2, 1), (2, 3)])
def test_heads_are_split_into_contiguous_features_and_merged_in_the_same_order(
    batch_size: int, tokens: int
) -> None:
    made = diagonal(heads=3, head_width=4)
    numbers = np.arange(batch_size * tokens * 12, dtype=np.float64).reshape(batch_size, tokens, 12)
    step = append(made, LayerCache(made, batch_size, 4), numbers, rows_per_append="any")
    evidence = step.evidence
    assert evidence is not None
    for name in ("query", "key", "value"):
        heads = getattr(evidence, name)
        for head in range(3):
            assert np.array_equal(heads[:, head], numbers[..., 4 * head : 4 * head + 4])
    for head in range(3):
        assert np.array_equal(evidence.merged[..., 4 * head : 4 * head + 4], evidence.heads[:, head])


def test_the_row_of_a_lane_lies_where_the_layout_says() -> None:
    made = layer()
    cache = filled(made, 3, capacity=5)
    flat = cache.key_storage.reshape(-1)
    keys, _ = cache.snapshot()
    for lane in range(2):
        for head in range(2):
            for position in range(3):
                start = ((lane * 2 + head) * 5 + position) * 6
                assert flat[start : start + 6].tobytes() == keys[lane, head, position].tobytes()


class _Wide:
    """A tensor of a shape that no memory could hold, for counts that are checked before it is needed."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape


@pytest.mark.parametrize(
    ("shape", "past", "factors"),
    [
        ((2**32, 2**31, 1, 2), 1, (2**32, 2**31)),
        ((2**30, 2**30, 1, 2), 7, (2**30, 2**30, 1, 8)),
        ((2**31, 2**30, 4, 2), 0, (2**31, 2**30, 4, 4)),
    ],
)
def test_lane_counts_and_then_score_counts_that_overflow_are_refused(
    shape: tuple[int, ...], past: int, factors: tuple[int, ...]
) -> None:
    batch_size, heads, tokens, width = shape
    query, new = _Wide(*shape), _Wide(batch_size, heads, tokens, width)
    old = _Wide(batch_size, heads, past, width)
    with pytest.raises(StepError) as refused:
        attend(Stages(), query, (old, old), (new, new))  # type: ignore[arg-type]
    assert refused.value == StepError("score", ElementCountOverflowError(factors))


def test_output_counts_that_overflow_are_refused_after_the_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attend_module, "MAX_ELEMENTS", 20)
    monkeypatch.setattr("reference_impl.layer.memory.MAX_ELEMENTS", 20)
    query, new = np.ones((2, 2, 1, 2)), (np.ones((2, 2, 1, 2)), np.ones((2, 2, 1, 8)))
    old = np.ones((2, 2, 1, 2)), np.ones((2, 2, 1, 8))
    with pytest.raises(StepError) as refused:
        attend(Stages(), query, old, new)
    assert refused.value == StepError("heads", ElementCountOverflowError((2, 2, 1, 8)))


def test_the_largest_score_count_is_no_overflow() -> None:
    query, new, old = (_Wide(1, 1, 1, 2), _Wide(1, 1, 1, 2), _Wide(1, 1, MAX_ELEMENTS - 1, 2))
    with pytest.raises(StepError) as refused:
        attend(Stages(), query, (old, old), (new, new))  # type: ignore[arg-type]
    assert refused.value == StepError("score", AllocationFailedError(MAX_ELEMENTS))


class _Starving:
    """NumPy, but the call number `fail` of `name` finds no memory."""

    def __init__(self, name: str, fail: int) -> None:
        self._name, self._left = name, fail

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if name != self._name:
            return found

        def counted(*operands: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise MemoryError
            return found(*operands, **options)

        return counted


B, H, G, D, WIDTH, N = 2, 4, 2, 10, 6, 4


@pytest.mark.parametrize(
    ("module", "function", "call", "stage", "elements"),
    [
        ("stages", "empty", 0, "query", B * (H + 2 * G) * WIDTH),
        ("calculation", "matmul", 0, "query", B * (H + 2 * G) * WIDTH),
        ("calculation", "ascontiguousarray", 0, "query_heads", B * (H + 2 * G) * WIDTH),
        ("rope", "cos", 0, "rotated_query", B * (H + G) * WIDTH),
        ("stages", "empty", 1, "score", B * H * N),
        ("attend", "matmul", 1, "score", B * H * N),
        ("attend", "exp", 0, "softmax", B * H * N),
        ("attend", "matmul", 2, "heads", B * H * WIDTH),
        ("attend", "matmul", 3, "heads", B * H * WIDTH),
        ("calculation", "matmul", 3, "output", B * D),
    ],
)
def test_memory_that_runs_out_inside_a_step_is_refused_with_its_stage_and_changes_nothing(
    module: str, function: str, call: int, stage: str, elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = layer()
    cache, row = filled(made, N - 1), rows(made, 1, seed=4)
    before, twin = image(cache), cache.clone()
    made.rotation._block_start = 10**6  # the turns of this block are not known yet
    with monkeypatch.context() as patched:
        patched.setattr(f"reference_impl.layer.{module}.np", _Starving(function, call))
        with pytest.raises(StepError) as refused:
            append(made, cache, row)
    assert refused.value == StepError(stage, AllocationFailedError(elements))
    assert image(cache) == before
    assert append(made, cache, row).output.tobytes() == append(made, twin, row).output.tobytes()


def _poisoned(array: Array) -> Array:
    array.flat[-1] = np.inf
    return array


@pytest.mark.parametrize(
    ("function", "stage"), [("exp", "softmax"), ("matmul", "heads")], ids=["softmax", "mixing"]
)
def test_a_softmax_or_a_mixture_that_is_not_finite_is_refused(
    function: str, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From finite scores neither can come out; the fault is planted, and must be met where it sits."""
    made = layer()
    cache, row = filled(made, 2), rows(made, 1, seed=4)
    before = image(cache)

    class Faulty(_Starving):
        def __getattr__(self, name: str) -> Any:
            found = getattr(np, name)
            if name != function:
                return found

            def poisoned(*operands: Any, **options: Any) -> Any:
                result = found(*operands, **options)
                # The scores are the products with an `out`, the mixtures those without.
                return result if function == "matmul" and "out" in options else _poisoned(result)

            return poisoned

    monkeypatch.setattr(attend_module, "np", Faulty(function, 0))
    with pytest.raises(StepError) as refused:
        append(made, cache, row)
    assert refused.value.stage == stage
    assert isinstance(refused.value.cause, NonFiniteError)
    assert image(cache) == before


def test_heads_that_are_not_finite_after_the_split_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A split only moves numbers; a fault planted in it must be met at the head that it hits."""
    made = layer()
    for part, stage in ((0, "query_heads"), (5, "key_heads"), (-1, "value_heads")):
        cache, row = filled(made, 2), rows(made, 1, seed=4)
        before = image(cache)

        class Faulty(_Starving):
            at = part

            def __getattr__(self, name: str) -> Any:
                found = getattr(np, name)
                if name != "ascontiguousarray":
                    return found

                def poisoned(array: Array) -> Array:
                    copied = np.array(array)
                    copied[1, self.at, 0, 2] = np.nan
                    return copied

                return poisoned

        with monkeypatch.context() as patched:
            patched.setattr(calculation_module, "np", Faulty("", 0))
            with pytest.raises(StepError) as refused:
                append(made, cache, row)
        assert refused.value.stage == stage
        assert image(cache) == before


@pytest.mark.parametrize("tensor", ["key", "value"])
def test_candidate_rows_that_are_not_finite_travel_wrapped(
    tensor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = layer()
    cache, row = filled(made, 2), rows(made, 1, seed=4)
    ticket = LayerCache._ticket

    def spoiled(self: LayerCache, keys: Array, values: Array) -> Any:
        rows_of = {"key": keys.copy(), "value": values.copy()}
        rows_of[tensor][1, 1, 0, 5] = np.inf
        return ticket(self, rows_of["key"], rows_of["value"])

    monkeypatch.setattr(LayerCache, "_ticket", spoiled)
    before = image(cache)
    with pytest.raises(StepError) as refused:
        append(made, cache, row)
    expected = CandidateNonFiniteError((1 * 2 + 1) * 6 + 5, np.inf, tensor)
    assert refused.value == StepError("candidate", expected)
    assert refused.value.__cause__ == expected
    assert image(cache) == before


def test_softmax_weights_are_those_of_the_scores() -> None:
    made = layer()
    cache = filled(made, 3)
    evidence = prepare(made, cache, rows(made, 1, seed=4)).result.evidence
    assert evidence is not None
    keys = np.concatenate([cache.key_storage[:, :, :3], evidence.rotated_key], axis=2).repeat(2, axis=1)
    values = np.concatenate([cache.value_storage[:, :, :3], evidence.value], axis=2).repeat(2, axis=1)
    scores = np.einsum("bhtd,bhnd->bhtn", evidence.rotated_query, keys) / np.sqrt(6)
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    assert np.abs(evidence.weights - weights).max() <= 1e-15
    assert np.abs(evidence.heads - np.einsum("bhtn,bhnd->bhtd", weights, values)).max() <= 1e-14


@pytest.mark.parametrize(("module", "function"), [("attend", "exp"), ("stages", "empty")])
def test_a_refusal_for_want_of_memory_keeps_its_cause_and_its_origin(
    module: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = layer()
    monkeypatch.setattr(f"reference_impl.layer.{module}.np", _Starving(function, 0))
    with pytest.raises(StepError) as refused:
        append(made, LayerCache(made, 2, 4), rows(made, 1))
    assert isinstance(refused.value.cause, AllocationFailedError)
    assert refused.value.__cause__ is refused.value.cause
    assert isinstance(refused.value.__context__, MemoryError)
