"""The error of rotated heads, place by place."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget.rotary import rotation
from conformance.budget.rotation_bound import angle_error, rotated_error
from conformance.budget.units import Units
from conformance.values import RopeConfig

SINGLE = 2.0**-24


def share_of_roundings(precision: Precision, *, eager: bool = False) -> float:
    """The relative error of a rotation by an angle without error, in units of float32."""
    turn = rotation(RopeConfig(1.0, "adjacent", 8), 2, 1, 1)
    heads = np.array([[[[1.0, 0.0]]]])
    units = Units.of(precision, eager=eager)
    error = rotated_error(turn, heads, turn.apply(heads), np.zeros_like(heads), units)
    wrong = np.abs(turn.apply(heads))[..., ::-1] * angle_error(turn, units)
    kept = units.storage * np.abs(turn.apply(heads))
    return float(((error - wrong - kept) / np.abs(turn.apply(heads)))[0, 0, 0, 0] / SINGLE)


def test_cosines_and_sines_of_float32_cost_four_roundings_and_products_two() -> None:
    single = Precision("float32", "float32", "float32", "float32")
    assert share_of_roundings(single) == pytest.approx(6, rel=1e-4)


def test_cosines_and_sines_of_float64_are_rounded_to_float32_once() -> None:
    mixed = Precision("float32", "float32", "float32", "float64")
    assert share_of_roundings(mixed) == pytest.approx(3, rel=1e-4)


def test_eager_storage_rounds_table_product_and_sum() -> None:
    half = Precision("bfloat16", "float32", "float32", "float32")
    eager, fused = (share_of_roundings(half, eager=eager) for eager in (True, False))
    assert eager - fused == pytest.approx(3 * 2.0**-8 / SINGLE, rel=0.02)


def test_an_angle_error_grows_with_position_and_with_the_exponent() -> None:
    turn = rotation(RopeConfig(1e4, "half", 2**20), 4, 1000, 2)
    error = angle_error(turn, Units(angle=1.0))
    np.testing.assert_allclose(error[:, 0], 4 * np.array([1000, 1001]))
    np.testing.assert_allclose(error[:, 1], (4 + 2 * np.log(1e4)) * np.array([1000, 1001]) / 100)


@pytest.mark.parametrize("wrong", [1e-9, 1e-3, 0.3, 1.0, 3.0, 100.0])
def test_no_wrong_angle_within_the_error_moves_a_pair_further(wrong: float) -> None:
    position = max(1, round(100 * wrong))
    turn = rotation(RopeConfig(1.0, "half", 2**20), 2, position, 1)
    heads = np.random.default_rng(3).standard_normal((50, 1, 1, 2))
    right = turn.apply(heads)
    units = Units(angle=wrong / (4 * position))
    bound = rotated_error(turn, heads, right, np.zeros_like(heads), units)
    assert angle_error(turn, units).item() == pytest.approx(wrong)
    for angle in position + wrong * np.linspace(-1, 1, 41):
        c, s = np.cos(angle), np.sin(angle)
        a, b = heads[..., 0], heads[..., 1]
        moved = np.stack([a * c - b * s, a * s + b * c], axis=-1)
        assert (np.abs(moved - right) <= bound * (1 + 1e-9) + 1e-15).all()


def test_tables_are_shared_and_cannot_be_written() -> None:
    first, again = (rotation(RopeConfig(100.0, "half", 8), 4, 0, 3) for _ in range(2))
    assert first is again
    with pytest.raises(ValueError, match="read-only"):
        first.cosine[0, 0] = 2
