"""The layers and caches that stand while a trace is played, and how an operation becomes a call.

One small driver per level says how its adapter is spoken to; everything else is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.errors import AdapterError
from conformance.player import capture
from conformance.trace.model import Derived, Operation, Source, Trace
from conformance.values import LayerParameters, Observation

MOST_FILLED = 4096
"""Rows beyond which a rounded capacity is not filled."""

JUNK = 1234.5
"""What the player writes over arrays that are no longer its partner's."""


@dataclass
class StandingCache:
    """A built cache: its handle, what it was built for, and the inputs that it has accepted."""

    handle: Any
    layer: str
    batch_size: int
    capacity: int | None
    accepted: list[dict[str, NDArray[Any]]] = field(default_factory=list)


@dataclass
class Stage:
    """Everything that stands. `given` and `handed` are the very arrays of each labelled step."""

    trace: Trace
    adapter: Any
    layers: dict[str, Any] = field(default_factory=dict)
    caches: dict[str, StandingCache] = field(default_factory=dict)
    given: dict[str, dict[str, NDArray[Any]]] = field(default_factory=dict)
    handed: dict[str, dict[str, Any]] = field(default_factory=dict)

    def build(self) -> None:
        """Build every layer and cache that the trace begins with."""
        for name in self.trace.layers:
            self.layers[name] = self.build_source(name)
        for name, spec in self.trace.caches.items():
            self.build_cache(name, spec.layer, spec.batch_size, spec.capacity)

    def build_source(self, name: str) -> Any:
        """A layer, a model, or the plain configuration where the level builds its caches from it."""
        source = self.trace.layers[name]
        if isinstance(source, Derived):
            origin = self.layers[source.source]
            return self.method("rewire")(origin, config=source.config, fresh=source.fresh)
        if self.trace.level == "layer":
            own = self._own(source)
            # Named like no step, so that `overwrite_input` can write over the arrays of weights too.
            self.given[f"layer {name}"] = dict(vars(own))
            return self.adapter.build_layer(source.config, own)
        if self.trace.level == "decoder":
            return self.adapter.build_model(source.config, self._own(source))
        return source.config

    def _own(self, source: Source) -> Any:
        parameters = source.parameters
        if isinstance(parameters, LayerParameters):
            fresh = {k: self.cast(getattr(parameters, k)) for k in ("query", "key", "value", "output")}
            return replace(parameters, **fresh)
        return {name: self.cast(value) for name, value in (parameters or {}).items()}

    def cast(self, given: NDArray[Any]) -> NDArray[Any]:
        """A fresh copy for the implementation, in the dtype of the trace (tokens stay whole numbers)."""
        if given.dtype.kind in "iu":
            return given.copy()
        return np.array(given, dtype=_dtype(self.trace.dtype), order="C", copy=True)

    def build_cache(self, name: str, layer: str, batch_size: int, capacity: int | None) -> None:
        """Build one cache and let it stand as `name`."""
        source = self.layers[layer]
        if self.trace.level == "store":
            handle = self.adapter.build_store(source, batch_size, capacity)
        elif self.trace.level == "decoder":
            handle = self.adapter.open(source, batch_size, capacity)
        else:
            handle = self.adapter.build_cache(source, batch_size, capacity)
        self.caches[name] = StandingCache(handle, layer, batch_size, capacity)

    def method(self, name: str) -> Callable[..., Any]:
        """An optional method. Raises AdapterError where a declared feature has none."""
        found = getattr(self.adapter, name, None)
        if not callable(found):
            raise AdapterError(
                f"the adapter has no method {name!r}, which a feature that it declares promises; "
                f"write it, or take the feature out of the declaration"
            )
        return found  # type: ignore[no-any-return]

    def observe(self, name: str) -> Observation | Any:
        """What the implementation shows of a cache; `name` may carry a layer as in `main/1`."""
        cache, _, layer = name.partition("/")
        standing = self.caches[cache]
        if self.trace.level in ("store", "decoder"):
            return self.adapter.observe(standing.handle, int(layer or 0))
        return self.adapter.observe(standing.handle)

    def run(self, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> Any:
        """Carry one operation out; the value is what the implementation returned."""
        return _RUN[operation.op](self, operation, inputs)


def _dtype(name: str) -> Any:
    if name == "bfloat16":
        try:
            import ml_dtypes  # noqa: PLC0415 - an extra, needed for this dtype only
        except ImportError as missing:
            raise AdapterError(
                "the declaration asks for bfloat16, and NumPy knows it only with the package ml_dtypes; "
                "run pip install 'kv-conformance[bfloat16]'"
            ) from missing
        return ml_dtypes.bfloat16
    return np.dtype(name)


def _append(stage: Stage, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> Any:
    standing = stage.caches[operation.target]
    adapter = stage.adapter
    if stage.trace.level == "layer":
        layer = stage.layers[operation.layer or standing.layer]
        return adapter.append(layer, standing.handle, inputs["rows"])
    if stage.trace.level == "attention":
        return adapter.append(standing.handle, inputs["query"], inputs["key"], inputs["value"])
    layer_index = int(operation.arguments.get("layer", 0))
    return adapter.append(standing.handle, layer_index, inputs["keys"], inputs["values"])


def _fill(stage: Stage, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> None:
    """Append the same rows, or decode the same tokens, until the cache holds as many as it shows room for."""
    for _ in range(MOST_FILLED):
        seen = stage.observe(operation.target)
        if seen.capacity is None:
            raise AdapterError(
                "Observation.capacity is None; an implementation that rounds its capacity must show it"
            )
        if seen.length >= seen.capacity:
            return
        take = _decode if stage.trace.level == "decoder" else _append
        take(stage, operation, {name: value.copy() for name, value in inputs.items()})
    raise AdapterError(f"the capacity that is shown cannot be filled: more than {MOST_FILLED} rows")


def _build(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    wanted, layer = operation.arguments, str(operation.layer)
    lanes, capacity = wanted["batch_size"], wanted["capacity"]
    if "block_size" not in wanted:
        stage.build_cache(operation.target, layer, lanes, capacity)
        return
    beside = stage.caches[wanted["shared_with"]].handle if wanted["shared_with"] else None
    handle = stage.method("build_paged")(
        stage.layers[layer], lanes, capacity,
        block_size=wanted["block_size"], blocks=wanted["blocks"], shared_with=beside,
    )  # fmt: skip
    stage.caches[operation.target] = StandingCache(handle, layer, lanes, capacity)


def _observe(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> Any:
    if not operation.arguments.get("snapshot"):
        return None
    keys, values = stage.method("snapshot")(stage.caches[operation.target].handle)
    return {"snapshot_keys": keys, "snapshot_values": values}


def _reset(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    standing = stage.caches[operation.target]
    stage.adapter.reset(standing.handle)
    standing.accepted.clear()


def _update(stage: Stage, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> None:
    stage.method("update_parameters")(stage.layers[str(operation.layer)], dict(inputs))


def _rewire(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    wanted = operation.arguments
    origin = stage.layers[str(operation.layer)]
    stage.layers[wanted["name"]] = stage.method("rewire")(
        origin, config=wanted.get("config"), fresh=wanted.get("fresh", ())
    )


def _poison(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    stage.method("poison")(stage.caches[operation.target].handle, operation.arguments["value"])


def _overwrite_input(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    for given in stage.given[operation.arguments["step"]].values():
        given[...] = JUNK


def _overwrite_output(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    for name, handed in stage.handed[operation.arguments["step"]].items():
        taken = capture.array(handed, name)
        if taken.flags.writeable:
            taken[...] = JUNK


def _overwrite_row(stage: Stage, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> Any:
    """Change one stored row through the storage that the implementation shows, where it can be written."""
    wanted, numbers = operation.arguments, inputs["numbers"]
    standing = stage.caches[operation.target]
    storage = stage.observe(operation.target).storage
    target = storage[wanted["buffer"]]
    lane, head, slot = wanted["lane"], wanted["head"], wanted["slot"]
    if hasattr(target, "digest"):
        own = getattr(stage.adapter, "overwrite_row", None)
        if own is None:
            return None
        flat = ((lane * wanted["kv_heads"] + head) * wanted["capacity"] + slot) * numbers.size
        written = own(standing.handle, wanted["buffer"], flat, numbers)
        return None if written is False else {"written": numbers}
    seen = capture.array(target, "an entry of storage")
    if not seen.flags.writeable or seen.ndim != 4:
        return None
    seen[lane, head, slot] = numbers
    return {"written": numbers}


def _full_prefix(stage: Stage, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> Any:
    given = inputs["tokens"] if stage.trace.level == "decoder" else inputs["rows"]
    return stage.method("full_prefix")(stage.layers[str(operation.layer)], given)


def _twin(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    """Another cache of the same layer that has accepted the same rows and nothing else."""
    origin, name = stage.caches[operation.target], operation.arguments["name"]
    stage.build_cache(name, origin.layer, origin.batch_size, origin.capacity)
    for inputs in origin.accepted:
        copies = {key: value.copy() for key, value in inputs.items()}
        _append(stage, replace(operation, target=name), copies)
        stage.caches[name].accepted.append(inputs)


def _truncate(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    stage.method("truncate")(stage.caches[operation.target].handle, operation.arguments["length"])


def _fork(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    origin = stage.caches[operation.target]
    handle = stage.method("fork")(origin.handle)
    stage.caches[operation.arguments["name"]] = replace(origin, handle=handle, accepted=list(origin.accepted))


def _reorder(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    stage.method("reorder")(stage.caches[operation.target].handle, list(operation.arguments["lanes"]))


def _prefill(stage: Stage, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> Any:
    return stage.adapter.prefill(stage.caches[operation.target].handle, inputs["tokens"])


def _decode(stage: Stage, operation: Operation, inputs: Mapping[str, NDArray[Any]]) -> Any:
    return stage.adapter.decode(stage.caches[operation.target].handle, inputs["tokens"])


def _close(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    stage.adapter.close(stage.caches[operation.target].handle)


def _reopen(stage: Stage, operation: Operation, _: Mapping[str, NDArray[Any]]) -> None:
    """The caches of a closed session under a model, as a session that takes the place of the closed one."""
    standing, name = stage.caches[operation.target], str(operation.layer)
    standing.handle = stage.method("reopen")(standing.handle, stage.layers[name])
    standing.layer = name


_RUN: Mapping[str, Callable[[Stage, Operation, Mapping[str, NDArray[Any]]], Any]] = {
    "build": _build,
    "append": _append,
    "observe": _observe,
    "reset": _reset,
    "update": _update,
    "rewire": _rewire,
    "poison": _poison,
    "overwrite_input": _overwrite_input,
    "overwrite_output": _overwrite_output,
    "overwrite_row": _overwrite_row,
    "full_prefix": _full_prefix,
    "twin": _twin,
    "truncate": _truncate,
    "fork": _fork,
    "reorder": _reorder,
    "prefill": _prefill,
    "decode": _decode,
    "close": _close,
    "fill": _fill,
    "reopen": _reopen,
}
