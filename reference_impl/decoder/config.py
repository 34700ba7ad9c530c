"""What a decoder is: its widths, its blocks, where positions come in; and the parameters that follow."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from reference_impl.layer import PARAMETER_NAMES, LayerConfig

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class DecoderConfig:
    """A pre-norm decoder: RMSNorm, attention, residual, RMSNorm, SwiGLU, residual; final RMSNorm; head.

    positions: `"rope"` rotates queries and keys inside attention, `"learned"` adds a table to the embedding
    and rotates nothing; either way `layer.rope.max_positions` positions exist. tied: the head is the
    transposed token embedding. biases: on the seven projections of every block, never on norms or head.
    Source: System 3; learned positions, free head and biases are options for other decoders.
    """

    vocabulary: int
    layers: int
    layer: LayerConfig
    feed_forward_width: int
    norm_epsilon: float
    positions: Literal["rope", "learned"] = "rope"
    tied: bool = True
    biases: bool = False

    def __post_init__(self) -> None:
        for name in ("vocabulary", "layers", "feed_forward_width"):
            if getattr(self, name) < 1:
                raise ValueError(f"DecoderConfig: {name} is {getattr(self, name)}; at least 1 is needed")
        if not (math.isfinite(self.norm_epsilon) and self.norm_epsilon >= 0):
            raise ValueError(f"DecoderConfig: norm_epsilon is {self.norm_epsilon}; give one from 0 up")
        if self.positions not in ("rope", "learned"):
            raise ValueError(f"DecoderConfig: positions is {self.positions!r}; it may be 'rope' or 'learned'")

    def parameter_shapes(self) -> Shapes:
        """Every parameter with its shape, weights [in, out], in the order in which revisions are compared."""
        width = self.layer.model_width
        shapes: Shapes = {"token_embedding.weight": (self.vocabulary, width)}
        if self.positions == "learned":
            shapes["position_embedding.weight"] = (self.layer.rope.max_positions, width)
        for block in range(self.layers):
            shapes |= {f"blocks.{block}.{name}": shape for name, shape in self._block_shapes().items()}
        shapes["final_norm.gain"] = (width,)
        if not self.tied:
            shapes["head.weight"] = (width, self.vocabulary)
        return shapes

    def _block_shapes(self) -> Shapes:
        width, inner = self.layer.model_width, self.feed_forward_width
        attention = {f"attention.{name}": self.layer.shape_of(name) for name in PARAMETER_NAMES}
        feed_forward = {"ffn.gate": (width, inner), "ffn.up": (width, inner), "ffn.down": (inner, width)}
        return (
            {"attention_norm.gain": (width,)}
            | self._projections(attention)
            | {"ffn_norm.gain": (width,)}
            | self._projections(feed_forward)
        )

    def _projections(self, shapes: dict[str, tuple[int, int]]) -> Shapes:
        found: Shapes = {}
        for name, shape in shapes.items():
            found[f"{name}.weight"] = shape
            if self.biases:
                found[f"{name}.bias"] = (shape[1],)
        return found
