"""Chapter 38 of the course as a golden file: a decoder of two blocks, its published figures, exact logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import Any

from conformance.golden_files.certified import Proved, Rows, prove
from conformance.golden_files.documents import FORMAT, cache
from conformance.golden_files.numbers import Tree, array, input_array
from conformance.golden_files.quotations import quotations, require_figures
from conformance.trace.yaml_tree import Parsed
from conformance.values import DecoderConfig, LayerConfig, RopeConfig
from reference_impl.exact import Arithmetic, fixed_point
from reference_impl.exact_decoder import exact_pass

CONFIG = DecoderConfig(5, 2, LayerConfig(4, 2, 2, 2, RopeConfig(10000.0, "adjacent", 4)), 4, 1e-6)

FIRST, SECOND = (0, 1, 2), (4, 3, 0)
"""The published prompt and decoded token, and other tokens for after a reset."""


def chapter_38_document(given: Parsed, proof: str) -> tuple[Tree, int]:
    """The tree of the golden file, and how many numbers were proved for it; `given` holds the quotations.

    Raises TraceError with the place of the first published figure that the exact value does not round to.
    """
    published = quotations(given)
    parameters = {name: _exact(rows) for name, rows in published["parameters"].items()}
    sequences: Tree = {}
    provenance: Tree = {}
    count = 0
    for name, rows, tokens in (("first", "x", FIRST), ("second", "z", SECOND)):
        found = prove(_pass(parameters, tokens), proof=proof, where=f"ch38, {name}")
        exact = _arrays(len(tokens), found)
        sequences[name] = {"layer": "main", "inputs": {"tokens": rows}, "exact": exact}
        count += found.count
        provenance = found.provenance
    require_figures(given, _figures(sequences["first"]["exact"]))
    return {
        "format": FORMAT,
        "id": "ch38",
        "level": "decoder",
        "about": "The published decoder: two blocks with a cache each, a prompt of two tokens and one more. "
        "Figures as printed stand under 'published', the exact logits that they round from in 'sequences'.",
        "source": {"document": "a course on language models, chapter 38, which its chapter 37 names as next"},
        "inputs": {
            "x": array((1, len(FIRST)), [map(str, FIRST)]), "z": array((1, len(SECOND)), [map(str, SECOND)]),
        },
        "layers": {
            "main": {
                "config": _strings(asdict(CONFIG)),
                "parameters": {name: input_array(rows) for name, rows in parameters.items()},
            }
        },
        "caches": {"main": cache("main", capacity="4")},
        "sequences": sequences,
        "bound": published["tolerance"],
        "schedules": {"single": list(_life(2, 1))},
        "provenance": {**provenance, "generator": "parameters as published, in shortest decimals of float64"},
        "published": published,
    }, count


def _pass(parameters: Mapping[str, Any], tokens: Sequence[int]) -> Callable[[Arithmetic], Rows]:
    """The full causal pass over these tokens, in any arithmetic."""
    def run(arithmetic: Arithmetic) -> Rows:
        found = exact_pass(CONFIG, parameters, tokens, arithmetic=arithmetic)
        kept = {
            f"{name}.{i}": [row for head in heads for row in head]
            for name in ("keys", "values")
            for i, heads in enumerate(getattr(found, name))
        }
        return {"output": found.logits, **kept}

    return run


def _arrays(tokens: int, found: Proved) -> Tree:
    kept = (1, CONFIG.layer.kv_heads, tokens, CONFIG.layer.head_width)
    output = (1, tokens, CONFIG.vocabulary)
    return {name: array(output if name == "output" else kept, rows) for name, rows in found.decimals.items()}


def _life(prompt: int, other: int) -> Iterator[Tree]:
    """Prefill and decode with both caches looked at, reset, replay, reset, and another prompt."""
    reset: Tree = {"op": "reset", "cache": "main"}
    yield {**_call("prefill", "first", 0, prompt), "label": "prompt"}
    yield from _observed("first", prompt)
    yield {**_call("decode", "first", prompt, prompt + 1), "label": "decoded"}
    yield from _observed("first", prompt + 1)
    yield reset
    yield {**_call("prefill", "first", 0, prompt), "replays": "prompt"}
    yield {**_call("decode", "first", prompt, prompt + 1), "replays": "decoded"}
    yield reset
    yield _call("prefill", "second", 0, other)
    for t in range(other, len(SECOND)):
        yield _call("decode", "second", t, t + 1)
        yield from _observed("second", t + 1)


def _call(op: str, sequence: str, start: int, stop: int) -> Tree:
    return {"op": op, "cache": "main", "sequence": f"{sequence}[{start}:{stop}]"}


def _observed(sequence: str, length: int) -> Iterator[Tree]:
    for i in range(CONFIG.layers):
        arrays = {name: f"{sequence}.{name}.{i}[0:{length}]" for name in ("keys", "values")}
        yield {"op": "observe", "cache": "main", "layer": str(i), "expect": {"length": str(length), **arrays}}


def _figures(exact: Tree) -> Tree:
    """Logits to nine places, and the counts of scores that follow from the lengths."""
    heads = CONFIG.layers * CONFIG.layer.heads
    prompt, total = len(FIRST) - 1, len(FIRST)

    def phase(before: int, after: int) -> Tree:
        logits = exact["output"]["rows"][after - 1].split()
        return {
            "length_before": str(before),
            "length_after": str(after),
            "layer_lengths": [str(after)] * CONFIG.layers,
            "cache_shape": ["1", str(CONFIG.layer.kv_heads), str(after), str(CONFIG.layer.head_width)],
            "cached_scores": str(heads * sum(range(before + 1, after + 1))),
            "complete_prefix_scores": str(heads * after**2),
            "max_abs_difference": fixed_point(0, 12),
            "logits": [fixed_point(Fraction(x), 9) for x in logits],
        }

    phases = {"prefill": phase(0, prompt), "decode": phase(prompt, total)}
    cached = sum(int(found["cached_scores"]) for found in phases.values())
    complete = sum(int(found["complete_prefix_scores"]) for found in phases.values())
    return {
        **phases,
        "work": {
            "prefill_tokens": str(prompt),
            "decode_tokens": str(total - prompt),
            "layer_caches": str(CONFIG.layers),
            "cache_appends": str(CONFIG.layers * total),
            "qkv_rows": str(3 * CONFIG.layers * total),
            "cached_scores": str(cached),
            "complete_prefix_scores": str(complete),
            "avoided_scores": str(complete - cached),
        },
    }


def _exact(rows: Any) -> Any:
    """Published decimals as the float64 numbers that they stand for."""
    return Fraction(float(rows)) if isinstance(rows, str) else [_exact(row) for row in rows]


def _strings(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _strings(part) for name, part in value.items()}
    return str(value).lower() if isinstance(value, bool) else str(value).removesuffix(".0")
