"""The exact layer: the published example to 40 digits, the formulas another way, three arithmetics."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest

from reference_impl.exact import (
    BallArithmetic,
    ExactLayer,
    IntervalArithmetic,
    MpmathArithmetic,
    as_fraction,
    certify,
    decimal_string,
    nearest_float64,
)


@dataclass(frozen=True)
class Rope:
    base: float = 100.0
    pairing: str = "adjacent"
    max_positions: int = 8


@dataclass(frozen=True)
class Config:
    model_width: int = 8
    heads: int = 4
    kv_heads: int = 2
    head_width: int = 4
    rope: Rope = field(default_factory=Rope)


@dataclass(frozen=True)
class Weights:
    query: Any
    key: Any
    value: Any
    output: Any


def eighths(shape: tuple[int, ...], seed: int) -> Any:
    return np.random.default_rng(seed).integers(-6, 7, shape) / 8


def drawn(config: Config, seed: int = 1) -> Weights:
    wide, narrow = config.heads * config.head_width, config.kv_heads * config.head_width
    shapes = ((config.model_width, wide), (config.model_width, narrow), (config.model_width, narrow),
              (wide, config.model_width))
    return Weights(*(eighths(shape, seed + i) for i, shape in enumerate(shapes)))


def floats(nested: Any) -> Any:
    return [floats(x) for x in nested] if isinstance(nested, list) else nearest_float64(nested)


def straightforward(config: Config, weights: Weights, rows: Any) -> dict[str, Any]:
    """Another way to the same numbers: float64, complex numbers for the rotation, a query at a time."""
    x = np.asarray(rows)
    d, half = config.head_width, config.head_width // 2
    group = config.heads // config.kv_heads
    outputs, keys = np.zeros(x.shape), []
    for b, lane in enumerate(x):
        def turned(row: Any, h: int, position: int) -> Any:
            head = row[h * d : (h + 1) * d]
            found = np.zeros(d)
            for i in range(half):
                left, right = (2 * i, 2 * i + 1) if config.rope.pairing == "adjacent" else (i, i + half)
                angle = position * config.rope.base ** (-2 * i / d)
                spin = complex(head[left], head[right]) * cmath.exp(1j * angle)
                found[left], found[right] = spin.real, spin.imag
            return found

        q, k, v = lane @ weights.query, lane @ weights.key, lane @ weights.value
        merged = np.zeros((len(lane), config.heads * d))
        for h in range(config.heads):
            g = h // group
            for t in range(len(lane)):
                scores = [turned(q[t], h, t) @ turned(k[j], g, j) / math.sqrt(d) for j in range(t + 1)]
                shares = np.exp(np.array(scores) - max(scores))
                merged[t, h * d : (h + 1) * d] = shares / shares.sum() @ v[: t + 1, g * d : (g + 1) * d]
        outputs[b] = merged @ weights.output
        keys.append([[turned(row, g, j) for j, row in enumerate(k)] for g in range(config.kv_heads)])
    return {"output": outputs, "rotated_key": np.array(keys)}


VARIANTS = [
    Config(),
    Config(rope=Rope(pairing="half")),
    Config(heads=3, kv_heads=1, head_width=2),
    Config(model_width=5, heads=2, kv_heads=2, head_width=6, rope=Rope(base=10000.0, pairing="half")),
    Config(heads=6, kv_heads=3),
]


@pytest.mark.parametrize("config", VARIANTS, ids=str)
def test_the_formulas_hold_for_every_grouping_and_pairing(config: Config) -> None:
    weights, rows = drawn(config), eighths((2, 4, config.model_width), 9)
    found = ExactLayer(config, weights).run(rows)
    wanted = straightforward(config, weights, rows)
    np.testing.assert_allclose(floats(found.output), wanted["output"], atol=1e-13, rtol=0)
    np.testing.assert_allclose(floats(found.rotated_key), wanted["rotated_key"], atol=1e-14, rtol=0)


EXAMPLE = Config(4, 2, 2, 2, Rope(max_positions=5))
EXCHANGE = [[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0]]
EXAMPLE_WEIGHTS = Weights(np.eye(4), np.eye(4), np.eye(4), EXCHANGE)
EXAMPLE_ROWS = [
    [
        [1, 0, 1, 0],
        [float.fromhex("0x1.14a280fb5068cp-1"), float.fromhex("-0x1.aed548f090ceep-1"), 0, 1],
        [float.fromhex("-0x1.aa22657537205p-2"), float.fromhex("-0x1.d18f6ead1b446p-1"), 1, 1],
    ]
]
FORTY_DIGITS = [
    ["1", "0", "1", "0"],
    ["0.2138090086764157058004094902162763157605", "0.7861909913235842941995905097837236842395",
     "0.7701511529340698805363498681960615370705", "-0.4207354924039482560418603278226365695648"],
    ["0.6290440778027005590169942281047565294178", "0.9453039575433642520478680287178898612471",
     "0.3747184897736657830605160929330181250798", "-0.5835894705445260745182451497296537575656"],
]
NEAREST = [
    ["0x1.0000000000000p+0", "0x0.0p+0", "0x1.0000000000000p+0", "0x0.0p+0"],
    ["0x1.b5e17f5ed7d47p-3", "0x1.9287a0284a0aep-1", "0x1.8a51407da8346p-1", "-0x1.aed548f090ceep-2"],
    ["0x1.421210bbcf667p-1", "0x1.e3fee15cdb32dp-1", "0x1.7fb6342b233b1p-2", "-0x1.2acc3d348eb11p-1"],
]

ARITHMETICS: list[Callable[[], Any]] = [MpmathArithmetic, IntervalArithmetic]


def test_the_published_example_to_forty_digits() -> None:
    output = ExactLayer(EXAMPLE, EXAMPLE_WEIGHTS).run(EXAMPLE_ROWS).output[0]
    assert [[decimal_string(x) for x in row] for row in output] == FORTY_DIGITS
    assert [[nearest_float64(x).hex() for x in row] for row in output] == NEAREST


def test_the_published_example_is_proved_by_intervals() -> None:
    arithmetic = IntervalArithmetic()
    output = ExactLayer(EXAMPLE, EXAMPLE_WEIGHTS, arithmetic=arithmetic).run(EXAMPLE_ROWS).output[0]
    proved = [[certify(*arithmetic.ends(x)) for x in row] for row in output]
    assert [[one.decimal for one in row] for row in proved] == FORTY_DIGITS
    assert [[one.exact for one in row] for row in proved] == [[True] * 4, [False] * 4, [False] * 4]


def test_balls_agree_with_intervals_on_every_number() -> None:
    pytest.importorskip("flint", reason="python-flint is an extra")
    config = VARIANTS[1]
    weights, rows = drawn(config, seed=4), eighths((2, 4, 8), 5)
    seen = []
    for arithmetic in (IntervalArithmetic(), BallArithmetic()):
        found = ExactLayer(config, weights, arithmetic=arithmetic).run(rows)
        fields = (found.output, found.rotated_key, found.weights, found.merged, found.query)
        flat = [x for field in fields for x in leaves(field)]
        seen.append([certify(*arithmetic.ends(x)).decimal for x in flat])
    assert len(seen[0]) > 300
    assert seen[0] == seen[1]


def leaves(nested: Any) -> list[Any]:
    return [x for part in nested for x in leaves(part)] if isinstance(nested, list) else [nested]


def test_enclosures_hold_the_value_of_a_higher_precision() -> None:
    config = VARIANTS[0]
    weights, rows = drawn(config), eighths((1, 3, 8), 3)
    narrow = IntervalArithmetic(30)
    enclosed = leaves(ExactLayer(config, weights, arithmetic=narrow).run(rows).output)
    precise = leaves(ExactLayer(config, weights, arithmetic=MpmathArithmetic(90)).run(rows).output)
    for one, other in zip(enclosed, precise, strict=True):
        low, high = narrow.ends(one)
        assert low <= as_fraction(other) <= high


def test_two_precisions_round_to_the_same_forty_digits() -> None:
    config = VARIANTS[4]
    weights, rows = drawn(config), eighths((1, 3, 8), 3)
    found = [ExactLayer(config, weights, arithmetic=MpmathArithmetic(n)).run(rows).output for n in (50, 80)]
    fifty, eighty = ([decimal_string(x) for x in leaves(output)] for output in found)
    assert fifty == eighty


def test_a_grouped_layer_is_a_plain_one_with_repeated_weights() -> None:
    config = Config(heads=6, kv_heads=3, head_width=2)
    weights, rows = drawn(config), eighths((1, 3, 8), 3)

    def repeat(matrix: Any) -> Any:
        return np.repeat(matrix.reshape(8, 3, 2), 2, axis=1).reshape(8, 12)

    repeated = Weights(weights.query, repeat(weights.key), repeat(weights.value), weights.output)
    plain = ExactLayer(replace(config, kv_heads=6), repeated).run(rows)
    assert plain.output == ExactLayer(config, weights).run(rows).output


def test_later_rows_change_nothing_and_a_pass_may_begin_late() -> None:
    config = VARIANTS[0]
    layer, rows = ExactLayer(config, drawn(config)), eighths((2, 4, 8), 3)
    whole, short, late = layer.run(rows), layer.run(rows[:, :2]), layer.run(rows, first=2)
    for b in range(2):
        assert whole.output[b][:2] == short.output[b]
        assert whole.output[b][2:] == late.output[b]
        assert whole.rotated_key[b] == late.rotated_key[b]
        for h in range(4):
            assert whole.weights[b][h][2:] == late.weights[b][h]
            assert whole.rotated_query[b][h][2:] == late.rotated_query[b][h]


def test_rational_by_construction_is_exact_in_every_arithmetic() -> None:
    config = Config(model_width=4, heads=2, kv_heads=1, head_width=2)
    weights = Weights(np.zeros((4, 4)), np.ones((4, 2)), np.ones((4, 2)), np.eye(4))
    rows = [[[Fraction(3, 2**70), 0, 0, 0], [Fraction(1, 4), 0, 0, 0], [-1, 0, 0, 0], [1, 0, 0, 0]]]
    for make in ARITHMETICS:
        arithmetic = make()
        output = ExactLayer(config, weights, arithmetic=arithmetic).run(rows).output[0]
        low, high = arithmetic.ends(output[3][0])
        assert low == high == (Fraction(3, 2**70) + Fraction(1, 4)) / 4


def test_inputs_are_the_stored_numbers_not_their_decimals() -> None:
    config = Config(model_width=4, heads=2, kv_heads=2, head_width=2)
    identity = Weights(*[np.eye(4)] * 4)
    found = ExactLayer(config, identity).run([[[0.1, np.float32(0.1), Fraction(1, 10), 0]]]).output[0][0]
    assert as_fraction(found[0]) == Fraction(0.1)
    assert as_fraction(found[1]) == Fraction(float(np.float32(0.1)))
    assert as_fraction(found[2]) not in (Fraction(0.1), Fraction(float(np.float32(0.1))))


def test_scores_beyond_float64_are_no_trouble() -> None:
    config = Config(model_width=4, heads=2, kv_heads=2, head_width=2)
    huge = 1.7976931348623157e308
    found = ExactLayer(config, Weights(*[np.eye(4)] * 4)).run([[[huge] * 4, [-huge] * 4, [huge, 0, 0, 0]]])
    assert nearest_float64(found.scores[0][0][0][0]) == math.inf
    assert sum(nearest_float64(x) for x in found.weights[0][0][2]) == 1.0


def test_nobody_elses_precision_changes() -> None:
    before = (mpmath.mp.dps, mpmath.iv.dps)
    for make in ARITHMETICS:
        ExactLayer(EXAMPLE, EXAMPLE_WEIGHTS, arithmetic=make()).run(EXAMPLE_ROWS)
    assert (mpmath.mp.dps, mpmath.iv.dps) == before
    mpmath.mp.dps = 3
    try:
        test_the_published_example_to_forty_digits()
    finally:
        mpmath.mp.dps = before[0]


def test_flints_precision_is_given_back() -> None:
    flint = pytest.importorskip("flint", reason="python-flint is an extra")
    before = flint.ctx.prec
    ExactLayer(EXAMPLE, EXAMPLE_WEIGHTS, arithmetic=BallArithmetic()).run(EXAMPLE_ROWS)
    assert flint.ctx.prec == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kv_heads": 3}, "3 key/value heads do not divide 4"),
        ({"head_width": 3}, "no whole number of rotary pairs"),
        ({"rope": Rope(pairing="other")}, "neither 'adjacent' nor 'half'"),
        ({"model_width": 7}, r"query weights must be \[7, 16\]"),
    ],
)
def test_a_geometry_that_makes_no_layer_is_refused(change: dict[str, Any], said: str) -> None:
    weights = drawn(Config())
    with pytest.raises(ValueError, match=said):
        ExactLayer(replace(Config(), **change), weights)


def test_rows_that_do_not_fit_are_refused() -> None:
    layer = ExactLayer(Config(rope=Rope(max_positions=2)), drawn(Config()))
    with pytest.raises(ValueError, match="lane 0 has 3 rows; the layer has 2 positions"):
        layer.run(eighths((1, 3, 8), 1))
    with pytest.raises(ValueError, match="lane 1, row 0: 7 numbers; the layer takes 8"):
        layer.run([[[0] * 8], [[0] * 7]])


def test_without_python_flint_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "flint", None)
    with pytest.raises(ImportError, match=r"pip install 'kv-conformance\[rigorous\]'"):
        BallArithmetic()
