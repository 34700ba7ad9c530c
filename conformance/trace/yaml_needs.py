"""What the steps of a schedule use: layers and caches, and the features without which it cannot be played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from conformance.trace.expect import Close, Custom, Same, Shapes
from conformance.trace.model import CacheSpec, Derived, Operation, Source
from conformance.trace.yaml_configs import Config
from conformance.trace.yaml_plain import names_in
from conformance.values import DecoderConfig, StoreConfig

FEATURE_OF_OPERATION = {
    "update": "update_parameters",
    "rewire": "rewire",
    "reopen": "rewire",
    "poison": "poison",
    "truncate": "truncate",
    "fork": "fork",
    "reorder": "reorder",
    "full_prefix": "full_prefix",
    "overwrite_row": "storage",
}
"""Operations that only a declared feature makes possible."""


def used_parts(
    steps: tuple[Operation, ...], layers: Mapping[str, Source | Derived], caches: Mapping[str, CacheSpec]
) -> tuple[dict[str, Source | Derived], dict[str, CacheSpec]]:
    """The layers and caches that the steps speak of, with what those are made from.

    A schedule that never names a rewired layer can be played where nothing can be rewired.
    """
    spoken = {name for step in steps for name in _names(step)}
    spoken |= {name.partition("/")[0] for name in spoken}
    kept = {name: spec for name, spec in caches.items() if name in spoken}
    wanted = {step.layer for step in steps} | {spec.layer for spec in kept.values()} | spoken - set(kept)
    for name, layer in reversed(list(layers.items())):
        if name in wanted and isinstance(layer, Derived):
            wanted.add(layer.source)
    return {name: layer for name, layer in layers.items() if name in wanted}, kept


def _names(step: Operation) -> Iterator[str]:
    yield step.target
    yield from step.watch or ()
    yield from names_in(step.arguments)
    for expectation in step.expect:
        cache = getattr(expectation, "cache", None)
        if cache:
            yield cache
        if isinstance(expectation, Close | Same):
            yield expectation.field.partition(":")[2]
        if isinstance(expectation, Shapes):
            yield from (name.partition(":")[2] for name in expectation.shapes)
        if isinstance(expectation, Custom):
            yield from names_in(expectation.arguments)


def needed_features(
    steps: tuple[Operation, ...], layers: Mapping[str, Source | Derived], configs: Mapping[str, Config]
) -> frozenset[str]:
    """The features that an implementation must declare, so that the steps can be played on it.

    `chunks` where an accepted append has several rows, `gqa` where a layer has fewer key/value heads than
    query heads, `rewire` where a layer is derived, and those of single operations.
    """
    needs = {FEATURE_OF_OPERATION[step.op] for step in steps if step.op in FEATURE_OF_OPERATION}
    if any(_is_chunk(step) for step in steps):
        needs.add("chunks")
    if any(isinstance(layer, Derived) for layer in layers.values()):
        needs.add("rewire")
    if any(_is_grouped(configs[name]) for name in layers):
        needs.add("gqa")
    if any(step.op == "observe" and step.arguments.get("snapshot") for step in steps):
        needs.add("snapshot")
    return frozenset(needs)


def _is_chunk(step: Operation) -> bool:
    if step.op != "append" or step.must_be_refused:
        return False
    axis = {3: 1, 4: 2}
    return any(array.ndim in axis and array.shape[axis[array.ndim]] > 1 for array in step.inputs.values())


def _is_grouped(config: Any) -> bool:
    plain = config.layer if isinstance(config, DecoderConfig) else config
    return not isinstance(plain, StoreConfig) and plain.kv_heads < plain.heads

