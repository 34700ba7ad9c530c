"""Plain values in a trace file, each with its type: `{int: "3"}`, `{text: full}`, `{list: [...]}`.

They stand where only the reader of a value knows its type: operands of an operation, details of a rejection,
arguments of a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from conformance.trace.exact_numbers import Rows, handed_number, write_exact
from conformance.trace.yaml_arrays import DTYPES, read_array, write_array
from conformance.trace.yaml_configs import read_config, read_rope, write_config
from conformance.trace.yaml_cursor import Cursor
from conformance.values import (
    PARAMETERS,
    AttentionConfig,
    DecoderConfig,
    LayerConfig,
    LayerParameters,
    RopeConfig,
    StoreConfig,
)


def read_plain(cursor: Cursor, numbers: Rows) -> Any:
    """The value at `cursor`."""
    if not isinstance(cursor.value, dict) or len(cursor.value) != 1:
        raise cursor.error(f"it must be a mapping of one type to its value; types: {', '.join(_READ)}")
    ((kind, entry),) = cursor.fields((), tuple(_READ)).items()
    return _READ[kind](entry, numbers)


def read_plain_mapping(cursor: Cursor, numbers: Rows) -> dict[str, Any]:
    """Typed values by name."""
    return {name: read_plain(entry, numbers) for name, entry in cursor.entries().items()}


def _read_none(cursor: Cursor, _: Rows) -> None:
    cursor.choice(("",))


def _read_parameters(cursor: Cursor, numbers: Rows) -> LayerParameters:
    given = cursor.fields(PARAMETERS)
    return LayerParameters(*(read_array(given[name], numbers.handed) for name in PARAMETERS))


def _read_array(cursor: Cursor, numbers: Rows) -> Any:
    return read_array(cursor, numbers.handed, dtypes=DTYPES)


_READ: Mapping[str, Callable[[Cursor, Rows], Any]] = {
    "none": _read_none,
    "bool": lambda cursor, _: cursor.truth(),
    "int": lambda cursor, _: cursor.integer(),
    "float": lambda cursor, _: cursor.read(handed_number),
    "text": lambda cursor, _: cursor.text(),
    "list": lambda cursor, numbers: [read_plain(entry, numbers) for entry in cursor.items()],
    "tuple": lambda cursor, numbers: tuple(read_plain(entry, numbers) for entry in cursor.items()),
    "map": read_plain_mapping,
    "array": _read_array,
    "parameters": _read_parameters,
    "rope": lambda cursor, _: read_rope(cursor),
    "layer": lambda cursor, _: read_config(cursor, "layer"),
    "attention": lambda cursor, _: read_config(cursor, "attention"),
    "store": lambda cursor, _: read_config(cursor, "store"),
    "decoder": lambda cursor, _: read_config(cursor, "decoder"),
}

def write_plain(value: Any) -> dict[str, Any]:
    """The tree of a value. Raises ValueError for a value that has no form in a file."""
    for kind, name, write in _WRITE:
        if isinstance(value, kind):
            return {name: write(value)}
    raise ValueError(f"a {type(value).__name__} has no form in a trace file")


def write_plain_mapping(values: Mapping[str, Any]) -> dict[str, Any]:
    """The trees of values by name."""
    return {str(name): write_plain(value) for name, value in values.items()}


_CONFIGS = (RopeConfig, LayerConfig, AttentionConfig, StoreConfig, DecoderConfig)

_WRITE: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
    (type(None), "none", lambda _: ""),
    (bool | np.bool_, "bool", lambda value: "true" if value else "false"),
    (int | np.integer, "int", lambda value: str(int(value))),
    (float | np.floating, "float", lambda value: write_exact(float(value))),
    (str, "text", lambda value: value),
    (tuple, "tuple", lambda value: [write_plain(entry) for entry in value]),
    (list, "list", lambda value: [write_plain(entry) for entry in value]),
    (Mapping, "map", write_plain_mapping),
    (np.ndarray, "array", lambda value: write_array(value, dtype=True)),
    (LayerParameters, "parameters", lambda value: {n: write_array(getattr(value, n)) for n in PARAMETERS}),
    *((config, config.__name__.removesuffix("Config").lower(), write_config) for config in _CONFIGS),
)
"""Type, its name in a file, and how it is written; a bool is tried before the int that it also is."""


def names_in(value: Any) -> set[str]:
    """Every string inside a value: the caches and layers that it may speak of."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        return {name for entry in value.values() for name in names_in(entry)}
    if isinstance(value, tuple | list):
        return {name for entry in value for name in names_in(entry)}
    return set()
