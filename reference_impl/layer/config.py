"""What a layer is: its widths, its heads, its rotary positions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from reference_impl.layer_errors import RopeSettings

Pairing = Literal["adjacent", "half"]
PARAMETER_NAMES = ("query", "key", "value", "output")
"""The four parameter nodes in the order in which identities and revisions are compared."""


@dataclass(frozen=True)
class RopeConfig:
    """Pair i turns by `position * base**(-2i/d)` radians, at positions 0 to `max_positions - 1`.

    pairing: `"adjacent"` turns features (2i, 2i+1) together, `"half"` features (i, i + d/2).
    """

    base: float
    pairing: Pairing
    max_positions: int

    def __post_init__(self) -> None:
        if not (math.isfinite(self.base) and self.base > 0):
            raise ValueError(f"RopeConfig: base is {self.base}; it must be finite and above 0")
        if self.pairing not in ("adjacent", "half"):
            raise ValueError(f"RopeConfig: pairing is {self.pairing!r}; it may be 'adjacent' or 'half'")
        if self.max_positions < 1:
            raise ValueError(f"RopeConfig: max_positions is {self.max_positions}; at least 1 is needed")


@dataclass(frozen=True)
class LayerConfig:
    """D model width, H query heads, G key/value heads (G divides H), d head width (even).

    Query head h reads key/value head `h // (H // G)`: G = H is multi-head, G = 1 multi-query attention.
    """

    model_width: int
    heads: int
    kv_heads: int
    head_width: int
    rope: RopeConfig

    def __post_init__(self) -> None:
        for name in ("model_width", "heads", "kv_heads", "head_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"LayerConfig: {name} is {getattr(self, name)}; at least 1 is needed")
        if self.heads % self.kv_heads:
            raise ValueError(
                f"LayerConfig: {self.heads} query heads cannot share {self.kv_heads} key/value heads evenly"
            )
        if self.head_width % 2:
            raise ValueError(
                f"LayerConfig: head width {self.head_width} is odd; RoPE turns pairs of features"
            )

    def shape_of(self, name: str) -> tuple[int, int]:
        """The [in, out] shape of a parameter, by its name."""
        query_width, kv_width = self.heads * self.head_width, self.kv_heads * self.head_width
        return {
            "query": (self.model_width, query_width),
            "key": (self.model_width, kv_width),
            "value": (self.model_width, kv_width),
            "output": (query_width, self.model_width),
        }[name]

    def rope_settings(self) -> RopeSettings:
        """What a cache has to remember of the rotary positions."""
        rope = self.rope
        return RopeSettings(self.head_width, rope.max_positions, rope.base, rope.pairing)
