"""Any trace in memory as a tree: a counterexample found by search becomes a file that anyone can replay.

Inputs stand inside the steps, in exact numbers, and expectations one by one with the bound that was used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from conformance.errors import TraceError
from conformance.trace.exact_numbers import write_exact
from conformance.trace.model import CacheSpec, Derived, Operation, Source, Trace
from conformance.trace.yaml_arrays import write_array
from conformance.trace.yaml_configs import write_config, write_setting
from conformance.trace.yaml_cursor import HANDLE, TITLE
from conformance.trace.yaml_expect import write_expectation
from conformance.trace.yaml_plain import write_plain_mapping
from conformance.trace.yaml_read import FORMAT
from conformance.values import PARAMETERS, LayerParameters


def from_trace(trace: Trace, *, source: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The tree of a trace: loaded again, it is one trace with the same steps, inputs and expectations.

    A trace id `name/schedule` gives the file's id and its one schedule; other characters become hyphens.
    source: where the trace comes from (seed, adapter, ...), free text. Raises TraceError where something has
    no form in a file, with the path of it.
    """
    name, schedule = _names(trace.id)
    tree: dict[str, Any] = {
        "format": FORMAT,
        "id": name,
        "level": trace.level,
        "about": " ".join(trace.about.split()) or "no description",
    }
    if source:
        tree["source"] = dict(source)
    if trace.seed is not None:
        tree["seed"] = str(trace.seed)
    if trace.dtype != "float64":
        tree["dtype"] = trace.dtype
    if trace.optional:
        tree["optional"] = "true"
    tree["needs"] = " ".join(sorted(trace.needs))
    if trace.kappa is not None:
        tree["kappa"] = _at("kappa", write_setting, trace.kappa)
    tree["layers"] = {key: _at(f"layers.{key}", _layer, layer) for key, layer in trace.layers.items()}
    tree["caches"] = {key: _cache(spec) for key, spec in trace.caches.items()}
    tree["schedules"] = {
        schedule: [_at(f"schedules.{schedule}[{i}]", _step, step) for i, step in enumerate(trace.steps)]
    }
    return tree


def _names(trace_id: str) -> tuple[str, str]:
    def tidy(text: str) -> str:
        return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")

    name, _, schedule = trace_id.rpartition("/")
    return tidy(name or schedule) or "trace", tidy(schedule if name else "steps") or "steps"


def _at(path: str, write: Callable[[Any], Any], value: Any) -> Any:
    try:
        return write(value)
    except ValueError as problem:
        raise TraceError(str(problem), path=path) from None


def _layer(layer: Source | Derived) -> dict[str, Any]:
    if isinstance(layer, Derived):
        derived: dict[str, Any] = {"from": layer.source}
        if layer.config is not None:
            derived["config"] = write_config(layer.config)
        return derived | ({"fresh": " ".join(layer.fresh)} if layer.fresh else {})
    tree: dict[str, Any] = {"config": write_config(layer.config)}
    if isinstance(layer.parameters, LayerParameters):
        tree["parameters"] = {name: write_array(getattr(layer.parameters, name)) for name in PARAMETERS}
    elif layer.parameters is not None:
        tree["parameters"] = {name: write_array(array) for name, array in layer.parameters.items()}
    return tree


def _cache(spec: CacheSpec) -> dict[str, str]:
    return {
        "layer": spec.layer,
        "batch_size": str(spec.batch_size),
        "capacity": "none" if spec.capacity is None else str(spec.capacity),
    }


def _step(step: Operation) -> dict[str, Any]:
    tree: dict[str, Any] = {"op": step.op}
    if step.target:
        tree["cache"] = step.target
    if step.layer is not None:
        tree["layer"] = step.layer
    if step.label:
        tree["label"] = step.label
    if step.watch is not None:
        words = all(re.fullmatch(HANDLE, name) for name in step.watch)
        tree["watch"] = " ".join(step.watch) if words else list(step.watch)
    short, typed = _operands(step)
    tree |= short
    if step.inputs:
        tree["inputs"] = {name: write_array(array, dtype=True) for name, array in step.inputs.items()}
    if typed:
        tree["arguments"] = write_plain_mapping(typed)
    if step.expect:
        tree["expectations"] = [write_expectation(expectation) for expectation in step.expect]
    return tree


def _operands(step: Operation) -> tuple[dict[str, Any], dict[str, Any]]:
    """The operands that have a key of their own, written, and the others."""
    short: dict[str, Any] = {}
    typed: dict[str, Any] = {}
    for name, value in step.arguments.items():
        write = _SHORT.get((step.op, name))
        text = write(value) if write else None
        if text is None:
            typed[name] = value
        else:
            short[name] = text
    return short, typed


def _whole(value: Any) -> str | None:
    return str(value) if type(value) is int else None


def _title(value: Any) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(TITLE, value) else None


def _number(value: Any) -> str | None:
    return write_exact(value) if type(value) is float else None


def _wholes(value: Any) -> str | None:
    fits = isinstance(value, tuple) and all(type(entry) is int for entry in value)
    return " ".join(map(str, value)) if fits else None


_SHORT: Mapping[tuple[str, str], Callable[[Any], Any]] = {
    ("build", "batch_size"): _whole,
    ("build", "capacity"): lambda value: "none" if value is None else _whole(value),
    ("rewire", "name"): _title,
    ("twin", "name"): _title,
    ("fork", "name"): _title,
    ("poison", "value"): _number,
    ("truncate", "length"): _whole,
    ("reorder", "lanes"): _wholes,
    ("overwrite_input", "step"): lambda value: value if isinstance(value, str) else None,
    ("overwrite_output", "step"): lambda value: value if isinstance(value, str) else None,
}
"""Operands that are written under a key of their own; None from the writer: it has another type."""
