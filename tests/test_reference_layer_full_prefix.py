"""The layer's uncached pass: right by itself, and nothing of the cached calculation in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import reference_impl.layer.full_prefix as full_prefix_module
from reference_impl.layer import LayerCache, append
from reference_impl.layer_errors import (
    CapacityExceedsPositionsError,
    EmptyChunkError,
    InputRankError,
    InputWidthMismatchError,
    StepError,
    ZeroBatchSizeError,
)
from tests.reference_layer_samples import Array, diagonal, layer, rows


@pytest.mark.parametrize("pairing", ["adjacent", "half"])
@pytest.mark.parametrize(("heads", "kv_heads", "head_width"), [(4, 4, 2), (6, 3, 4), (3, 1, 6)])
def test_every_cached_step_agrees_with_the_last_row_of_an_uncached_pass(
    heads: int, kv_heads: int, head_width: int, pairing: str
) -> None:
    made = layer(heads=heads, kv_heads=kv_heads, head_width=head_width, pairing=pairing)
    cache, sequence = LayerCache(made, 2, 9), rows(made, 9)
    for t in range(9):
        cached = append(made, cache, sequence[:, t : t + 1]).output[:, 0]
        assert np.abs(cached - made.full_prefix(sequence[:, : t + 1])[:, t]).max() <= 1e-12


def test_the_pass_uses_nothing_of_the_cached_calculation(monkeypatch: pytest.MonkeyPatch) -> None:
    made = layer()
    sequence = rows(made, 5)
    expected = made.full_prefix(sequence)

    def broken(*_: Any, **__: Any) -> Any:
        raise AssertionError("the uncached pass went through the cached calculation")

    for target in ("attend.attend", "calculation.calculate", "rope.Rotation.rotate", "rope.Rotation.turn"):
        monkeypatch.setattr(f"reference_impl.layer.{target}", broken)
    assert made.full_prefix(sequence).tobytes() == expected.tobytes()


def test_a_fault_planted_in_the_cached_rotation_does_not_move_the_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = layer()
    sequence = rows(made, 3)
    monkeypatch.setattr("reference_impl.layer.rope.Rotation.rotate", lambda _, given, __: given.copy())
    cache = LayerCache(made, 2, 4)
    cached = np.concatenate([append(made, cache, sequence[:, t : t + 1]).output for t in range(3)], axis=1)
    assert np.abs(cached - made.full_prefix(sequence)).max() > 1e-3


@pytest.mark.parametrize("block", [1, 2, 3, 100])
def test_blocks_of_queries_change_no_row(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = layer()
    sequence = rows(made, 8)
    expected = made.full_prefix(sequence)
    monkeypatch.setattr(full_prefix_module, "QUERY_BLOCK", block)
    assert np.abs(made.full_prefix(sequence) - expected).max() <= 1e-14


def test_the_pass_is_causal() -> None:
    made = layer()
    sequence = rows(made, 6)
    changed = sequence.copy()
    changed[:, 5] += 1.0
    one, other = made.full_prefix(sequence), made.full_prefix(changed)
    assert one[:, :5].tobytes() == other[:, :5].tobytes()
    assert np.abs(one[:, 5] - other[:, 5]).max() > 1e-3


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((2, 10), InputRankError(2)),
        ((0, 0, 3), ZeroBatchSizeError()),
        ((2, 0, 3), EmptyChunkError()),
        ((2, 17, 9), InputWidthMismatchError(10, 9)),
        ((2, 17, 10), CapacityExceedsPositionsError(17, 16)),
    ],
)
def test_sequences_that_cannot_be_taken_are_refused(shape: tuple[int, ...], expected: Exception) -> None:
    with pytest.raises(type(expected)) as refused:
        layer().full_prefix(np.zeros(shape))
    assert refused.value == expected


@pytest.mark.parametrize(
    ("weights", "stage"),
    [
        ({"query": np.eye(4) * 2.0**1000}, "query"),
        ({"key": np.eye(4) * 2.0**1000}, "key"),
        ({"value": np.eye(4) * 2.0**1000}, "value"),
        ({"query": np.eye(4) * 2.0**500, "key": np.eye(4) * 2.0**500}, "score"),
        ({"output": np.full((4, 4), 2.0**1000), "query": np.zeros((4, 4))}, "output"),
    ],
)
def test_numbers_that_are_not_finite_are_refused_by_stage(weights: dict[str, Array], stage: str) -> None:
    made = diagonal(**weights)
    with pytest.raises(StepError) as refused:
        made.full_prefix(np.full((1, 2, 4), 2.0**300))
    assert refused.value.stage == stage
