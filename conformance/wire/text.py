"""Foreign text made fit to print."""

from __future__ import annotations

import re
import reprlib
from typing import Any

_LONG_LIST = re.compile(r"""(\[(?:[-+.\w"]+, ?){3})[-+.0-9a-finE", ]{16,}(\]|$)""")


def printable(given: str | bytes, limit: int = 200) -> str:
    """`given` in one printable piece of about `limit` characters; what cannot be shown is escaped."""
    text = given[: 4 * limit].decode("utf-8", "backslashreplace") if isinstance(given, bytes) else given
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text[:limit]
    )
    return shown if len(text) <= limit else f"{shown}..."


def brief(line: str | bytes, limit: int) -> str:
    """A message, or the beginning of one, in which long lists of numbers are cut, so that its names show."""
    text = line.decode("utf-8", "backslashreplace") if isinstance(line, bytes) else line
    return printable(_LONG_LIST.sub(r"\1...\2", text.rstrip()), limit)


def last_of(given: bytes, limit: int = 2000) -> str:
    """The last lines of a byte stream, printable, line ends kept."""
    text = given[-limit:].decode("utf-8", "replace").strip()
    return "\n".join(printable(line, 500) for line in text.splitlines()[-20:])


def described(value: Any) -> str:
    """A value and its JSON type, shortened."""
    names = {dict: "an object", list: "an array", str: "the text", bool: "the truth value", int: "the number"}
    if value is None:
        return "null"
    name = names.get(type(value), "the number" if isinstance(value, float) else type(value).__name__)
    return f"{name} {printable(reprlib.repr(value), 80)}"
