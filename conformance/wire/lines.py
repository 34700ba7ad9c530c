"""One line, one JSON object: written compactly, read strictly."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from conformance.wire.errors import MessageError
from conformance.wire.text import printable

LINE_LIMIT = 32 * 2**20
"""Bytes of the longest line that is read."""

MAX_VALUES = 2**21
MAX_CONTAINERS = 10_000
"""What one line may hold; Python's objects are many times larger than their text."""


def write_line(message: dict[str, Any]) -> bytes:
    """A message as one line. Raises ValueError for numbers that JSON cannot say."""
    return _ENCODER.encode(message).encode("ascii") + b"\n"


def read_line(raw: bytes) -> dict[str, Any]:
    """The object that a line holds (without its line end). Raises MessageError that says what is wrong."""
    if not raw.strip():
        raise MessageError("", "an empty line is not a message")
    if raw.count(b"[") + raw.count(b"{") > MAX_CONTAINERS:
        raise MessageError(
            "", f"a line with more than {MAX_CONTAINERS} brackets; arrays are flat, data in row-major order"
        )
    if raw.count(b",") > MAX_VALUES:
        raise MessageError("", f"a line with more than {MAX_VALUES} values")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MessageError(
            "", f"not UTF-8 at byte {error.start}: {raw[error.start : error.start + 4].hex(' ')}"
        ) from None
    try:
        message = (_DECODER if b"-0" in raw else _WITHOUT_MINUS_ZERO).decode(text)
    except json.JSONDecodeError as error:
        raise MessageError(
            "", f"not JSON: {error.msg} at character {error.pos}{_around(text, error.pos)}"
        ) from None
    except RecursionError:
        raise MessageError("", "nested too deeply") from None
    except MessageError:
        raise
    except ValueError as error:
        raise MessageError("", f"not a number that can be read: {printable(str(error), 120)}") from None
    if not isinstance(message, dict):
        raise MessageError("", f"a {type(message).__name__} is not a message; every line is one JSON object")
    return message


def _around(text: str, position: int) -> str:
    near = text[max(0, position - 20) : position + 20]
    return f", near {printable(near)!r}" if near else ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise MessageError("", f"the key {printable(twice, 40)!r} stands twice in one object")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise MessageError("", f'{name} is not JSON; write "nan", "inf" or "-inf"')


def _whole(text: str) -> int | float:
    # A program that prints minus zero with %.17g writes -0, which Python would read as plain 0.
    return -0.0 if text == "-0" else int(text)


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=_whole)
_WITHOUT_MINUS_ZERO = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
