"""A trace: a configuration and a list of operations, each with what must be observed after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from conformance.trace.expect import Apart, Array, Custom, Expectation, Refused
from conformance.values import AttentionConfig, DecoderConfig, LayerConfig, LayerParameters, StoreConfig

OPERATIONS = (
    "build",
    "append",
    "observe",
    "reset",
    "update",
    "rewire",
    "poison",
    "overwrite_input",
    "overwrite_output",
    "overwrite_row",
    "full_prefix",
    "twin",
    "truncate",
    "fork",
    "reorder",
    "prefill",
    "decode",
    "close",
    "reopen",
    "fill",
)


@dataclass(frozen=True, eq=False)
class Source:
    """What caches are built for: a layer, an attention or store configuration, or a model.

    parameters: `LayerParameters` for a layer, a mapping by name for a model, None elsewhere.
    """

    config: LayerConfig | AttentionConfig | StoreConfig | DecoderConfig
    parameters: LayerParameters | Mapping[str, Array] | None = None


@dataclass(frozen=True)
class Derived:
    """A layer rewired from another: same parameter nodes but for `fresh`, perhaps another configuration."""

    source: str
    config: LayerConfig | DecoderConfig | None = None
    fresh: tuple[str, ...] = ()


@dataclass(frozen=True)
class CacheSpec:
    """A cache (store, session) that stands when the trace begins."""

    layer: str
    batch_size: int
    capacity: int | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation:
    """One step of a trace.

    target: the cache (store, session) that the call works on. layer: the layer that an append, update or
    rewire names, where it is not the one that the cache was built for. inputs: arrays handed to the
    implementation, each as a fresh copy: `rows` (layer), `query`/`key`/`value` (attention),
    `keys`/`values` (store), `tokens` (decoder). arguments: plain operands (`length`, `lanes`, `value`,
    `batch_size`, `capacity`, `slot`, `name` of a fork, `parameters` of an update, ...).
    watch: caches observed before and after; None means the target, () none (long traces).
    """

    op: str
    target: str = ""
    layer: str | None = None
    inputs: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    arguments: Mapping[str, Any] = field(default_factory=dict)
    expect: tuple[Expectation, ...] = ()
    watch: tuple[str, ...] | None = None
    label: str = ""

    @cached_property
    def must_be_refused(self) -> bool:
        """Whether a refusal is expected."""
        return any(isinstance(e, Refused) for e in self.expect)

    @cached_property
    def may_be_refused(self) -> bool:
        """Whether it is left open that the call is refused."""
        return any(isinstance(e, Custom) and e.rule.startswith("refused_or") for e in self.expect)

    @cached_property
    def asks_apart(self) -> bool:
        """Whether memory of what is handed out is compared with the storage."""
        return any(isinstance(e, Apart) for e in self.expect)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trace:
    """A configuration and a list of operations; without the features in `needs` it cannot be played.

    optional: where the beginning cannot be built, what the trace was to show is unobserved, not an error.
    """

    id: str
    level: str
    about: str
    layers: Mapping[str, Source | Derived]
    caches: Mapping[str, CacheSpec]
    steps: tuple[Operation, ...]
    needs: frozenset[str] = frozenset()
    kappa: float | None = None
    dtype: str = "float64"
    optional: bool = False
    file: str = ""
    line: int = 0
    seed: int | None = None

    def with_steps(self, steps: tuple[Operation, ...]) -> Trace:
        """The same trace with other steps."""
        return replace(self, steps=steps)

    def requirements(self) -> tuple[str, ...]:
        """Every requirement that an expectation of this trace names, sorted."""
        return tuple(sorted({name for step in self.steps for e in step.expect for name in named_by(e)}))


def named_by(expectation: Expectation) -> tuple[str, ...]:
    """The requirements that one expectation names."""
    single = getattr(expectation, "requirement", None)
    if single is not None:
        return (single,)
    parts = ("length", "rows", "storage", "addresses", "capacity")
    return tuple(name for part in parts if (name := getattr(expectation, part)))
