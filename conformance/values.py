"""The values that pass between the kit and an implementation: configurations, steps, observations.

Axes: B batch, T new rows, D model width, H query heads, G key/value heads, d head width, C capacity,
n logical length. Arrays are row-major NumPy arrays on the way in; on the way out anything with
`__array__` or DLPack.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Pairing = Literal["adjacent", "half"]
PAIRINGS: tuple[Pairing, ...] = ("adjacent", "half")
PARAMETERS = ("query", "key", "value", "output")
"""The four parameters of a layer, in the order in which identities and revisions are compared."""


@dataclass(frozen=True)
class RopeConfig:
    """Rotary positions: pair i at position p turns by `p * base**(-2i/d)` radians.

    `pairing` is `"adjacent"` for features (2i, 2i+1) or `"half"` for features (i, i + d/2);
    positions 0 to `max_positions - 1` exist.
    """

    base: float
    pairing: Pairing
    max_positions: int


@dataclass(frozen=True)
class LayerConfig:
    """Geometry of an attention layer; query head h reads key/value head `h // (heads // kv_heads)`."""

    model_width: int
    heads: int
    kv_heads: int
    head_width: int
    rope: RopeConfig


@dataclass(frozen=True)
class LayerParameters:
    """Weights of a layer without biases; rows are projected as `x @ W`, so `W` is [in, out].

    query [D, H*d], key [D, G*d], value [D, G*d], output [H*d, D].
    """

    query: Any
    key: Any
    value: Any
    output: Any


@dataclass(frozen=True)
class AttentionConfig:
    """Attention of given rows: scores are dot products times `1/sqrt(key_width)`, causal, bottom-right."""

    heads: int
    kv_heads: int
    key_width: int
    value_width: int


@dataclass(frozen=True)
class StoreConfig:
    """A store of rows: `layers` slots, each keeping keys [B,G,n,key_width] and values [B,G,n,value_width]."""

    layers: int
    kv_heads: int
    key_width: int
    value_width: int


@dataclass(frozen=True)
class DecoderConfig:
    """A pre-norm decoder: RMSNorm, attention, residual, RMSNorm, SwiGLU, residual; final RMSNorm; head.

    `positions` is `"rope"` (rotated inside attention) or `"learned"` (a table added to the embedding).
    """

    vocabulary: int
    layers: int
    layer: LayerConfig
    feed_forward_width: int
    norm_epsilon: float
    positions: Literal["rope", "learned"] = "rope"
    tied: bool = True
    biases: bool = False


@dataclass(frozen=True)
class Work:
    """Declared work of one step, in rows per projection. Source: System 1, Work."""

    position: int
    full_prefix_rows: int
    incremental_rows: int
    reused_rows: int


@dataclass(frozen=True)
class Step:
    """What one append computed. All but `output` is optional evidence.

    output and merged [B,T,D] ([B,T,H*d] where that differs); query and rotated_query [B,H,T,d];
    key, value and rotated_key [B,G,T,d]; weights [B,H,T,n] with n the new length; heads [B,H,T,d].
    """

    output: Any
    query: Any = None
    key: Any = None
    value: Any = None
    rotated_query: Any = None
    rotated_key: Any = None
    weights: Any = None
    heads: Any = None
    merged: Any = None
    length: int | None = None
    work: Work | None = None


STEP_ARRAYS = (
    "output",
    "query",
    "key",
    "value",
    "rotated_query",
    "rotated_key",
    "weights",
    "heads",
    "merged",
)
"""The fields of `Step` that hold arrays, in the order in which they are computed but for `output`."""


@dataclass(frozen=True)
class Observation:
    """A cache as it can be seen from outside.

    length: logical rows. capacity: physical rows, or None. keys and values: the logical prefix
    [B,G,n,dk] and [B,G,n,dv], or None where unreadable. storage: the whole physical buffers, one entry
    per allocation in order of allocation, or None. Views are welcome: the player copies at once.
    `extra` carries what single features observe (block tables, pool), by name.
    """

    length: int
    capacity: int | None = None
    keys: Any = None
    values: Any = None
    storage: Any = None
    extra: Mapping[str, Any] = field(default_factory=dict)
