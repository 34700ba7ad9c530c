"""Each stage of the decoder's bound on its own: what it rounds, what it carries, and that it is not loose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget.decoder_stages import added, exact, gated, linear, rms_norm
from conformance.budget.score_bound import Operand
from conformance.budget.units import Units

SINGLE = Units.of(Precision("float32", "float32", "float32", "float32"))
NONE = Units()
EPSILON = 1e-5
Array = np.ndarray[Any, Any]


def single(array: Array) -> Array:
    return array.astype(np.float32).astype(np.float64)


def operands(seed: int) -> dict[str, Array]:
    r = np.random.default_rng(seed)
    scale = 2.0 ** r.integers(-6, 7, (4, 1))
    return {
        "rows": single(r.standard_normal((4, 8)) * scale), "more": single(r.standard_normal((4, 8))),
        "gain": single(r.standard_normal(8)), "weight": single(r.standard_normal((8, 5))),
        "bias": single(r.standard_normal(5)), "sign": np.sign(r.standard_normal((4, 8))),
    }  # fmt: skip


def norm(rows: Array, gain: Array) -> Array:
    mean = np.mean(rows * rows, axis=-1, keepdims=True, dtype=rows.dtype)
    return rows / np.sqrt(mean + rows.dtype.type(EPSILON)) * gain


def silu_times(gate: Array, up: Array) -> Array:
    return gate / (1 + np.exp(-gate)) * up


def tanh_silu_times(gate: Array, up: Array) -> Array:
    half = gate.dtype.type(0.5)
    return gate * (half * (1 + np.tanh(half * gate))) * up


STAGES: dict[str, tuple[Callable[..., Array], Callable[..., Operand], tuple[str, ...]]] = {
    "linear": (lambda x, w: x @ w, lambda u, x, w: linear(x, w, None, u), ("rows", "weight")),
    "linear with bias": (
        lambda x, w, b: x @ w + b, lambda u, x, w, b: linear(x, w, b, u), ("rows", "weight", "bias"),
    ),
    "norm": (norm, lambda u, x, g: rms_norm(x, g, EPSILON, u), ("rows", "gain")),
    "gated": (silu_times, lambda u, x, y: gated(x, exact(y), u), ("rows", "more")),
    "gated by tanh": (tanh_silu_times, lambda u, x, y: gated(x, exact(y), u), ("rows", "more")),
    "residual": (lambda x, y: x + y, lambda u, x, y: added(x, exact(y), u), ("rows", "more")),
}


def shares(stage: str, seed: int, units: Units, *, carried: float) -> Array:
    """How much of its bound each result uses, computed in float32 or, where nothing is rounded, exactly."""
    compute, bound, names = STAGES[stage]
    given = operands(seed)
    x, rest = given["rows"], [given[name] for name in names[1:]]
    error = carried * np.abs(x)
    limit = bound(units, Operand(x, error), *rest)
    kind = np.float32 if units.arithmetic else np.longdouble
    with np.errstate(all="ignore"):
        # Moved against the sign of every feature, as far as the error allows.
        moved = (x.astype(np.longdouble) + error * given["sign"]).astype(kind)
        found = compute(moved, *(array.astype(kind) for array in rest)).astype(np.longdouble)
        true = compute(x.astype(np.longdouble), *(array.astype(np.longdouble) for array in rest))
    off = np.abs(found - true)
    return np.asarray(np.where(off > 0, off / np.maximum(limit.error, 1e-300), 0), dtype=np.float64)


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_stage_rounds_is_within_its_bound_and_not_far_below(stage: str) -> None:
    used = [shares(stage, seed, SINGLE, carried=0.0).max() for seed in range(25)]
    assert max(used) <= 1.0
    assert max(used) > 0.03


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("carried", [1e-9, 1e-3, 0.3])
def test_what_a_stage_carries_is_within_its_bound_and_not_far_below(stage: str, carried: float) -> None:
    used = [shares(stage, seed, NONE, carried=carried).max() for seed in range(25)]
    # The bound itself is evaluated in float64.
    assert max(used) <= 1.0 + 1e-6
    assert max(used) > 0.1


def test_without_rounding_and_error_there_is_no_bound_to_use() -> None:
    given = operands(0)
    for stage, (_, bound, names) in STAGES.items():
        made = bound(NONE, exact(given["rows"]), *(given[name] for name in names[1:]))
        assert not made.error.any(), stage


def test_a_norm_never_errs_by_more_than_it_can_reach() -> None:
    given = operands(1)
    wild = Operand(given["rows"], 1e6 * np.abs(given["rows"]))
    made = rms_norm(wild, given["gain"], EPSILON, NONE)
    assert (made.error <= np.abs(made.exact) + np.sqrt(8) * np.abs(given["gain"]) * (1 + 1e-12)).all()
