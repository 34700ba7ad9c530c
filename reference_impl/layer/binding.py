"""What ties a cache to one layer: its geometry, its parameter nodes, their revisions."""

from __future__ import annotations

from dataclasses import dataclass, field

from reference_impl.layer.layer import Layer
from reference_impl.layer_errors import (
    CacheHeadCountMismatchError,
    CacheHeadWidthMismatchError,
    CacheLayerMismatchError,
    CacheLayerRevisionMismatchError,
    CacheModelWidthMismatchError,
    CacheRopeMismatchError,
    RopeSettings,
)
from reference_impl.parameter import Parameter


@dataclass(frozen=True)
class Binding:
    """Taken once, when a cache is built; nothing refreshes it. Nodes are equal when they are one object.

    Holding the nodes themselves keeps them alive, so that an identity can never be used a second time.
    """

    layer: Layer = field(compare=False, repr=False)
    model_width: int
    heads: int
    kv_heads: int
    head_width: int
    rope: RopeSettings
    nodes: tuple[Parameter, ...]
    revisions: tuple[int, ...]

    @classmethod
    def of(cls, layer: Layer) -> Binding:
        """The binding of a cache that is built for this layer now."""
        config = layer.config
        return cls(
            layer,
            config.model_width,
            config.heads,
            config.kv_heads,
            config.head_width,
            layer.rope_settings,
            layer.nodes,
            layer.revisions(),
        )

    def check(self, layer: Layer) -> None:
        """Refuse another or a changed layer, in the order of System 1, Rejections 5 to 10.

        Geometry, then all four identities, then the revisions, then the rotary positions.
        """
        if layer is self.layer and layer.revisions() == self.revisions:
            return  # a layer never changes but for the revisions of its nodes
        config = layer.config
        if self.model_width != config.model_width:
            raise CacheModelWidthMismatchError(self.model_width, config.model_width)
        if self.heads != config.heads:
            raise CacheHeadCountMismatchError(self.heads, config.heads)
        if self.kv_heads != config.kv_heads:
            raise CacheHeadCountMismatchError(self.kv_heads, config.kv_heads)
        if self.head_width != config.head_width:
            raise CacheHeadWidthMismatchError(self.head_width, config.head_width)
        if self.nodes != layer.nodes:
            raise CacheLayerMismatchError
        for index, (mine, its) in enumerate(zip(self.revisions, layer.revisions(), strict=True)):
            if mine != its:
                raise CacheLayerRevisionMismatchError(index, mine, its)
        if self.rope != layer.rope_settings:
            raise CacheRopeMismatchError(self.rope, layer.rope_settings)
