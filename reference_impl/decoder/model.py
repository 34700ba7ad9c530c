"""A decoder: a configuration, its parameter nodes by name, and a count of the sessions that hold them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from reference_impl.decoder.config import DecoderConfig
from reference_impl.decoder.errors import ParametersLockedError
from reference_impl.layer import PARAMETER_NAMES, Layer
from reference_impl.layer.memory import Array
from reference_impl.parameter import Parameter


class OpenSessions:
    """How many open sessions depend on a set of parameter nodes; models that share nodes share the count."""

    def __init__(self) -> None:
        self.count = 0


class DecoderModel:
    """Token embedding, blocks, final norm and head; the parameters are nodes of their own.

    nodes: by name, in the order of `DecoderConfig.parameter_shapes`. layers: the attention of each block
    as a `Layer` over the same nodes, to which its cache is bound.
    Raises ValueError for a missing, unknown or misshapen parameter.
    """

    def __init__(
        self, config: DecoderConfig, nodes: Mapping[str, Parameter], *, sessions: OpenSessions | None = None
    ) -> None:
        shapes = config.parameter_shapes()
        if set(nodes) != set(shapes):
            odd = sorted(set(nodes) ^ set(shapes))
            raise ValueError(f"DecoderModel: {', '.join(odd)} missing or unknown; give {', '.join(shapes)}")
        for name, shape in shapes.items():
            _require_shape(name, nodes[name].value.shape, shape)
        self.config = config
        self.nodes = {name: nodes[name] for name in shapes}
        self.sessions = sessions or OpenSessions()
        self.layers = tuple(self._layer(block) for block in range(config.layers))

    @classmethod
    def build(cls, config: DecoderConfig, parameters: Mapping[str, ArrayLike]) -> DecoderModel:
        """A model whose nodes hold copies of the given arrays, named as in `parameter_shapes`."""
        return cls(config, {name: Parameter(value) for name, value in parameters.items()})

    def value(self, name: str) -> Array:
        """The present numbers of one parameter, read-only."""
        return self.nodes[name].value

    def head(self) -> Array:
        """The output head [D, V]: the transposed token embedding where it is tied."""
        return self.value("token_embedding.weight").T if self.config.tied else self.value("head.weight")

    def update(self, values: Mapping[str, ArrayLike]) -> None:
        """An optimiser step in place: new values for the named parameters, all or none.

        Raises ParametersLockedError while a session on these nodes is open, ValueError for an unknown name
        or another shape; then no number and no revision has changed.
        """
        if self.sessions.count:
            raise ParametersLockedError(self.sessions.count)
        converted = {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}
        for name, value in converted.items():
            if name not in self.nodes:
                raise ValueError(f"DecoderModel.update: no parameter is called {name!r}")
            _require_shape(name, value.shape, self.nodes[name].value.shape)
        for name, value in converted.items():
            self.nodes[name].update(value)

    def rewired(self, *, config: DecoderConfig | None = None, fresh: Iterable[str] = ()) -> DecoderModel:
        """A model that shares every node but those named in `fresh`, rebuilt with equal numbers.

        Raises ValueError for an unknown name, or a configuration that the nodes do not fit.
        """
        rebuilt = {name: self.nodes[name].rebuilt() for name in fresh if name in self.nodes}
        unknown = sorted(set(fresh) - set(rebuilt))
        if unknown:
            raise ValueError(f"DecoderModel.rewired: no parameter is called {unknown[0]!r}")
        shared = self.sessions if len(rebuilt) < len(self.nodes) else None
        return DecoderModel(config or self.config, self.nodes | rebuilt, sessions=shared)

    def _layer(self, block: int) -> Layer:
        named = {name: self.nodes[f"blocks.{block}.attention.{name}.weight"] for name in PARAMETER_NAMES}
        return Layer(self.config.layer, **named)


def _require_shape(name: str, given: tuple[int, ...], needed: tuple[int, ...]) -> None:
    if given != needed:
        raise ValueError(f"DecoderModel: {name} is {list(given)}; this configuration needs {list(needed)}")
