"""An attention layer: a configuration and four parameter nodes."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from reference_impl.layer.config import PARAMETER_NAMES, LayerConfig
from reference_impl.layer.full_prefix import causal_pass
from reference_impl.layer.memory import Array
from reference_impl.layer.rope import Rotation
from reference_impl.layer_errors import (
    CapacityExceedsPositionsError,
    EmptyChunkError,
    InputRankError,
    InputWidthMismatchError,
    ZeroBatchSizeError,
)
from reference_impl.parameter import Parameter


class Layer:
    """Causal self-attention without biases; rows are projected as `x @ W`.

    query [D, H*d], key and value [D, G*d], output [H*d, D]. Several layers may share a node.
    Raises ValueError for a node whose shape does not fit the configuration.
    """

    __slots__ = ("config", "nodes", "rope_settings", "rotation")

    def __init__(
        self, config: LayerConfig, *, query: Parameter, key: Parameter, value: Parameter, output: Parameter
    ) -> None:
        self.config = config
        self.nodes = (query, key, value, output)
        for name, node in zip(PARAMETER_NAMES, self.nodes, strict=True):
            if node.value.shape != config.shape_of(name):
                raise ValueError(
                    f"Layer: parameter {name} is {list(node.value.shape)}; this configuration needs "
                    f"{list(config.shape_of(name))}, laid out as [in, out]"
                )
        self.rotation = Rotation(config.rope, config.head_width)
        self.rope_settings = config.rope_settings()

    @classmethod
    def build(
        cls, config: LayerConfig, *, query: ArrayLike, key: ArrayLike, value: ArrayLike, output: ArrayLike
    ) -> Layer:
        """A layer with parameter nodes of its own, each holding a copy of the given weights."""
        return cls(
            config,
            query=Parameter(query),
            key=Parameter(key),
            value=Parameter(value),
            output=Parameter(output),
        )

    def node(self, name: str) -> Parameter:
        """The parameter node called query, key, value or output. Raises ValueError for another name."""
        if name not in PARAMETER_NAMES:
            raise ValueError(
                f"Layer: no parameter is called {name!r}; there are {', '.join(PARAMETER_NAMES)}"
            )
        return self.nodes[PARAMETER_NAMES.index(name)]

    def revisions(self) -> tuple[int, int, int, int]:
        """The value revisions of the four nodes, in their order."""
        query, key, value, output = self.nodes
        return query.revision, key.revision, value.revision, output.revision

    def update(self, values: dict[str, ArrayLike]) -> None:
        """An optimiser step in place: new values for the named nodes, all or none. Raises ValueError."""
        for name, value in values.items():
            if np.shape(value) != self.node(name).value.shape:
                raise ValueError(
                    f"Layer.update: {name} is {list(self.node(name).value.shape)}, "
                    f"got {list(np.shape(value))}"
                )
        converted = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}
        for name, value in converted.items():
            self.node(name).update(value)

    def rewired(self, *, config: LayerConfig | None = None, fresh: Iterable[str] = ()) -> Layer:
        """A layer that shares every node but those named in `fresh`, which are rebuilt with equal numbers.

        Raises ValueError for an unknown name, or a configuration that the shared nodes do not fit.
        """
        rebuilt = {name: self.node(name).rebuilt() for name in fresh}
        nodes = {name: rebuilt.get(name, self.node(name)) for name in PARAMETER_NAMES}
        return Layer(config or self.config, **nodes)

    def full_prefix(self, rows: ArrayLike) -> Array:
        """Outputs [B,T,D] of whole sequences [B,T,D] at positions from 0, by the layer's uncached pass.

        Raises InputRankError, ZeroBatchSizeError, EmptyChunkError, InputWidthMismatchError,
        CapacityExceedsPositionsError, and StepError(NonFiniteError).
        """
        sequence = np.asarray(rows, dtype=np.float64)
        if sequence.ndim != 3:
            raise InputRankError(sequence.ndim)
        batch_size, length, width = sequence.shape
        if batch_size == 0:
            raise ZeroBatchSizeError
        if length == 0:
            raise EmptyChunkError
        if width != self.config.model_width:
            raise InputWidthMismatchError(self.config.model_width, width)
        if length > self.config.rope.max_positions:
            raise CapacityExceedsPositionsError(length, self.config.rope.max_positions)
        query, key, value, output = (node.value for node in self.nodes)
        return causal_pass(self.config, (query, key, value, output), sequence)
