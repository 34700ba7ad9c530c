"""Tree to text: always the same text for the same tree, one string of numbers a line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from conformance.errors import TraceError
from conformance.trace.yaml_tree import END, parse, show

WIDTH = 108
"""A mapping or list that fits on a line of so many characters stands on one line."""

_PLAIN = re.compile(r"[a-zA-Z_][a-zA-Z0-9_./-]*")
_SPECIAL = re.compile(r"(?i:null|true|false|yes|no|on|off|y|n)")


def dump(tree: Mapping[str, Any]) -> str:
    """The text of a tree of mappings, lists and strings; keys keep their order.

    `parse(dump(tree)).tree == tree`, or TraceError is raised: for a value that is no string, and for a tree
    that a trace file may not hold (too deep, control characters).
    """
    text = "\n".join((*_block(tree, "", ()), END, ""))
    if parse(text).tree != tree:
        raise TraceError("the tree does not read back as it was; every key and value must be a plain string")
    return text


def _block(node: Any, indent: str, path: tuple[str | int, ...]) -> Iterator[str]:
    """The lines of a mapping or list, none of which continues a line before."""
    pairs = node.items() if isinstance(node, Mapping) else enumerate(node)
    for key, value in pairs:
        place = (*path, key)
        lead = f"{indent}{_scalar(key, place)}:" if isinstance(node, Mapping) else f"{indent}-"
        if not isinstance(value, Mapping | list) or not value or _fits(key, value, lead, place):
            yield f"{lead} {_flow(value, place)}"
        elif isinstance(node, Mapping):
            yield lead
            yield from _block(value, f"{indent}  ", place)
        else:
            first, *rest = _block(value, f"{indent}  ", place)
            yield f"{indent}- {first.lstrip(' ')}"
            yield from rest


def _fits(key: str | int, value: Any, lead: str, path: tuple[str | int, ...]) -> bool:
    """Numbers, steps and expectations stand row by row, so that a change shows as one line."""
    if key == "rows" or _is_tall(value):
        return False
    return len(lead) + 1 + len(_flow(value, path)) <= WIDTH


def _is_tall(node: Any) -> bool:
    if isinstance(node, Mapping):
        return isinstance(node.get("rows"), list) or any(map(_is_tall, node.values()))
    return isinstance(node, list) and any(isinstance(entry, Mapping | list) for entry in node)


def _flow(node: Any, path: tuple[str | int, ...]) -> str:
    if isinstance(node, Mapping):
        return "{" + ", ".join(f"{_scalar(k, path)}: {_flow(v, (*path, k))}" for k, v in node.items()) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(_flow(value, (*path, i)) for i, value in enumerate(node)) + "]"
    return _scalar(node, path)


def _scalar(value: Any, path: tuple[str | int, ...]) -> str:
    if not isinstance(value, str):
        raise TraceError(
            f"found a {type(value).__name__}; a tree holds mappings, lists and strings", path=show(path)
        )
    if _PLAIN.fullmatch(value) and not _SPECIAL.fullmatch(value):
        return value
    return json.dumps(value, ensure_ascii=False)
