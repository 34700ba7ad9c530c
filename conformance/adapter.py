"""What an adapter offers: one class per level, and the declaration of what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from conformance.errors import AdapterError
from conformance.values import (
    PAIRINGS,
    AttentionConfig,
    DecoderConfig,
    LayerConfig,
    LayerParameters,
    Observation,
    Pairing,
    Step,
    StoreConfig,
)

LEVELS = ("store", "attention", "layer", "decoder")

FEATURES: Mapping[str, str] = {
    "chunks": "append of several rows onto any length",
    "gqa": "any number of key/value heads that divides the query heads",
    "truncate": "truncate(cache, length)",
    "fork": "fork(cache) -> cache",
    "reorder": "reorder(cache, lanes)",
    "paged": "build_paged(layer, batch_size, capacity, *, block_size, blocks, shared_with=None) -> cache; "
    "Observation.extra shows block_size, block_tables, free_blocks and pool_blocks",
    "full_prefix": "full_prefix(layer, rows [B,T,D]) -> [B,T,D], the implementation's own uncached path",
    "update_parameters": "update_parameters(layer, {name: array}): in place, raises that node's revision",
    "rewire": "rewire(layer, *, config=None, fresh=()) -> layer sharing the other parameter nodes; "
    "decoder: also reopen(session, model) -> session, the caches of a closed session under a model",
    "poison": "poison(cache, value): fills every stored element at or after the length",
    "evidence": "Step carries weights, projected and rotated heads, head outputs, merged",
    "work": "Step.work",
    "storage": "Observation.storage: the whole physical buffers",
    "snapshot": "snapshot(cache): the (keys, values) that the implementation itself hands to users",
}
"""Every feature with what it means to declare it."""

FEATURE_METHODS: Mapping[str, str] = {
    "truncate": "truncate",
    "fork": "fork",
    "reorder": "reorder",
    "full_prefix": "full_prefix",
    "update_parameters": "update_parameters",
    "rewire": "rewire",
    "poison": "poison",
    "snapshot": "snapshot",
    "paged": "build_paged",
}
"""The method that a declared feature promises, where there is one."""


DTYPES = ("float64", "float32", "float16", "bfloat16")
"""What an implementation can be fed with, and what can be named where it rounds."""


@dataclass(frozen=True)
class Precision:
    """The dtypes at the places where rounding happens; the error bound is computed from them."""

    storage: str = "float64"
    arithmetic: str = "float64"
    softmax: str = "float64"
    angles: str = "float64"

    @classmethod
    def of(cls, dtype: str) -> Precision:
        """Everything in one dtype."""
        return cls(dtype, dtype, dtype, dtype)


LIKE_THE_DTYPE = Precision.of("")
"""Stands in a declaration that names no precision; it becomes that of the first dtype everywhere."""


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What an implementation claims. Every claim is probed; nothing is guessed from a missing attribute.

    rejections maps the implementation's own exception classes to kinds, so that an adapter need not
    translate them. capacity: `"exact"` (fixed buffers of the asked size), `"rounded"` (fixed, may be
    larger), `"growing"`. dtypes: everything is played in the first, the golden traces in every one.
    precision: that of the first; where nothing is said, that dtype everywhere. keys: how the observed keys
    stand (rotated, unrotated, unreadable). heads: how query heads map to key/value heads. pairings: the
    rotary pairs that it can be built with; where that is one of the two, every trace is said in it.
    head_width_multiple: head widths are multiples of this. value_width: `"key"` where values cannot be of
    another width than keys. rows_per_append: `"one"` or `"any"`. weights: `"own"` for a decoder whose
    architecture is its own, so that `build_model` can take over the vocabulary at most; it is held against
    its own pass without the cache.
    """

    name: str
    version: str = ""
    levels: tuple[str, ...] = ("layer",)
    dtypes: tuple[str, ...] = ("float64",)
    features: frozenset[str] = frozenset()
    precision: Precision = LIKE_THE_DTYPE
    deterministic: bool = True
    keys: Literal["rotated", "unrotated", "unreadable"] = "rotated"
    heads: Literal["grouped", "tiled"] = "grouped"
    pairings: tuple[Pairing, ...] = PAIRINGS
    head_width_multiple: int = 1
    value_width: Literal["any", "key"] = "any"
    rows_per_append: Literal["one", "any"] = "one"
    capacity: Literal["exact", "rounded", "growing"] = "exact"
    prefill_logits: Literal["all", "last"] = "all"
    weights: Literal["given", "own"] = "given"
    rejections: Mapping[type[BaseException], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every field at once. Raises AdapterError that names the field and what it may hold."""
        from conformance.rejections import KINDS  # noqa: PLC0415 - a leaf, kept out of the module's face

        object.__setattr__(self, "features", frozenset(self.features))
        object.__setattr__(self, "levels", tuple(self.levels))
        object.__setattr__(self, "dtypes", tuple(self.dtypes))
        object.__setattr__(self, "pairings", tuple(self.pairings))
        _require_known(self.name, "levels", self.levels, LEVELS)
        _require_known(self.name, "dtypes", self.dtypes, DTYPES)
        _require_known(self.name, "features", sorted(self.features), tuple(FEATURES))
        _require_known(self.name, "rejections", list(self.rejections.values()), KINDS)
        _require_known(self.name, "keys", [self.keys], ("rotated", "unrotated", "unreadable"))
        _require_known(self.name, "heads", [self.heads], ("grouped", "tiled"))
        _require_known(self.name, "pairings", self.pairings, PAIRINGS)
        _require_known(self.name, "value_width", [self.value_width], ("any", "key"))
        if type(self.head_width_multiple) is not int or self.head_width_multiple < 1:
            raise AdapterError(
                f"declaration of {self.name!r}: head_width_multiple is {self.head_width_multiple!r}; "
                f"it may be a whole number from 1"
            )
        _require_known(self.name, "rows_per_append", [self.rows_per_append], ("one", "any"))
        _require_known(self.name, "capacity", [self.capacity], ("exact", "rounded", "growing"))
        _require_known(self.name, "prefill_logits", [self.prefill_logits], ("all", "last"))
        _require_known(self.name, "weights", [self.weights], ("given", "own"))
        for name, known in (("levels", LEVELS), ("dtypes", DTYPES), ("pairings", PAIRINGS)):
            if not getattr(self, name):
                raise AdapterError(
                    f"declaration of {self.name!r}: {name} is empty; name at least one of {', '.join(known)}"
                )
        if self.precision == LIKE_THE_DTYPE:
            object.__setattr__(self, "precision", Precision.of(self.dtypes[0]))
        for place, dtype in vars(self.precision).items():
            _require_known(self.name, f"precision.{place}", [dtype], DTYPES)


def _require_known(name: str, field_name: str, given: Any, known: tuple[str, ...]) -> None:
    for item in given:
        if item not in known:
            raise AdapterError(
                f"declaration of {name!r}: {field_name} holds {item!r}; it may hold {', '.join(known)}"
            )


@runtime_checkable
class Adapter(Protocol):
    """The part that every adapter has: `declaration`, an attribute."""

    declaration: Declaration


class LayerAdapter(Protocol):
    """Level `layer`: projections, heads, RoPE, attention, output projection, and the cache of one layer.

    A call is refused by raising `Rejected`, or an exception that the declaration maps to a kind.
    Optional methods are those of `FEATURES`, promised by declaring the feature.
    """

    declaration: Declaration

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> Any:
        """A layer with these weights; the arrays are the caller's and may change afterwards."""

    def build_cache(self, layer: Any, batch_size: int, capacity: int) -> Any:
        """An empty cache bound to `layer`."""

    def append(self, layer: Any, cache: Any, rows: Any) -> Step | Any:
        """Append rows [B,T,D]; return the output [B,T,D], or a `Step` that carries it."""

    def observe(self, cache: Any) -> Observation:
        """The cache as it stands; keys and values [B,G,n,d]."""

    def reset(self, cache: Any) -> None:
        """Forget every row: length 0."""


class AttentionAdapter(Protocol):
    """Level `attention`: attention of new rows over past and new rows. Queries and keys arrive rotated."""

    declaration: Declaration

    def build_cache(self, config: AttentionConfig, batch_size: int, capacity: int) -> Any:
        """An empty cache."""

    def append(self, cache: Any, query: Any, key: Any, value: Any) -> Step | Any:
        """Append key [B,G,T,dk] and value [B,G,T,dv]; return the output [B,H,T,dv] of query [B,H,T,dk]."""

    def observe(self, cache: Any) -> Observation:
        """The cache as it stands; keys [B,G,n,dk] and values [B,G,n,dv]."""

    def reset(self, cache: Any) -> None:
        """Forget every row: length 0."""


class StoreAdapter(Protocol):
    """Level `store`: keeping rows and giving them back, per layer."""

    declaration: Declaration

    def build_store(self, config: StoreConfig, batch_size: int, capacity: int | None = None) -> Any:
        """An empty store; capacity None asks for a growing one."""

    def append(self, store: Any, layer: int, keys: Any, values: Any) -> Any:
        """Append keys [B,G,T,dk] and values [B,G,T,dv] to one layer; return None or the whole prefix pair."""

    def observe(self, store: Any, layer: int) -> Observation:
        """One layer as it stands; an empty slot is length 0 with keys and values None or of length 0."""

    def reset(self, store: Any) -> None:
        """Empty every layer."""


class DecoderAdapter(Protocol):
    """Level `decoder`: tokens to logits, prefill and decode, one cache a layer."""

    declaration: Declaration

    def build_model(self, config: DecoderConfig, parameters: Mapping[str, Any]) -> Any:
        """A model with these weights, named as in the golden trace of the decoder."""

    def open(self, model: Any, batch_size: int, capacity: int) -> Any:
        """An empty session bound to `model`."""

    def prefill(self, session: Any, tokens: Any) -> Any:
        """Take tokens [B,T] into an empty session; return logits [B,T,V], or [B,1,V] as declared."""

    def decode(self, session: Any, tokens: Any) -> Any:
        """Take one token per lane, tokens [B]; return logits [B,1,V]."""

    def observe(self, session: Any, layer: int) -> Observation:
        """The cache of one layer as it stands."""

    def reset(self, session: Any) -> None:
        """Back to an empty session."""

    def close(self, session: Any) -> None:
        """Give the session up; its parameters may be updated again."""
