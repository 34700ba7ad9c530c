"""Expectations one by one: `expectations: [{type: close, requirement: ..., field: ...}, ...]`.

This is the exhaustive form, one mapping for one value of `conformance.trace.expect`, with the same fields.
Hand-written and golden traces use the short form (`expect`, `rejected`, ...); both may stand in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from dataclasses import fields as fields_of
from typing import Any

import numpy as np

from conformance.contract import requirement as known_requirement
from conformance.errors import UsageError
from conformance.rejections import KINDS
from conformance.trace.exact_numbers import Rows
from conformance.trace.expect import (
    Accepted,
    Apart,
    Close,
    Custom,
    Declares,
    Expectation,
    InputsKept,
    Length,
    Refused,
    Same,
    Shapes,
    Unchanged,
)
from conformance.trace.yaml_arrays import read_array, write_array
from conformance.trace.yaml_configs import write_setting
from conformance.trace.yaml_cursor import REQUIREMENT, Cursor
from conformance.trace.yaml_plain import read_plain, read_plain_mapping, write_plain, write_plain_mapping
from conformance.trace.yaml_tree import short

TYPES: Mapping[str, type[Any]] = {
    "close": Close,
    "same": Same,
    "length": Length,
    "shapes": Shapes,
    "declares": Declares,
    "refused": Refused,
    "accepted": Accepted,
    "unchanged": Unchanged,
    "inputs_kept": InputsKept,
    "apart": Apart,
    "custom": Custom,
}

DETAILS = ("stage", "index", "value", "parameter", "expected", "found")
"""What a rejection may carry beside its kind."""


def read_requirement(cursor: Cursor) -> str:
    """The id of a requirement that the contract has."""
    try:
        cursor.match(REQUIREMENT, "the id of a requirement, such as AGREE-OUTPUT")
        return known_requirement(cursor.text()).id
    except UsageError as problem:
        raise cursor.error(str(problem)) from None


def read_kinds(cursor: Cursor) -> tuple[str, ...]:
    """One or more kinds of rejection; any of them will do."""
    kinds = cursor.words()
    for kind in kinds or ("",):
        if kind not in KINDS:
            raise cursor.error(f"{short(kind)} is no kind of rejection; the kinds are {', '.join(KINDS)}")
    return kinds


def read_expectation(cursor: Cursor, numbers: Rows) -> Expectation:
    """One expectation."""
    kind = TYPES[_type(cursor)]
    parts = fields_of(kind)
    required = [part.name for part in parts if _is_required(part)]
    optional = [part.name for part in parts if not _is_required(part)]
    given = cursor.fields(("type", *required), optional)
    values = {name: _reader(kind, name)(entry, numbers) for name, entry in given.items() if name != "type"}
    found: Expectation = kind(**values)
    if isinstance(found, Close):
        _require_fitting_bound(found, given)
    return found


def _require_fitting_bound(wanted: Close, given: Mapping[str, Cursor]) -> None:
    if isinstance(wanted.bound, np.ndarray) and wanted.bound.shape != wanted.value.shape:
        raise given["bound"].error(f"the bound has shape {wanted.bound.shape}, not {wanted.value.shape}")


def _is_required(part: Field[Any]) -> bool:
    return part.default is MISSING and part.default_factory is MISSING


def _type(cursor: Cursor) -> str:
    if not isinstance(cursor.value, dict) or "type" not in cursor.value:
        raise cursor.error("an expectation is a mapping with a type")
    return cursor.entries()["type"].choice(tuple(TYPES))


def _reader(kind: type[Any], name: str) -> Callable[[Cursor, Rows], Any]:
    if kind is Unchanged and name != "cache":
        return lambda cursor, _: read_requirement(cursor) if cursor.value else ""
    if kind is Length and name == "rows":
        return lambda cursor, _: cursor.integer(0)
    if kind is Declares and name == "value":
        return read_plain
    return _READ[name]


def _read_bound(cursor: Cursor, numbers: Rows) -> Any:
    if isinstance(cursor.value, dict):
        return read_array(cursor, numbers.handed)
    bound = cursor.setting()
    if bound < 0:
        raise cursor.error("a bound is not negative")
    return bound


def _read_span(cursor: Cursor, _: Rows) -> tuple[int, ...]:
    span = cursor.integers()
    if len(span) != 2 or not 0 <= span[0] <= span[1]:
        raise cursor.error("it must be two whole numbers, the first row and the one behind the last")
    return span


def _read_text(cursor: Cursor, _: Rows) -> str:
    if not cursor.text():
        raise cursor.error("it must not be empty")
    return cursor.text()


def _read_shapes(cursor: Cursor, _: Rows) -> dict[str, tuple[int, ...]]:
    return {name: entry.integers() for name, entry in cursor.entries().items()}


def _read_details(cursor: Cursor, numbers: Rows) -> dict[str, Any]:
    return {name: read_plain(entry, numbers) for name, entry in cursor.fields((), DETAILS).items()}


_READ: Mapping[str, Callable[[Cursor, Rows], Any]] = {
    "requirement": lambda cursor, _: read_requirement(cursor),
    "field": _read_text,
    "value": lambda cursor, numbers: read_array(cursor, numbers.golden),
    "bound": _read_bound,
    "kappa": lambda cursor, _: cursor.settings(3),
    "other": _read_text,
    "rows": _read_span,
    "other_rows": _read_span,
    "lanes": lambda cursor, _: cursor.integers(),
    "other_lanes": lambda cursor, _: cursor.integers(),
    "cache": _read_text,
    "shapes": _read_shapes,
    "figure": _read_text,
    "kinds": lambda cursor, _: read_kinds(cursor),
    "details": _read_details,
    "rule": _read_text,
    "arguments": read_plain_mapping,
}


def write_expectation(expectation: Expectation) -> dict[str, Any]:
    """The tree of an expectation; parts that are at their default are left out.

    Raises ValueError where something has no form in a file, such as a value that is not finite.
    """
    tree: dict[str, Any] = {"type": next(name for name, kind in TYPES.items() if type(expectation) is kind)}
    for part in fields_of(expectation):
        value = getattr(expectation, part.name)
        if isinstance(expectation, Declares) and part.name == "value":
            tree[part.name] = write_plain(value)
        elif _is_required(part) or isinstance(value, np.ndarray) or value not in (None, "", {}):
            write: Callable[[Any], Any] = _WRITE.get(part.name, _write_scalar)
            tree[part.name] = write(value)
    return tree


def _write_value(value: Any) -> dict[str, Any]:
    wide = np.asarray(value, dtype=np.float64)
    if not np.isfinite(wide).all():
        raise ValueError("an expected value is not finite; what must come out is always a finite number")
    return write_array(wide)


def _write_scalar(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(write_setting, value))
    return value if isinstance(value, str) else write_setting(value)


def _write_words(words: Any) -> str:
    return " ".join(words)


_WRITE: Mapping[str, Callable[[Any], Any]] = {
    "value": _write_value,
    "bound": lambda value: write_array(value) if isinstance(value, np.ndarray) else write_setting(value),
    "shapes": lambda shapes: {name: " ".join(map(str, shape)) for name, shape in shapes.items()},
    "kinds": _write_words,
    "details": write_plain_mapping,
    "arguments": write_plain_mapping,
}
