"""What stands in the derived golden files: closed forms, rules, and what makes them discriminate."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from conformance.budget import layer_pass
from conformance.golden_files import load, names
from conformance.golden_files.fixtures import derived
from conformance.trace.yaml import Document
from conformance.values import PARAMETERS
from reference_impl.exact import decimal_string

LAYERS = [name for name in names() if load(name).level == "layer"]
DERIVED = [fixture.id for fixture in derived()]


def exact(document: Document, name: str) -> Any:
    """Decimals as fractions, in the shape of the array; the triangle of weights as a flat list."""
    numbers = document.exact(name)
    sequence, _, field = name.partition(".")
    shape = document.sequences[sequence].exact[field].shape
    return np.array(numbers, dtype=object).reshape(shape) if field != "weights" else numbers


def test_the_files_are_the_published_ones_then_the_derived_ones() -> None:
    assert names() == ("ch37", "ch38", "forge", *DERIVED)
    assert sorted(DERIVED) == DERIVED


@pytest.mark.parametrize("sequence", ["first", "second"])
def test_mean_is_a_plus_b_t_exactly(sequence: str) -> None:
    document = load("mean")
    output, weights = exact(document, f"{sequence}.output"), exact(document, f"{sequence}.weights")
    tiny = 1 + Fraction(1, 2**30)
    for lane, t in np.ndindex(output.shape[:2]):
        wanted = [Fraction(0)] * 8
        for feature in range(8):
            head, i = divmod(feature, 2)
            column = 2 * (head // 2) + i
            a, b = (1 + column + 8 * lane) * tiny, Fraction((-1) ** column * (1 + lane), 4)
            if sequence == "second":
                a, b = (3 + column + 4 * lane) * tiny, Fraction(-((-1) ** column) * (1 + lane), 8)
            wanted[(3 * feature + 1) % 8] = Fraction(2) ** (feature % 4 - 1) * (a + b * t)
        assert list(output[lane, t]) == wanted
    steps = output.shape[1]
    per_head = [Fraction(decimal_string(Fraction(1, t + 1))) for t in range(steps) for _ in range(t + 1)]
    assert list(weights) == per_head * 8


@pytest.mark.parametrize(("sequence", "content", "start"), [("first", 1, 0), ("second", Fraction(1, 2), 3)])
def test_weights_are_the_softmax_of_cosines_and_sines(sequence: str, content: Fraction, start: int) -> None:
    document = load("weights")
    context = mpmath.MPContext()
    context.dps = 60
    rows = document.rows(f"{sequence}.output")
    for t, row in enumerate(rows):
        numbers = row.split()
        for head, wave in enumerate((context.cos, context.sin)):
            def score(j: int, t: int = t, wave: Any = wave) -> Any:
                turns = (a * wave((t - j) / context.mpf(16) ** i) for i, a in enumerate((1, 4, 3, 8)))
                return context.fsum(turns) * context.mpf(float(content)) ** 2 / context.sqrt(8)

            shares = [context.exp(score(j)) for j in range(t + 1)]
            wanted = ["0"] * 8
            for j, share in enumerate(shares):
                wanted[(start + j) % 8] = decimal_string(share / context.fsum(shares)) if t else "1"
            assert numbers[8 * head : 8 * head + 8] == wanted


@pytest.mark.parametrize(
    ("sequence", "largest", "smallest"),
    [("first", [0, 0, 2, 2, 4, 4], [0, 1, 1, 3, 3, 5]), ("second", [0, 1, 1, 3], [0, 1, 1, 1])],
)
def test_extreme_outputs_are_the_value_rows_at_the_running_extremes(
    sequence: str, largest: list[int], smallest: list[int]
) -> None:
    document = load("extreme")
    rows = document.inputs["x" if sequence == "first" else "z"][0]
    for t, (high, low) in enumerate(zip(largest, smallest, strict=True)):
        assert high == int(np.argmax(rows[: t + 1, 1]))
        assert low == int(np.argmin(rows[: t + 1, 2]))
        (_, a, b, c), (_, a2, b2, c2) = rows[high, :4], rows[low, :4]
        merged = [c, -c, b, a, 2 * c2, b2, a2, c2]
        output = document.sequences[sequence].exact["output"][0, t]
        assert output.tolist() == [merged[(j + 1) % 8] for j in range(8)]


def test_extreme_scores_are_what_no_exponential_survives() -> None:
    document = load("extreme")
    source = document.layers["main"]
    scores = layer_pass(source.config, source.parameters, document.inputs["x"]).scores
    high, low = (head[np.tril_indices(6)] for head in scores[0])
    assert high.max() > 4000, "head 0 overflows an exponential without the maximum taken off"
    assert low.max() < -20000, "head 1 underflows every one of them, and lies below a mask of -10000"
    gaps = [abs(a - b) for head in scores[0] for row in [head[5]] for a in row for b in row if a != b]
    assert min(gaps) >= 1000


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sequence", ["first", "second"])
def test_every_array_is_what_a_float64_pass_gives(name: str, sequence: str) -> None:
    document = load(name)
    source, found = document.layers["main"], document.sequences[sequence]
    wanted = layer_pass(source.config, source.parameters, found.inputs["rows"])
    bound = document.bound or 1e-12
    arrays = {
        "output": wanted.output, "keys": wanted.rotated_key, "values": wanted.value, "weights": wanted.weights
    }
    for field, array in arrays.items():
        assert np.abs(found.exact[field] - array).max() <= bound, field


@pytest.mark.parametrize("name", DERIVED)
def test_inputs_are_exact_in_every_dtype_but_where_size_is_the_point(name: str) -> None:
    document = load(name)
    source = document.layers["main"]
    arrays = [*document.inputs.values(), *(getattr(source.parameters, name) for name in PARAMETERS)]
    narrow = np.float32 if name == "mean" else np.float16
    for array in arrays:
        kept = array.astype(narrow).astype(np.float64)
        assert np.array_equal(kept, array) == (name != "mean" or array.shape[0] != 2)


@pytest.mark.parametrize("name", LAYERS)
def test_the_promise_is_provable_wherever_no_other_bound_stands(name: str) -> None:
    document = load(name)
    worst = max(a + angle for s in document.sequences.values() for a, _, angle in s.kappa.values())
    assert (document.bound is None) == (worst <= 9007)
    if document.bound is not None:
        assert worst * 2.0**-53 <= document.bound * 1.01


@pytest.mark.parametrize("name", LAYERS)
def test_rows_after_the_reset_are_other_rows_and_fewer(name: str) -> None:
    document = load(name)
    first, second = document.inputs["x"], document.inputs["z"]
    assert second.shape[1] < first.shape[1]
    assert not (first[:, : second.shape[1]] == second).all(axis=(0, 2)).any()


@pytest.mark.parametrize("name", LAYERS)
def test_both_schedules_end_where_the_sequences_end(name: str) -> None:
    document = load(name)
    spec = document.caches["main"]
    for schedule in ("single", "chunked"):
        trace = document.trace(schedule)
        counts = [step.inputs["rows"].shape[1] if step.op == "append" else 0 for step in trace.steps]
        resets = [i for i, count in enumerate(counts) if count == 0]
        lives = [sum(counts[a:b]) for a, b in zip([0, *resets], [*resets, None], strict=True)]
        first, second = document.sequences["first"].length, document.sequences["second"].length
        assert lives == [first, first, second]
        assert first <= spec.capacity < document.layers["main"].config.rope.max_positions
        assert ("chunks" in trace.needs) == (schedule == "chunked")


def test_the_grouped_files_fill_their_cache_to_the_last_slot() -> None:
    for name in ("mod-gqa-adjacent", "mod-gqa-half", "mod-gqa6", "mod-mqa"):
        document = load(name)
        assert document.sequences["first"].length == document.caches["main"].capacity
        assert "gqa" in document.trace("single").needs


def test_the_two_pairings_differ_in_nothing_but_the_pairing() -> None:
    one, other = load("mod-gqa-adjacent"), load("mod-gqa-half")
    assert one.tree["inputs"] == other.tree["inputs"]
    assert one.tree["layers"]["main"]["parameters"] == other.tree["layers"]["main"]["parameters"]
    assert one.rows("first.values") == other.rows("first.values")
    keys, others = one.rows("first.keys"), other.rows("first.keys")
    assert [i % 7 for i, (a, b) in enumerate(zip(keys, others, strict=True)) if a == b] == [0] * 4


@pytest.mark.parametrize("fixture", derived(), ids=lambda fixture: fixture.id)
def test_padding_and_rules_give_what_the_files_hold(fixture: Any) -> None:
    document = load(fixture.id)
    for name, rows in (("x", fixture.first), ("z", fixture.second)):
        stored = [Fraction(x) for x in document.inputs[name].ravel().tolist()]
        assert stored == [x for lane in rows.lanes for row in lane for x in row]
    assert document.layers["main"].config == fixture.config
    assert sum(fixture.first.chunks) == fixture.first.count
    assert sum(fixture.second.chunks) == fixture.second.count
