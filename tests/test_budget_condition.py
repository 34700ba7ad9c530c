"""The condition of the designed fixtures, against the figures that their tolerance rests on."""

from __future__ import annotations

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget import layer_bound, layer_kappa
from tests.budget_fixtures import DESIGNED, mod

PROVABLE = 1e-12 / 2.0**-53
"""The condition up to which 1e-12 is proved for float64."""


@pytest.mark.parametrize(
    ("name", "published"),
    [("seed", 45), ("square", 131), ("weights", 145), ("mean", 2369), ("mod", 5486)],
)
def test_the_condition_of_a_fixture_is_the_published_one(name: str, published: int) -> None:
    arithmetic, _, angle = layer_kappa(*DESIGNED[name]()).largest("output")
    assert round(arithmetic) == published
    assert arithmetic + angle <= PROVABLE


def test_the_angles_of_mod_add_393() -> None:
    assert round(layer_kappa(*mod()).largest()[2]) == 393


def test_extreme_scores_are_beyond_what_1e_12_can_be_proved_for() -> None:
    arithmetic, _, _ = layer_kappa(*DESIGNED["extreme"]()).largest()
    assert f"{arithmetic:.1e}" == "3.5e+06"


def test_a_far_position_costs_6e_10() -> None:
    bound = layer_bound(*mod(head=8, base=1e4), Precision(), first_position=100_003)
    assert f"{bound.output.max():.0e}" == "6e-10"


@pytest.mark.parametrize("name", ["seed", "mod", "weights"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_bound_is_linear_in_the_roundings_while_they_are_small(name: str, dtype: str) -> None:
    fixture = DESIGNED[name]()
    kappa = layer_kappa(*fixture)
    unit = {"float64": 2.0**-53, "float32": 2.0**-24}[dtype]
    bound = layer_bound(*fixture, Precision(dtype, dtype, dtype, dtype))
    for field in ("output", "keys", "values", "weights", "heads"):
        linear = unit * (getattr(kappa.arithmetic, field) + getattr(kappa.angle, field))
        np.testing.assert_allclose(getattr(bound, field), linear, rtol=1e-3, atol=1e-35)


def test_storage_is_a_channel_of_its_own() -> None:
    fixture = mod()
    kappa = layer_kappa(*fixture)
    stored = layer_bound(*fixture, Precision(storage="float32"))
    linear = 2.0**-24 * kappa.storage.output + 2.0**-53 * (kappa.arithmetic.output + kappa.angle.output)
    np.testing.assert_allclose(stored.output, linear, rtol=1e-4)


def test_the_condition_is_one_figure_per_element() -> None:
    config, parameters, rows = mod()
    kappa = layer_kappa(config, parameters, rows)
    assert kappa.arithmetic.output.shape == rows.shape
    assert kappa.largest("keys")[0] == kappa.arithmetic.rotated_key.max()
    with pytest.raises(AttributeError):
        kappa.largest("scores")
