"""The forge engine's cache chapter as a golden file: its figures, and its growing store played with rows.

forge publishes no weights, so its figures cannot be computed anew; they stand as printed.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from conformance.golden_files.documents import FORMAT, cache
from conformance.golden_files.numbers import Tree, input_array
from conformance.golden_files.quotations import quotations
from conformance.trace.yaml_tree import Parsed

_LAYERS, _BATCH, _HEADS, _TOKENS = 2, 2, 3, 6
_WIDTHS = {"keys": 4, "values": 5}


def forge_document(given: Parsed, _: str) -> tuple[Tree, int]:
    """The tree of the golden file, and 0, since nothing is proved; `given` holds the quotations."""
    names = {"first": 0, "second": 7}
    inputs = {
        f"{name}-{kind}": input_array(_rows(kind, shift)) for name, shift in names.items() for kind in _WIDTHS
    }
    sequences = {
        name: {
            "layer": "main",
            "inputs": {kind: f"{name}-{kind}" for kind in _WIDTHS},
            "exact": {kind: inputs[f"{name}-{kind}"] for kind in _WIDTHS},
        }
        for name in names
    }
    return {
        "format": FORMAT,
        "id": "forge",
        "level": "store",
        "about": "A growing store with a slot per layer: six tokens, as in the published check, one by one "
        "and as a prompt. What comes back is what went in. Figures as printed stand under 'published'.",
        "source": {"document": "the engine forge, chapter 7 of its book, on the key/value cache"},
        "inputs": inputs,
        "layers": {
            "main": {
                "config": {
                    "layers": str(_LAYERS), "kv_heads": str(_HEADS),
                    "key_width": str(_WIDTHS["keys"]), "value_width": str(_WIDTHS["values"]),
                }
            }
        },
        "caches": {"main": cache("main", batch_size=_BATCH, capacity="none")},
        "sequences": sequences,
        "schedules": {"single": list(_life([1] * _TOKENS)), "prompt": list(_life([4, 1, 1]))},
        "provenance": {
            "generator": "row[b,g,t,i] = (((5b + 4g + 7t + 3i + 2ti + b t^2 + s) mod 13) - 6)/8, s = 0 in "
            "first, 7 in second, and 2 more for values"
        },
        "published": quotations(given),
    }, 0


def _rows(kind: str, shift: int) -> Any:
    start = shift + (2 if kind == "values" else 0)
    return tuple(
        tuple(
            tuple(
                tuple(
                    Fraction((5 * b + 4 * g + 7 * t + 3 * i + 2 * t * i + b * t * t + start) % 13 - 6, 8)
                    for i in range(_WIDTHS[kind])
                )
                for t in range(_TOKENS)
            )
            for g in range(_HEADS)
        )
        for b in range(_BATCH)
    )


def _life(chunks: list[int]) -> Iterator[Tree]:
    """Both layers in turn, each with rows of its own; then a reset, and the rows of the two exchanged."""
    for sequences in (("first", "second"), ("second", "first")):
        start = 0
        for rows in chunks:
            for layer, sequence in enumerate(sequences):
                yield {
                    "op": "append", "cache": "main", "layer": str(layer),
                    "sequence": f"{sequence}[{start}:{start + rows}]",
                }
            start += rows
        if sequences[0] == "first":
            yield {"op": "reset", "cache": "main"}
