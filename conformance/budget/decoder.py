"""A whole decoder over sequences of tokens: expected values, and how far a correct one may lie from them.

By causality one pass over T tokens holds what every prefill and decode of them must give. It shares no code
with the implementations under `reference_impl`. The bound is derived in `docs/error-bounds-decoder.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.adapter import Precision
from conformance.budget.bounds import APPLICABLE_SPREAD
from conformance.budget.decoder_composed import composed
from conformance.budget.decoder_forward import embedded, halves, logits_of
from conformance.budget.decoder_linear import linearised
from conformance.budget.decoder_sensitivity import MOST_FEATURES
from conformance.budget.decoder_shapes import decoder_operands
from conformance.budget.tolerance import PASS_PRECISION
from conformance.budget.units import Array, Units
from conformance.values import DecoderConfig

SELF_ROUNDINGS = 1e-5 / 2.0**-24
"""The gate of a decoder against itself, in roundings of its arithmetic: forge's 1e-5 in float32 is 168."""

# Bounds are evaluated in float64 at computed values, and the difference that is compared is rounded too.
_SLACK = 1.0 + 2.0**-20


@dataclass(frozen=True, eq=False)
class DecoderPass:
    """logits [B,T,V]; keys as a cache keeps them (rotated where positions are) and values [L,B,G,T,d]."""

    logits: Array
    keys: Array
    values: Array


@dataclass(frozen=True, eq=False)
class DecoderBound:
    """Absolute bounds, each of the shape of the field of `DecoderPass` that it is named after.

    spread is the largest relative error inside any block (of a row, of its attention weights, of its gate);
    above 0.1 the precision is too coarse for this decoder, and the bound says little.
    """

    logits: Array
    keys: Array
    values: Array
    spread: float

    @property
    def applicable(self) -> bool:
        """Whether the precision is fine enough; false also where the bound is NaN."""
        return self.spread <= APPLICABLE_SPREAD


def decoder_pass(config: DecoderConfig, parameters: Mapping[str, Any], tokens: Any) -> DecoderPass:
    """The full causal pass over tokens [B,T] in float64, parameters named as in `decoder_shapes`.

    Numbers that overflow come out as infinities or NaN without a warning. Raises TraceError for a parameter
    or a token that does not fit.
    """
    weights, given = decoder_operands(config, parameters, tokens)
    with np.errstate(all="ignore"):
        rows = embedded(config, weights, given)
        found = list(halves(config, weights, rows))
        return DecoderPass(
            logits_of(config, weights, found[-1].rows),
            np.stack([half.keys for half in found[::2] if half.keys is not None]),
            np.stack([half.values for half in found[::2] if half.values is not None]),
        )


def decoder_bound(
    config: DecoderConfig, parameters: Mapping[str, Any], tokens: Any, precision: Precision
) -> DecoderBound:
    """How far a correct implementation of the declared precision may lie from the exact result.

    It holds for any order of summation and any partition into prefill and decode. Up to `MOST_FEATURES`
    features a lane it is the smaller of two: errors composed half block by half block, and local errors
    carried on by derivatives. Raises as `decoder_pass`.
    """
    weights, given = decoder_operands(config, parameters, tokens)
    units = Units.of(precision)
    with np.errstate(all="ignore"):
        coarse = composed(config, weights, given, units)
        bound = DecoderBound(
            _known(coarse.logits), _known(coarse.keys), _known(coarse.values), coarse.size
        )
        if given.shape[1] * config.layer.model_width > MOST_FEATURES:
            return bound
        fine = linearised(config, weights, given, units)
        return DecoderBound(
            np.fmin(fine.logits, bound.logits), np.fmin(fine.keys, bound.keys),
            np.fmin(fine.values, bound.values), min(fine.size, bound.spread),
        )  # fmt: skip


def _known(error: Array) -> Array:
    """No bound at all where one could not be computed, because errors overflowed on the way."""
    known: Array = np.where(np.isnan(error), np.inf, error)
    return known


def decoder_tolerance(
    config: DecoderConfig, parameters: Mapping[str, Any], tokens: Any, precision: Precision
) -> DecoderBound:
    """The gate for an implementation of `precision` held against `decoder_pass`: both have an error."""
    own = decoder_bound(config, parameters, tokens, PASS_PRECISION)
    theirs = own if precision == PASS_PRECISION else decoder_bound(config, parameters, tokens, precision)
    return DecoderBound(
        (own.logits + theirs.logits) * _SLACK,
        (own.keys + theirs.keys) * _SLACK,
        (own.values + theirs.values) * _SLACK,
        max(own.spread, theirs.spread),
    )
