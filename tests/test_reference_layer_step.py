"""One step: agreement with an independent formula and the published figures, what is stored, evidence."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference_impl.layer import Layer, LayerCache, append
from tests.reference_layer_samples import Array, config, diagonal, layer, rows

GEOMETRIES = [
    {"heads": 4, "kv_heads": 4, "head_width": 2},
    {"heads": 6, "kv_heads": 3, "head_width": 4},
    {"heads": 3, "kv_heads": 1, "head_width": 6},
]


def by_formula(of: Layer, sequence: Array, lane: int, t: int) -> tuple[list[float], dict[int, list[float]]]:
    """Output row t and rotated keys by head, in plain Python straight from the formulas."""
    c = of.config
    wq, wk, wv, wo = (node.value.tolist() for node in of.nodes)

    def project(position: int, weight: list[list[float]], head: int) -> list[float]:
        x = sequence[lane, position].tolist()
        return [
            math.fsum(a * row[head * c.head_width + i] for a, row in zip(x, weight, strict=True))
            for i in range(c.head_width)
        ]

    def turn(head: list[float], position: int) -> list[float]:
        turned, half = [0.0] * c.head_width, c.head_width // 2
        for i in range(half):
            left, right = (2 * i, 2 * i + 1) if c.rope.pairing == "adjacent" else (i, i + half)
            angle = position * c.rope.base ** (-2 * i / c.head_width)
            turned[left] = head[left] * math.cos(angle) - head[right] * math.sin(angle)
            turned[right] = head[left] * math.sin(angle) + head[right] * math.cos(angle)
        return turned

    merged: list[float] = []
    keys: dict[int, list[float]] = {}
    for head in range(c.heads):
        group = head // (c.heads // c.kv_heads)
        query = turn(project(t, wq, head), t)
        scores = []
        for j in range(t + 1):
            key = turn(project(j, wk, group), j)
            scores.append(math.fsum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(c.head_width))
            keys[group] = key
        exponentials = [math.exp(score - max(scores)) for score in scores]
        total = math.fsum(exponentials)
        values = [project(j, wv, group) for j in range(t + 1)]
        merged += [
            math.fsum(e / total * value[i] for e, value in zip(exponentials, values, strict=True))
            for i in range(c.head_width)
        ]
    output = [math.fsum(m * row[o] for m, row in zip(merged, wo, strict=True)) for o in range(c.model_width)]
    return output, keys


@pytest.mark.parametrize("pairing", ["adjacent", "half"])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: f"H{g['heads']}G{g['kv_heads']}")
def test_every_output_and_stored_row_agrees_with_the_formulas(geometry: dict[str, Any], pairing: str) -> None:
    made = layer(pairing=pairing, **geometry)
    cache, sequence = LayerCache(made, 2, 5), rows(made, 5)
    for t in range(5):
        step = append(made, cache, sequence[:, t : t + 1])
        for lane in range(2):
            output, keys = by_formula(made, sequence, lane, t)
            assert np.abs(step.output[lane, 0] - output).max() <= 1e-12
            for group, key in keys.items():
                assert np.abs(cache.key_storage[lane, group, t] - key).max() <= 1e-12
    values = (sequence @ made.node("value").value).reshape(2, 5, made.config.kv_heads, -1).swapaxes(1, 2)
    assert np.abs(cache.value_storage - values).max() <= 1e-12


def test_the_published_three_steps() -> None:
    swap = np.kron(np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2))
    made = diagonal(output=swap)
    sequence = np.array(
        [[1, 0, 1, 0], [math.cos(1), -math.sin(1), 0, 1], [math.cos(2), -math.sin(2), 1, 1]], dtype=np.float64
    )[None]
    cache = LayerCache(made, 1, 4)
    steps = [append(made, cache, sequence[:, t : t + 1]) for t in range(3)]
    printed = [[f"{x:.9f}" for x in step.output[0, 0]] for step in steps]
    assert printed[0] == ["1.000000000", "0.000000000", "1.000000000", "0.000000000"]
    assert printed[1] == ["0.213809009", "0.786190991", "0.770151153", "-0.420735492"]
    assert printed[2] == ["0.629044078", "0.945303958", "0.374718490", "-0.583589471"]
    evidence = steps[2].evidence
    assert evidence is not None
    assert [f"{w:.12f}" for w in evidence.weights[0, 1, 0]] == [
        "0.054696042457", "0.370955922197", "0.574348035346",
    ]  # fmt: skip
    assert [f"{k:.9f}" for k in cache.key_storage[0, 1, 2]] == ["-1.325444263", "0.493150590"]


def test_a_step_writes_its_slot_in_every_lane_and_touches_nothing_else() -> None:
    made = layer()
    cache = LayerCache(made, 3, 5)
    cache._keys[:], cache._values[:] = 3.5, -0.0
    sequence = rows(made, 2, batch_size=3)
    append(made, cache, sequence[:, :1])
    before = cache.key_storage.copy(), cache.value_storage.copy()
    step = append(made, cache, sequence[:, 1:])
    assert step.evidence is not None
    for storage, old, new in zip(
        (cache.key_storage, cache.value_storage),
        before,
        (step.evidence.rotated_key, step.evidence.value),
        strict=True,
    ):
        assert storage[:, :, 1:2].tobytes() == new.tobytes()
        assert storage[:, :, :1].tobytes() == old[:, :, :1].tobytes()
        assert storage[:, :, 2:].tobytes() == old[:, :, 2:].tobytes()


def test_the_evidence_has_its_shapes_and_says_what_was_computed() -> None:
    made = layer()
    cache = LayerCache(made, 2, 5)
    sequence = rows(made, 3)
    append(made, cache, sequence[:, :1])
    step = append(made, cache, sequence[:, 1:], rows_per_append="any")
    e = step.evidence
    assert e is not None
    assert e.query.shape == e.rotated_query.shape == e.heads.shape == (2, 4, 2, 6)
    assert e.key.shape == e.value.shape == e.rotated_key.shape == (2, 2, 2, 6)
    assert e.weights.shape == (2, 4, 2, 3)
    assert e.merged.shape == (2, 2, 24)
    assert step.output.shape == (2, 2, 10)
    assert (step.length, step.work) == (3, (1, 3, 2, 1))
    assert np.abs(e.weights.sum(axis=-1) - 1).max() <= 1e-15
    assert not e.weights[:, :, 0, 2].any()
    assert np.array_equal(e.merged.reshape(2, 2, 4, 6).swapaxes(1, 2), e.heads)
    assert np.allclose(e.merged @ made.node("output").value, step.output, atol=1e-13)
    assert np.allclose(np.linalg.norm(e.query, axis=-1), np.linalg.norm(e.rotated_query, axis=-1))


def test_evidence_shares_no_memory_with_storage_or_with_itself() -> None:
    made = layer()
    cache = LayerCache(made, 1, 4)
    step = append(made, cache, rows(made, 1, batch_size=1))
    assert step.evidence is not None
    handed = [step.output, *vars(step.evidence).values(), cache.key_storage, cache.value_storage]
    for index, one in enumerate(handed):
        assert not any(np.shares_memory(one, other) for other in handed[:index])
    before = cache.snapshot()
    for array in handed[:-2]:
        array[...] = 9.0
    assert all(np.array_equal(a, b) for a, b in zip(before, cache.snapshot(), strict=True))


def test_evidence_can_be_left_out_and_the_output_stays_the_same() -> None:
    made = layer()
    one, other = LayerCache(made, 2, 4), LayerCache(made, 2, 4)
    row = rows(made, 1)
    with_evidence, without = append(made, one, row), append(made, other, row, evidence=False)
    assert without.evidence is None
    assert with_evidence.output.tobytes() == without.output.tobytes()
    assert one == other


def test_inputs_are_neither_changed_nor_kept() -> None:
    made = layer()
    cache = LayerCache(made, 2, 4)
    row = rows(made, 1)
    kept = row.copy()
    step = append(made, cache, row)
    assert np.array_equal(row, kept)
    before = step.output.copy(), cache.key_storage.copy(), cache.value_storage.copy()
    row[:] = 1e9
    after = step.output, cache.key_storage, cache.value_storage
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.mark.parametrize("kind", ["list", "float32", "strided"])
def test_rows_of_other_kinds_are_read_as_float64(kind: str) -> None:
    made = layer()
    row = rows(made, 1).astype(np.float32).astype(np.float64)
    spread = np.zeros((2, 1, 20))
    spread[..., ::2] = row
    given: Any = {"list": row.tolist(), "float32": row.astype(np.float32), "strided": spread[..., ::2]}[kind]
    step = append(made, LayerCache(made, 2, 4), given)
    assert step.output.tobytes() == append(made, LayerCache(made, 2, 4), row).output.tobytes()


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.booleans(), min_size=6, max_size=6), pairing=st.sampled_from(["adjacent", "half"]))
def test_any_partition_into_chunks_gives_the_same_rows(cuts: list[bool], pairing: str) -> None:
    made = layer(pairing=pairing)
    sequence = rows(made, 7)
    single, chunked = LayerCache(made, 2, 7), LayerCache(made, 2, 7)
    expected = np.concatenate([append(made, single, sequence[:, t : t + 1]).output for t in range(7)], axis=1)
    edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), 7]
    parts = [
        append(made, chunked, sequence[:, a:b], rows_per_append="any").output for a, b in pairwise(edges)
    ]
    assert np.abs(np.concatenate(parts, axis=1) - expected).max() <= 1e-12
    assert np.abs(single.key_storage - chunked.key_storage).max() <= 1e-13
    assert np.abs(single.value_storage - chunked.value_storage).max() <= 1e-13


def test_a_later_row_of_a_chunk_moves_no_earlier_output_by_a_bit() -> None:
    made = layer()
    sequence = rows(made, 5)
    changed = sequence.copy()
    changed[:, 4] += 1.0
    outputs = []
    for given_rows in (sequence, changed):
        cache = LayerCache(made, 2, 8)
        append(made, cache, given_rows[:, :1])
        outputs.append(append(made, cache, given_rows[:, 1:], rows_per_append="any").output)
    assert outputs[0][:, :3].tobytes() == outputs[1][:, :3].tobytes()
    assert np.abs(outputs[0][:, 3] - outputs[1][:, 3]).max() > 1e-3


def test_lanes_do_not_meet() -> None:
    made = layer()
    sequence = rows(made, 3)
    changed = sequence.copy()
    changed[0] *= -2.0
    outputs = []
    for given_rows in (sequence, changed):
        cache = LayerCache(made, 2, 4)
        outputs.append([append(made, cache, given_rows[:, t : t + 1]).output for t in range(3)])
    for one, other in zip(*outputs, strict=True):
        assert one[1].tobytes() == other[1].tobytes()


def test_two_caches_of_one_layer_do_not_meet() -> None:
    made = layer()
    one, alone, other = (LayerCache(made, 2, 4) for _ in range(3))
    sequence, noise = rows(made, 3), rows(made, 3, seed=6)
    for t in range(3):
        row = sequence[:, t : t + 1]
        step = append(made, one, row)
        append(made, other, noise[:, t : t + 1])
        assert step.output.tobytes() == append(made, alone, row).output.tobytes()
    assert one == alone


def test_huge_scores_of_either_sign_are_softened_without_overflow() -> None:
    made = diagonal()
    cache = LayerCache(made, 1, 4)
    for scale in (1e5, -1e5, 2e5):
        step = append(made, cache, np.full((1, 1, 4), scale))
        assert step.evidence is not None
        assert np.isfinite(step.output).all()
        assert np.allclose(step.evidence.weights.sum(axis=-1), 1.0)


def test_far_positions_are_absolute() -> None:
    made = layer(max_positions=2**40)
    turn = made.rotation.turn(2**30 + 5, 1)
    assert turn.cosine[0] == np.cos(2.0**30 + 5)
    assert turn.sine[1] == np.sin(2.0**30 + 5)
    assert turn.sine[0] == -turn.sine[1]


def test_turns_are_the_same_one_at_a_time_and_together() -> None:
    rotation = layer().rotation
    together = rotation.turn(0, 200)
    for position in (199, 0, 63, 64, 65, 10, 130):
        one = rotation.turn(position, 1)
        assert one.cosine.tobytes() == together.cosine[position].tobytes()
        assert one.sine.tobytes() == together.sine[position].tobytes()


def test_negative_zero_is_stored_bit_for_bit() -> None:
    made = layer()
    cache = LayerCache(made, 1, 2)
    keys = np.full((1, 2, 1, 6), -0.0)
    cache._write(cache._ticket(keys, -keys))
    assert np.signbit(cache.key_storage[:, :, 0]).all()
    assert not np.signbit(cache.value_storage[:, :, 0]).any()


def test_configuration_of_the_samples_is_unsymmetric() -> None:
    c = config()
    assert len({c.model_width, c.heads, c.kv_heads, c.head_width, c.heads * c.head_width}) == 5
