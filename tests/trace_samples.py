"""Trace files for the tests of the format: a golden file in full, and small ones at every level.

The golden numbers are not results of anything: the format neither knows nor cares what is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st

Tree = dict[str, Any]


def decimals(*shape: int, seed: int = 1) -> Tree:
    """An array of 40-digit decimals of every sign and size that a golden file has."""

    def number(n: int) -> str:
        digits = str(10**39 + pow(7, 50 + n, 9 * 10**39))
        return (f"{digits[0]}.{digits[1:]}", f"-0.{digits}", f"0.00{digits}", "-0.5")[n % 4]

    return _array(shape, number, seed)


def exacts(*shape: int, seed: int = 1) -> Tree:
    """An array of small exact fractions."""
    return _array(shape, lambda n: ("0", "1", "-1/2", "3/8", "0x1.8p-3", "-5")[n % 6], seed)


def _array(shape: Sequence[int], number: Any, seed: int) -> Tree:
    rows = [
        " ".join(number(seed + index * shape[-1] + i) for i in range(shape[-1]))
        for index, _ in enumerate(product(*map(range, shape[:-1])))
    ]
    return {"shape": " ".join(map(str, shape)), "rows": rows}


def triangle(batch: int, heads: int, length: int) -> Tree:
    """Causal weights: row t holds t + 1 numbers."""
    whole = decimals(batch, heads, length, length)
    rows = [" ".join(row.split(" ")[: i % length + 1]) for i, row in enumerate(whole["rows"])]
    return {"shape": whole["shape"], "rows": rows}


def golden(*, lanes: int = 2, rows: int = 3, width: int = 4, heads: int = 2, kv_heads: int = 1) -> Tree:
    """A golden file of one layer in full: two layers, three schedules, provenance and published figures."""
    d = width // heads
    inward = kv_heads * d
    exact = {
        "output": decimals(lanes, rows, width),
        "keys": decimals(lanes, kv_heads, rows, d, seed=2),
        "values": decimals(lanes, kv_heads, rows, d, seed=3),
        "weights": triangle(lanes, heads, rows),
    }
    reset = {"op": "reset", "cache": "main", "expect": {"length": "0", "storage": "same"}}
    single = [
        {"op": "append", "cache": "main", "sequence": f"first[{n}:{n + 1}]", "label": f"row {n}"}
        for n in range(rows)
    ]
    again = [{"op": "append", "cache": "main", "sequence": "first[0:1]", "replays": "row 0"}]
    return {
        "format": "kv-conformance-trace/1",
        "id": "sample",
        "level": "layer",
        "about": "A golden file for the tests of the format; its numbers are the results of nothing.",
        "source": {"document": 'none: made "by hand", 100 % of it'},
        "inputs": {"x": exacts(lanes, rows, width)},
        "layers": {
            "a": {
                "config": {
                    "model_width": str(width), "heads": str(heads), "kv_heads": str(kv_heads),
                    "head_width": str(d),
                    "rope": {"base": "100", "pairing": "adjacent", "max_positions": "16"},
                },
                "parameters": {
                    "query": exacts(width, width), "key": exacts(width, inward, seed=2),
                    "value": exacts(width, inward, seed=3), "output": exacts(width, width, seed=4),
                },
            },
            "b": {"from": "a", "rope": {"base": "200"}, "fresh": ""},
        },
        "caches": {"main": {"layer": "a", "batch_size": str(lanes), "capacity": str(rows)}},
        "sequences": {
            "first": {
                "layer": "a", "rows": "x", "exact": exact,
                "kappa": {"output": "5490 73 393", "keys": "12.5 1 3"},
            }
        },
        "schedules": {
            "single": [*single, reset, *again],
            "chunked": [
                {"op": "append", "cache": "main", "sequence": f"first[0:{rows - 1}]"},
                {"op": "append", "cache": "main", "sequence": f"first[{rows - 1}:{rows}]"},
            ],
            "rejections": [
                single[0],
                {"op": "append", "cache": "main", "layer": "b", "rows": "x[1:2]",
                 "rejected": {"kind": "cache_rope_mismatch"}, "unchanged": "main"},
                {"op": "append", "cache": "main", "rows": "x[0:2]",
                 "rejected": {"kind": "single_token_required", "found": "2"}, "unchanged": "main"},
            ],
        },
        "provenance": {"oracle": "none", "radius_log2": "-150"},
        "published": {"figures": {"retained": ["1", "2", "3"], "none": {}, "lines": ["a: b", "# c", "true"]}},
    }


def at_level(level: str) -> Tree:
    """A small file at one of the levels `attention`, `store` and `decoder`, with a sequence."""
    tree: Tree = {
        "format": "kv-conformance-trace/1", "id": "sample", "level": level, "about": "A small file.",
        **{"attention": _attention, "store": _store, "decoder": _decoder}[level](),
    }
    capacity = "none" if level == "store" else "4"
    tree["caches"] = {"main": {"layer": "a", "batch_size": "1", "capacity": capacity}}
    return tree


def _attention() -> Tree:
    config = {"heads": "4", "kv_heads": "2", "key_width": "2", "value_width": "3"}
    exact = {
        "output": decimals(1, 4, 2, 3), "keys": decimals(1, 2, 2, 2), "values": decimals(1, 2, 2, 3),
        "weights": triangle(1, 4, 2),
    }
    inputs = {"query": "q", "key": "k", "value": "v"}
    append = {"op": "append", "cache": "main"}
    return {
        "inputs": {"q": exacts(1, 4, 2, 2), "k": exacts(1, 2, 2, 2), "v": exacts(1, 2, 2, 3)},
        "layers": {"a": {"config": config}},
        "sequences": {"s": {"layer": "a", "inputs": inputs, "exact": exact}},
        "schedules": {"single": [append | {"sequence": "s[0:1]"}, append | {"sequence": "s[1:2]"}]},
    }


def _store() -> Tree:
    config = {"layers": "2", "kv_heads": "2", "key_width": "2", "value_width": "3"}
    keys, values = exacts(1, 2, 2, 2), exacts(1, 2, 2, 3)
    append = {"op": "append", "cache": "main", "layer": "1"}
    return {
        "inputs": {"k": keys, "v": values},
        "layers": {"a": {"config": config}},
        "sequences": {
            "s": {
                "layer": "a", "inputs": {"keys": "k", "values": "v"},
                "exact": {"keys": keys, "values": values},
            }
        },
        "schedules": {"single": [append | {"sequence": "s[0:1]"}, append | {"sequence": "s[1:2]"}]},
    }


def _decoder() -> Tree:
    layer = {
        "model_width": "4", "heads": "2", "kv_heads": "1", "head_width": "2",
        "rope": {"base": "100", "pairing": "half", "max_positions": "8"},
    }
    config = {
        "vocabulary": "5", "layers": "2", "layer": layer, "feed_forward_width": "6", "norm_epsilon": "1e-5",
        "positions": "rope", "tied": "true", "biases": "false",
    }
    weights = {"token_embedding.weight": exacts(5, 4), "gain": exacts(4)}
    exact = {"output": decimals(1, 3, 5), "keys.1": decimals(1, 1, 3, 2)}
    return {
        "inputs": {"t": {"shape": "1 3", "rows": ["3 1 4"]}},
        "layers": {"a": {"config": config, "parameters": weights}},
        "sequences": {"s": {"layer": "a", "inputs": {"tokens": "t"}, "exact": exact}},
        "schedules": {
            "single": [
                {"op": "prefill", "cache": "main", "sequence": "s[0:2]"},
                {"op": "decode", "cache": "main", "sequence": "s[2:3]"},
                {"op": "observe", "cache": "main", "layer": "1", "expect": {"keys": "s.keys.1[0:3]"}},
                {"op": "close", "cache": "main"},
            ]
        },
    }


_TREES = st.recursive(
    st.sampled_from(["", "main", "x[0:1]", "first", "1", "-1", "nan", "0.1", "true", "2 3 4", "1/2"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["shape", "rows", "type", "kind", "int", "map"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def damaged_trees(draw: st.DrawFn) -> Tree:
    """The golden file with another tree in one place, at any depth."""
    tree = golden()
    node: Any = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = draw(st.sampled_from(keys))
        if not isinstance(node[key], dict | list) or not node[key] or draw(st.integers(0, 3)) == 0:
            break
        node = node[key]
    node[key] = draw(_TREES)
    return tree
