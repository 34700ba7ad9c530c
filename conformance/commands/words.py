"""What a step must show, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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


def words(expectation: Expectation) -> str:
    """One expectation as half a sentence."""
    return _WORDS[type(expectation)](expectation)


def _shapes(wanted: Shapes) -> str:
    return "; ".join(f"{name} has shape {list(shape)}" for name, shape in wanted.shapes.items())


def _refused(wanted: Refused) -> str:
    carried = ", ".join(f"{name} {value!r}" for name, value in wanted.details.items())
    return f"refused as {' or '.join(wanted.kinds)}{f', carrying {carried}' if carried else ''}"


def _unchanged(wanted: Unchanged) -> str:
    parts = {
        "length": wanted.length, "rows": wanted.rows, "stored bytes": wanted.storage,
        "addresses": wanted.addresses, "capacity": wanted.capacity,
    }  # fmt: skip
    return f"{', '.join(name for name, asked in parts.items() if asked)} of {wanted.cache} unchanged"


_WORDS: Mapping[type[Any], Callable[[Any], str]] = {
    Close: lambda wanted: f"{wanted.field} is the exact value within the bound",
    Same: lambda wanted: f"{wanted.field.partition('=')[0]} is bit for bit what it was at {wanted.other!r}",
    Length: lambda wanted: f"length {wanted.rows}",
    Shapes: _shapes,
    Declares: lambda wanted: f"{wanted.figure} is declared as {wanted.value}",
    Refused: _refused,
    Accepted: lambda _: "accepted",
    Unchanged: _unchanged,
    InputsKept: lambda _: "the caller's arrays are unchanged",
    Apart: lambda wanted: f"nothing handed out shares memory with {wanted.cache}",
    Custom: lambda wanted: wanted.rule.replace("_", " "),
}
