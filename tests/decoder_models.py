"""Decoders for tests: the published one of chapter 38, and any other filled with eighths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from reference_impl.decoder import DecoderConfig
from reference_impl.layer import LayerConfig, RopeConfig

FIGURES: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parent / "data" / "ch38.yaml").read_text(encoding="utf-8")
)
PUBLISHED_CONFIG = DecoderConfig(5, 2, LayerConfig(4, 2, 2, 2, RopeConfig(10000.0, "adjacent", 4)), 4, 1e-6)


def published_parameters() -> dict[str, Any]:
    return {name: np.array(rows, dtype=np.float64) for name, rows in FIGURES["parameters"].items()}


def config(**changes: Any) -> DecoderConfig:
    """A decoder of 3 blocks, 6 query and 3 key/value heads of width 4, 7 tokens, 12 positions."""
    rope = RopeConfig(100.0, changes.pop("pairing", "half"), 12)
    layer = LayerConfig(10, changes.pop("heads", 6), changes.pop("kv_heads", 3), 4, rope)
    return DecoderConfig(7, 3, layer, 9, 1e-5, **changes)


def parameters(of: DecoderConfig, seed: int = 5, size: int = 6) -> dict[str, Any]:
    """Small exact fractions, k/16 with |k| <= size; gains lie about 1."""
    rng = np.random.default_rng(seed)
    filled = {}
    for name, shape in of.parameter_shapes().items():
        drawn = rng.integers(-size, size + 1, shape) / 16
        filled[name] = 1 + drawn if name.endswith("gain") else drawn
    return filled
