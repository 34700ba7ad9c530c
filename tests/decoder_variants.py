"""Legitimate ways to compute one and the same decoder: each must stay within the error bound.

Orders of summation, softmaxes, scalings and rotations are those of `budget_variants`; norms and activations
have customary forms of their own. Run in extended precision, the same code gives the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.budget.decoder_shapes import decoder_shapes
from conformance.values import DecoderConfig, LayerConfig, RopeConfig
from tests.budget_variants import WIDE, Variant, add, attend, dot, random_variant, rotate

NORMS = ("divide", "reciprocal", "gain-first", "scaled", "stored")
ACTIVATIONS = ("quotient", "sigmoid", "tanh")


@dataclass(frozen=True)
class How:
    """One way to compute a decoder."""

    inner: Variant
    norm: str = "divide"
    activation: str = "quotient"


def random_how(r: np.random.Generator, profile: str) -> How:
    return How(random_variant(r, profile), NORMS[r.integers(len(NORMS))], ACTIVATIONS[r.integers(3)])


def run(config: DecoderConfig, parameters: dict[str, Any], tokens: Any, how: How) -> dict[str, Any]:
    """logits [B,T,V], keys and values [L,B,G,T,d]."""
    with np.errstate(all="ignore"):
        return _Run(config, parameters, how).run(np.asarray(tokens))


def truth(config: DecoderConfig, parameters: dict[str, Any], tokens: Any) -> dict[str, Any]:
    return run(config, parameters, tokens, How(Variant(arithmetic=WIDE)))


class _Run:
    def __init__(self, config: DecoderConfig, parameters: dict[str, Any], how: How) -> None:
        self.config, self.how, self.kind = config, how, how.inner.arithmetic
        self.weights = {name: np.asarray(value).astype(self.kind) for name, value in parameters.items()}

    def run(self, tokens: Any) -> dict[str, Any]:
        embedding = self.weights["token_embedding.weight"]
        rows = embedding[tokens]
        if self.config.positions == "learned":
            rows = self.store(rows + self.weights["position_embedding.weight"][: tokens.shape[1]])
        keys, values = [], []
        for block in range(self.config.layers):
            at = f"blocks.{block}"
            mixed, key, value = self.attention(f"{at}.attention", self.norm(f"{at}.attention_norm", rows))
            rows = self.store(rows + mixed)
            normed = self.norm(f"{at}.ffn_norm", rows)
            hidden = self.activated(self.project(f"{at}.ffn.gate", normed))
            hidden = self.store(hidden * self.project(f"{at}.ffn.up", normed))
            rows = self.store(rows + self.project(f"{at}.ffn.down", hidden))
            keys.append(key)
            values.append(value)
        head = embedding.T if self.config.tied else self.weights["head.weight"]
        logits = self.store(dot(self.norm("final_norm", rows), head, self.how.inner))
        return {"logits": logits, "keys": np.stack(keys), "values": np.stack(values)}

    def store(self, numbers: Any) -> Any:
        return self.how.inner.store(numbers)

    def project(self, name: str, rows: Any) -> Any:
        product = dot(rows, self.weights[f"{name}.weight"], self.how.inner)
        bias = self.weights.get(f"{name}.bias")
        return self.store(product if bias is None else self.store(product) + bias)

    def norm(self, name: str, rows: Any) -> Any:
        gain, width = self.weights[f"{name}.gain"], self.kind(rows.shape[-1])
        epsilon, one = self.kind(self.config.norm_epsilon), self.kind(1)
        form = self.how.norm
        shrink = one
        if form == "scaled":
            shrink = np.maximum(np.abs(rows).max(axis=-1, keepdims=True), one)
            rows = rows / shrink
        order = self.how.inner.order
        squares = rows * rows
        total = (
            squares.sum(axis=-1) if order in {"matmul", "fused"} else add(squares, -1, order)
        )[..., None]
        root = np.sqrt(total / width + epsilon / (shrink * shrink))
        if form == "reciprocal":
            return self.store(rows * (one / root) * gain)
        if form == "gain-first":
            return self.store(rows * (gain * (one / root)))
        if form == "stored":
            return self.store(self.store(rows / root) * gain)
        return self.store(rows / root * gain)

    def activated(self, gate: Any) -> Any:
        one = self.kind(1)
        if self.how.activation == "sigmoid":
            return self.store(gate * (one / (one + np.exp(-gate))))
        if self.how.activation == "tanh":
            half = self.kind(0.5)
            return self.store(gate * (half * (one + np.tanh(half * gate))))
        return self.store(gate / (one + np.exp(-gate)))

    def attention(self, at: str, rows: Any) -> tuple[Any, Any, Any]:
        layer, (batch, count, _) = self.config.layer, rows.shape

        def heads(name: str, number: int) -> Any:
            return self.project(f"{at}.{name}", rows).reshape(batch, count, number, -1).swapaxes(1, 2)

        query, key, value = (
            heads("query", layer.heads), heads("key", layer.kv_heads), heads("value", layer.kv_heads),
        )
        if self.config.positions == "rope":
            positions = np.arange(count)
            query, key = (rotate(z, positions, layer.rope, self.how.inner) for z in (query, key))
        share = layer.heads // layer.kv_heads
        keys, values = (np.repeat(z, share, axis=1) for z in (key, value))
        mixed, _ = attend(query, keys, values, self.how.inner)
        merged = self.store(mixed).swapaxes(1, 2).reshape(batch, count, -1)
        return self.project(f"{at}.output", merged), key, value


def random_decoder(r: np.random.Generator) -> tuple[DecoderConfig, dict[str, Any], Any]:
    """A small decoder with any options and small exact weights, sometimes large or sparse; and tokens."""
    heads, kv_heads = ((1, 1), (2, 1), (2, 2), (4, 2))[r.integers(4)]
    head, width, inner = (int(r.choice(c)) for c in ((2, 4), (2, 4, 6), (1, 3, 6)))
    rope = RopeConfig(float(r.choice([100.0, 1e4, 2.0])), ("adjacent", "half")[r.integers(2)], 16)
    positions: Any = ("rope", "learned")[r.integers(2)]
    config = DecoderConfig(
        5, int(r.integers(1, 4)), LayerConfig(width, heads, kv_heads, head, rope), inner,
        float(r.choice([1e-6, 1e-5, 1e-2])), positions, bool(r.integers(2)), bool(r.integers(2)),
    )
    size = float(r.choice([2, 6, 16]))
    parameters = {}
    for name, shape in decoder_shapes(config).items():
        drawn = np.round(r.standard_normal(shape) * size) / 16
        if r.random() < 0.15:
            drawn = drawn * (r.random(shape) < 0.4)
        parameters[name] = 1 + drawn / 4 if name.endswith("gain") else drawn
    # A row of zeros has no scale of its own, so that epsilon alone would decide.
    parameters["token_embedding.weight"][:, 0] += 0.5
    tokens = r.integers(0, 5, (int(r.integers(1, 3)), int(r.choice([1, 2, 4, 7]))))
    return config, parameters, tokens
