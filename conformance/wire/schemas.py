"""The published JSON Schemas of the messages (draft 2020-12), as package data."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from conformance.wire.protocol import HANDLES

NAMES = ("common", "request", "reply")
"""`common` holds values and results under `$defs`; `request` and `reply` are whole lines."""


@cache
def schema(name: str) -> dict[str, Any]:
    """One schema by its name in `NAMES`."""
    folder = resources.files("conformance") / "schemas" / "wire"
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def definition_of(answer: str) -> str:
    """The definition of `common` that a result follows, by the `answer` of its request."""
    return "created" if answer in (*HANDLES, "same") else answer
