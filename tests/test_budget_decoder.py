"""The decoder's expected values and error bound: right, never exceeded, not vacuous, and quick to refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from conformance.adapter import Precision
from conformance.budget.decoder import decoder_bound, decoder_pass, decoder_tolerance
from conformance.budget.decoder_composed import composed
from conformance.budget.decoder_linear import linearised
from conformance.budget.decoder_sensitivity import MOST_FEATURES
from conformance.budget.decoder_shapes import decoder_operands, decoder_shapes
from conformance.budget.units import Units
from conformance.errors import TraceError
from conformance.golden_files import load
from conformance.scenarios.decoder_material import decoder_config, decoder_parameters, token_block
from conformance.values import DecoderConfig
from reference_impl.exact_decoder import exact_pass
from tests.budget_variants import PROFILES, Variant, may_overflow
from tests.decoder_variants import How, random_decoder, random_how, run, truth

OPTIONS: dict[str, dict[str, Any]] = {
    "rope": {},
    "grouped, half": {"heads": 6, "kv_heads": 3, "head_width": 2, "pairing": "half"},
    "learned, free, biased": {"positions": "learned", "tied": False, "biases": True, "kv_heads": 1},
}
SINGLE = Precision("float32", "float32", "float32", "float32")


def decoder(option: str, count: int = 6) -> tuple[DecoderConfig, dict[str, Any], Any]:
    config = decoder_config(**OPTIONS[option])
    return config, decoder_parameters(config), token_block(config, 2, count)


def shares(found: dict[str, Any], true: dict[str, Any], bound: Any) -> dict[str, float]:
    used = {}
    for name, array in found.items():
        error = np.abs(array.astype(np.longdouble) - true[name])
        limit = np.maximum(getattr(bound, name), np.finfo(np.float64).smallest_subnormal)
        used[name] = float(np.where(error > 0, error / limit, 0).max())
    return used


@pytest.mark.parametrize("option", OPTIONS)
def test_expected_values_are_those_of_the_exact_decoder(option: str) -> None:
    config, parameters, tokens = decoder(option, 4)
    found = decoder_pass(config, parameters, tokens)
    bound = decoder_bound(config, parameters, tokens, Precision())
    for lane, own in enumerate(tokens):
        exact = exact_pass(config, parameters, own.tolist())
        for name, value in (("logits", found.logits[lane]), ("keys", found.keys[:, lane]),
                            ("values", found.values[:, lane])):  # fmt: skip
            true = np.array(getattr(exact, name), dtype=np.float64)
            assert value.shape == true.shape
            limit = bound.logits[lane] if name == "logits" else getattr(bound, name)[:, lane]
            assert (np.abs(value - true) <= np.minimum(limit, 1e-13)).all(), name


def test_the_promise_of_2e_12_is_proved_on_the_published_decoder() -> None:
    source = load("ch38").traces()[0].layers["main"]
    tokens = load("ch38").inputs["x"].astype(int)
    bound = decoder_bound(source.config, source.parameters, tokens, Precision())  # type: ignore[union-attr, arg-type]
    assert bound.applicable
    assert 1e-14 < bound.logits.max() < 2e-12
    assert bound.keys.max() < 2e-12
    assert bound.values.max() < 2e-12


@pytest.mark.parametrize("seed", range(45))
def test_no_correct_variant_exceeds_the_bound(seed: int) -> None:
    r = np.random.default_rng(seed)
    profile = list(PROFILES)[seed % len(PROFILES)]
    config, parameters, tokens = random_decoder(r)
    true = truth(config, parameters, tokens)
    how = random_how(r, profile)
    if "eager" in profile or may_overflow(how.inner, profile):
        # Intermediates stored in the coarser dtype are no profile of the decoder's bound.
        how = replace(how, inner=replace(how.inner, eager=False, softmax="plain"))
    bound = decoder_bound(config, parameters, tokens, how.inner.precision)
    if not bound.applicable:
        return
    used = shares(run(config, parameters, tokens, how), true, bound)
    assert max(used.values()) <= 1.0, (how, used)


@pytest.mark.parametrize("option", OPTIONS)
def test_the_bound_is_not_vacuous(option: str) -> None:
    config, parameters, tokens = decoder(option)
    expected = decoder_pass(config, parameters, tokens)
    double = decoder_bound(config, parameters, tokens, Precision())
    single = decoder_bound(config, parameters, tokens, SINGLE)
    assert double.applicable
    assert single.applicable
    assert double.logits.max() < 2e-11
    assert single.logits.max() < 0.01 * np.abs(expected.logits).max()
    # What a float64 implementation loses by keeping its rows in float32 is far outside.
    rows32 = run(config, parameters, tokens, How(Variant(storage="float32")))
    used = shares(rows32, truth(config, parameters, tokens), double)
    assert min(used.values()) > 100


@pytest.mark.parametrize("option", OPTIONS)
def test_small_faults_lie_outside(option: str) -> None:
    config, parameters, tokens = decoder(option)
    gate = decoder_tolerance(config, parameters, tokens, Precision())
    right = decoder_pass(config, parameters, tokens).logits
    epsilon = replace(config, norm_epsilon=config.norm_epsilon * 1.001)
    moved = decoder_pass(epsilon, parameters, tokens).logits
    assert (np.abs(moved - right) / gate.logits).max() > 100
    for name in ("blocks.2.ffn_norm.gain", "blocks.0.attention.key.weight", "final_norm.gain"):
        changed = {**parameters, name: parameters[name] * (1 + 2.0**-26)}
        moved = decoder_pass(config, changed, tokens).logits
        assert (np.abs(moved - right) / gate.logits).max() > 10, name


def test_the_tolerance_is_both_bounds_and_hardly_more() -> None:
    config, parameters, tokens = decoder("rope")
    own = decoder_bound(config, parameters, tokens, Precision())
    other = decoder_bound(config, parameters, tokens, SINGLE)
    for precision, theirs in ((Precision(), own), (SINGLE, other)):
        gate = decoder_tolerance(config, parameters, tokens, precision)
        for name in ("logits", "keys", "values"):
            both = getattr(own, name) + getattr(theirs, name)
            assert (getattr(gate, name) >= both).all()
            assert (getattr(gate, name) <= both * 1.00001).all()


def test_derivatives_make_the_bound_of_a_deep_decoder_usable() -> None:
    config, parameters, tokens = decoder("rope")
    weights, given = decoder_operands(config, parameters, tokens)
    units = Units.of(Precision())
    coarse, fine = composed(config, weights, given, units), linearised(config, weights, given, units)
    assert (coarse.logits > 100 * fine.logits).all()
    bound = decoder_bound(config, parameters, tokens, Precision())
    assert (bound.logits <= np.minimum(coarse.logits, fine.logits)).all()


def test_a_long_prompt_takes_the_composed_form_in_little_memory() -> None:
    config = decoder_config()
    config = replace(
        config, layers=1, layer=replace(config.layer, rope=replace(config.layer.rope, max_positions=400))
    )
    parameters, tokens = decoder_parameters(config), token_block(config, 1, 300)
    assert tokens.shape[1] * config.layer.model_width > MOST_FEATURES
    bound = decoder_bound(config, parameters, tokens, Precision())
    used = shares(run(config, parameters, tokens, How(Variant())), truth(config, parameters, tokens), bound)
    assert 0 < max(used.values()) <= 1.0
    assert bound.logits.max() < 1e-6


def test_a_prefix_of_the_tokens_gives_a_prefix_of_the_values() -> None:
    config, parameters, tokens = decoder("rope")
    whole, part = (decoder_pass(config, parameters, tokens[:, :n]) for n in (6, 3))
    assert np.abs(whole.logits[:, :3] - part.logits).max() < 1e-13
    assert np.abs(whole.keys[..., :3, :] - part.keys).max() < 1e-13


def test_an_overflow_is_a_number_and_no_warning() -> None:
    config, parameters, tokens = decoder("rope")
    parameters["final_norm.gain"] = np.full(8, 1e308)
    assert not np.isfinite(decoder_pass(config, parameters, tokens).logits).all()
    assert not decoder_bound(config, parameters, tokens, Precision("float16", *["float16"] * 3)).applicable


@pytest.mark.parametrize(
    ("change", "tokens", "text"),
    [
        ({"final_norm.gain": None}, [[0]], "final_norm.gain missing or unknown"),
        ({"more": np.zeros(1)}, [[0]], "more missing or unknown"),
        ({"final_norm.gain": np.zeros(3)}, [[0]], r"shape \[3\]; asked for \[8\]"),
        ({}, [[7]], "token 7; the vocabulary is 0 to 6"),
        ({}, [[-1]], "token -1"),
        ({}, [0], r"tokens of shape \[1\]"),
        ({}, [[]], "not empty"),
        ({}, [[0] * 13], "13 tokens for 12 positions"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], tokens: Any, text: str) -> None:
    config, parameters, _ = decoder("rope")
    given = {name: value for name, value in {**parameters, **change}.items() if value is not None}
    with pytest.raises(TraceError, match=text):
        decoder_pass(config, given, tokens)


def test_shapes_follow_the_configuration() -> None:
    plain = decoder_shapes(decoder_config())
    every = decoder_shapes(decoder_config(positions="learned", tied=False, biases=True, kv_heads=1))
    assert next(iter(plain)) == "token_embedding.weight"
    assert list(plain)[-1] == "final_norm.gain"
    assert set(every) - set(plain) == {
        "position_embedding.weight", "head.weight",
        *(f"blocks.{n}.{part}.bias" for n in range(3)
          for part in ("attention.query", "attention.key", "attention.value", "attention.output",
                       "ffn.gate", "ffn.up", "ffn.down")),
    }  # fmt: skip
    assert every["blocks.0.attention.key.weight"] == (8, 4)
    assert every["blocks.0.attention.key.bias"] == (4,)
