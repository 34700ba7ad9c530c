"""Every published figure, held as a string against the exact value beside it, by rounding of our own."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

import mpmath
import pytest

from conformance.golden_files import load

CH37, CH38, FORGE = load("ch37"), load("ch38"), load("forge")
EXACT = CH37.tree["sequences"]["first"]["exact"]
FIGURES = CH37.tree["published"]


def rounded(number: str, places: int) -> str:
    """Half to even in decimal, and a rounded zero has no sign."""
    with localcontext() as context:
        context.prec = 100
        found = Decimal(number).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_EVEN)
    return f"{abs(found) if found == 0 else found:f}"


def row(exact: dict[str, Any], field: str, index: int) -> list[str]:
    return str(exact[field]["rows"][index]).split()


@pytest.mark.parametrize("t", range(3))
def test_outputs_of_both_paths(t: int) -> None:
    wanted = [rounded(x, 9) for x in row(EXACT, "output", t)]
    assert FIGURES["steps"][t]["cached_output"] == wanted
    assert FIGURES["steps"][t]["full_prefix_output"] == wanted


@pytest.mark.parametrize("t", range(3))
def test_keys_values_and_weights_of_every_head_and_row(t: int) -> None:
    step = FIGURES["steps"][t]
    assert [head["head"] for head in step["heads"]] == ["0", "1"]
    for h, head in enumerate(step["heads"]):
        assert len(head["rows"]) == t + 1
        for j, figure in enumerate(head["rows"]):
            assert figure["rotated_key"] == [rounded(x, 9) for x in row(EXACT, "keys", 3 * h + j)]
            assert figure["unrotated_value"] == [rounded(x, 9) for x in row(EXACT, "values", 3 * h + j)]
            assert figure["weight"] == rounded(row(EXACT, "weights", 3 * h + t)[j], 12)
            assert figure["state"] == ("appended" if j == t else "retained")


def test_lengths_shapes_and_work() -> None:
    for t, step in enumerate(FIGURES["steps"]):
        assert (step["position"], step["length_before"], step["length_after"]) == (str(t), str(t), str(t + 1))
        assert step["cache_shape"] == ["1", "2", str(t + 1), "2"]
        assert step["max_abs_difference"] == "0.000000000000"
    work = {name: figure for name, figure in FIGURES["work"].items() if isinstance(figure, str)}
    full, incremental, reused = 1 + 2 + 3, 3, 0 + 1 + 2
    assert work == {
        "full_rows_per_projection": str(full), "incremental_rows_per_projection": str(incremental),
        "reused_rows_per_kv_projection": str(reused), "avoided_rows_across_kv": str(2 * reused),
        "reused_key_rows": str(reused), "reused_value_rows": str(reused),
    }
    assert full == incremental + reused
    assert FIGURES["work"]["newest_query_key_rows"] == ["1", "2", "3"]


def test_the_six_report_lines_follow_from_the_figures() -> None:
    lines = [
        f"step=position:{t} cache:{t}->{t + 1} shape:[1,2,{t + 1},2] max_abs_diff:0.000000000000 "
        f"output:[{','.join(rounded(x, 9) for x in row(EXACT, 'output', t))}]"
        for t in range(3)
    ]
    lines += [
        "work=full_rows_per_projection:6 incremental_rows_per_projection:3 reused_rows_per_kv_projection:3 "
        "avoided_rows_across_kv:6",
        "reset=before:3 after:0 allocation_reused:true storage_unchanged:true replay_identical:true",
        "errors=two_tokens:true full_cache:true model_mismatch:true head_mismatch:true layer_mismatch:true "
        "rope_mismatch:true rope_positions_mismatch:true nonfinite_projection:true unchanged:true",
    ]
    assert FIGURES["report_lines"] == lines


def test_the_inputs_are_the_float64_nearest_to_their_closed_forms() -> None:
    context = mpmath.MPContext()
    context.dps = 60
    known = {f"{sign}{name} {n}": (1 if not sign else -1) * getattr(context, name)(n)
             for sign in ("", "-") for name in ("cos", "sin") for n in (1, 2)}  # fmt: skip
    for given, forms, stored in zip(
        FIGURES["inputs_f64"], FIGURES["inputs_closed_form"], CH37.inputs["x"][0].tolist(), strict=True
    ):
        nearest = [float(known[form]) if form in known else float(form) for form in forms]
        assert [float(x) for x in given] == nearest == stored


def test_the_rows_after_the_reset_follow_the_same_rule() -> None:
    context = mpmath.MPContext()
    context.dps = 60
    for t, stored in enumerate(CH37.inputs["z"][0].tolist(), start=3):
        assert stored[:2] == [float(context.cos(t)), float(-context.sin(t))]


def test_every_refused_call_of_the_figures_is_a_step() -> None:
    labels = {step.label for name in ("two-tokens", "rejections") for step in CH37.trace(name).steps}
    refused = [name for name in FIGURES["rejections"] if name != "unchanged"]
    assert len(refused) == 8
    assert set(refused) <= labels
    assert set(FIGURES["rejections"].values()) == {"true"}


def test_the_overflowing_row_is_the_largest_finite_float64() -> None:
    assert CH37.rows("largest") == (" ".join(["0x1.fffffffffffffp+1023"] * 4),)


@pytest.mark.parametrize(("phase", "t"), [("prefill", 1), ("decode", 2)])
def test_logits_of_the_decoder(phase: str, t: int) -> None:
    exact = CH38.tree["sequences"]["first"]["exact"]
    figures = CH38.tree["published"][phase]
    assert figures["logits"] == [rounded(x, 9) for x in row(exact, "output", t)]
    assert figures["cache_shape"] == ["1", "2", str(t + 1), "2"]
    assert figures["max_abs_difference"] == "0.000000000000"


def test_counts_of_the_decoder() -> None:
    published = CH38.tree["published"]
    heads = 2 * 2
    assert published["prefill"]["cached_scores"] == str(heads * (1 + 2))
    assert published["decode"]["cached_scores"] == str(heads * 3)
    assert published["prefill"]["complete_prefix_scores"] == str(heads * 2 * 2)
    assert published["decode"]["complete_prefix_scores"] == str(heads * 3 * 3)
    cached, complete = heads * 6, heads * 13
    counts = ("cached_scores", "complete_prefix_scores", "avoided_scores")
    assert [int(published["work"][name]) for name in counts] == [cached, complete, complete - cached]


def test_parameters_of_the_decoder_are_the_published_decimals() -> None:
    published = CH38.tree["published"]["parameters"]
    parameters = CH38.layers["main"].parameters
    assert set(parameters) == set(published)
    for name, array in parameters.items():
        flat = [float(x) for part in published[name] for x in ([part] if isinstance(part, str) else part)]
        assert array.ravel().tolist() == flat, name


def test_figures_of_forge() -> None:
    check = FORGE.tree["published"]["check"]
    assert (check["gate"], check["published_gap"], check["prompt_tokens"]) == ("1e-5", "3.58e-07", "6")
    assert f"{3 * 2.0**-23:.2e}" == check["published_gap"]
    assert round(float(check["gate"]) / float(check["published_gap"])) == 28
    assert len(FORGE.tree["published"]["must_break_the_gate"]) == 3
