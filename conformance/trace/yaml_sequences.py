"""Sequences in a trace file: the exact full-prefix results of some input rows on a layer.

The results of a step that appends rows of a sequence behind its earlier rows are parts of them, because no
row sees a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.trace.exact_numbers import Rows
from conformance.trace.yaml_arrays import REFERENCE, read_array, read_range, sliced, time_axis
from conformance.trace.yaml_configs import Config
from conformance.trace.yaml_cursor import Cursor, listed
from conformance.values import AttentionConfig, DecoderConfig, LayerConfig

CALL_INPUTS: Mapping[str, tuple[str, ...]] = {
    "layer": ("rows",),
    "attention": ("query", "key", "value"),
    "store": ("keys", "values"),
    "decoder": ("tokens",),
}
"""The arrays that an append takes, by level."""


@dataclass(frozen=True, eq=False)
class Sequence:
    """Inputs and their exact results on one layer, over a batch of lanes and `length` rows."""

    name: str
    level: str
    layer: str
    batch_size: int
    length: int
    inputs: Mapping[str, NDArray[Any]]
    exact: Mapping[str, NDArray[np.float64]]
    kappa: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    def part(self, name: str, start: int, stop: int) -> NDArray[np.float64]:
        """Rows start to stop - 1 of an exact array; of weights only the columns that those rows see."""
        rows = sliced(self.exact[name], time_axis(name, self.level), start, stop)
        return rows[..., :stop] if name == "weights" else rows

    def inputs_part(self, start: int, stop: int) -> dict[str, NDArray[Any]]:
        """The inputs of rows start to stop - 1."""
        return {k: sliced(array, time_axis(k, self.level), start, stop) for k, array in self.inputs.items()}


def read_sequence(
    cursor: Cursor,
    level: str,
    *,
    inputs: Mapping[str, NDArray[Any]],
    configs: Mapping[str, Config],
    numbers: Rows,
) -> Sequence:
    """One sequence; every shape is held against the configuration of its layer."""
    given = cursor.fields(("layer", "exact"), ("rows", "inputs", "kappa"))
    config = given["layer"].known(configs, "layer")
    arrays = _read_inputs(cursor, given, level, inputs)
    batch, length = _require_inputs(cursor, level, config, arrays)
    shapes = _exact_shapes(config, batch, length)
    exact = {}
    for name, entry in given["exact"].fields((), tuple(shapes)).items():
        exact[name] = read_array(entry, numbers.golden, shape=shapes[name], causal=name == "weights")
    kappa = {}
    if "kappa" in given:
        for name, entry in given["kappa"].fields((), tuple(exact)).items():
            kappa[name] = entry.settings(3)
    return Sequence(
        name=str(cursor.path[-1]), level=level, layer=given["layer"].text(), batch_size=batch, length=length,
        inputs=arrays, exact=exact, kappa=kappa,  # type: ignore[arg-type]
    )


def _read_inputs(
    cursor: Cursor, given: Mapping[str, Cursor], level: str, inputs: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    names = CALL_INPUTS[level]
    if ("rows" in given) == ("inputs" in given):
        raise cursor.error("a sequence has either rows or inputs")
    entries = {"rows": given["rows"]} if "rows" in given else given["inputs"].fields(names)
    if set(entries) != set(names):
        raise given["rows"].error(f"level {level} takes {', '.join(names)}; write them under inputs")
    return {name: read_reference(entry, inputs, name, level) for name, entry in entries.items()}


def read_reference(cursor: Cursor, inputs: Mapping[str, NDArray[Any]], name: str, level: str) -> NDArray[Any]:
    """What `x` or `x[0:5]` names; `name` is what the array is used as."""
    found = cursor.match(REFERENCE, "the name of an input, or a slice of one such as x[0:5]")
    if found[1] not in inputs:
        raise cursor.error(f"there is no input {found[1]!r}; there is {listed(inputs)}")
    array = as_tokens(cursor, inputs[found[1]]) if name == "tokens" else inputs[found[1]]
    axis = time_axis(name, level)
    if found[2] is not None and array.ndim <= axis:
        raise cursor.error(f"{found[1]} has {array.ndim} axes and cannot be cut along axis {axis}")
    start, stop = read_range(cursor, found[2], found[3], array.shape[axis] if array.ndim > axis else 0)
    return array if found[2] is None else sliced(array, axis, start, stop)


def as_tokens(cursor: Cursor, array: NDArray[Any]) -> NDArray[Any]:
    """The same numbers as integers."""
    if array.dtype.kind == "i":
        return array
    with np.errstate(all="ignore"):
        tokens = array.astype(np.int64)
    if not np.array_equal(tokens, array):
        raise cursor.error("tokens are whole numbers")
    tokens.flags.writeable = False
    return tokens


def _require_inputs(
    cursor: Cursor, level: str, config: Config, arrays: Mapping[str, NDArray[Any]]
) -> tuple[int, int]:
    first = next(iter(arrays.values()))
    axis = time_axis(next(iter(arrays)), level)
    batch, length = (first.shape[0], first.shape[axis]) if first.ndim > axis else (0, 0)
    if not batch or not length:
        raise cursor.error(f"inputs of shape {list(first.shape)}; a sequence has at least one lane and row")
    for name, array in arrays.items():
        wanted = _input_shape(name, config, batch, length)
        if array.shape != wanted:
            raise cursor.error(f"{name} has shape {list(array.shape)}; this layer takes {list(wanted)}")
    return batch, length


def _input_shape(name: str, config: Any, batch: int, length: int) -> tuple[int, ...]:
    if name == "tokens":
        return (batch, length)
    if name == "rows":
        return (batch, length, config.model_width)
    heads = config.heads if name == "query" else config.kv_heads
    width = config.value_width if name in ("value", "values") else config.key_width
    return (batch, heads, length, width)


def _exact_shapes(config: Any, batch: int, length: int) -> dict[str, tuple[int, ...]]:
    """The shape of every array that a sequence of that level may hold."""
    B, T = batch, length
    if isinstance(config, DecoderConfig):
        kept = (B, config.layer.kv_heads, T, config.layer.head_width)
        layers = {f"{name}.{i}": kept for name in ("keys", "values") for i in range(min(config.layers, 1000))}
        return {"output": (B, T, config.vocabulary), **layers}
    if isinstance(config, LayerConfig):
        queries, rows = (B, config.heads, T, config.head_width), (B, config.kv_heads, T, config.head_width)
        return {
            "output": (B, T, config.model_width), "keys": rows, "values": rows, "weights": (*queries[:3], T),
            "query": queries, "key": rows, "value": rows, "rotated_query": queries, "rotated_key": rows,
            "heads": queries, "merged": (B, T, config.heads * config.head_width),
        }
    keys = (B, config.kv_heads, T, config.key_width)
    values = (B, config.kv_heads, T, config.value_width)
    if isinstance(config, AttentionConfig):
        output, weights = (B, config.heads, T, config.value_width), (B, config.heads, T, T)
        return {"output": output, "keys": keys, "values": values, "weights": weights}
    return {"keys": keys, "values": values}


def sequence_part(cursor: Cursor, sequences: Mapping[str, Sequence]) -> tuple[Sequence, int, int]:
    """The sequence and rows that `first` or `first[0:1]` names."""
    found = cursor.match(REFERENCE, "the name of a sequence, or a slice of one such as first[0:1]")
    if found[1] not in sequences:
        raise cursor.error(f"there is no sequence {found[1]!r}; there is {listed(sequences)}")
    sequence = sequences[found[1]]
    return sequence, *read_range(cursor, found[2], found[3], sequence.length)
