"""Chapter 38 of the course as a golden file: a decoder of two blocks, its published figures, exact logits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
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
            "unknown": array((1, 1), [[str(CONFIG.vocabulary)]]),
        },
        "layers": {
            "main": {
                "config": _strings(asdict(CONFIG)),
                "parameters": {name: input_array(rows) for name, rows in parameters.items()},
            },
            **_other_models(),
        },
        "caches": {
            "main": cache("main", capacity="4"),
            **{f"of-{rows}": cache("main", capacity=str(rows)) for rows in (2, 3)},
        },
        "sequences": sequences,
        "bound": published["tolerance"],
        "schedules": {
            "prompt": list(_life(2, 1)),
            "single": list(_life(1, 2)),
            "rejections": list(_rejections()),
            "reopened": list(_reopened()),
        },
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
    """Prefill and decodes with both caches looked at, reset, replay, reset, and another prompt."""
    rest = range(prompt, len(FIRST))
    yield {**_call("prefill", "first", 0, prompt), "label": "prompt"}
    yield from _observed("first", prompt)
    for t in rest:
        yield {**_call("decode", "first", t, t + 1), "label": f"decoded-{t}"}
        yield from _observed("first", t + 1)
    yield from _reset()
    yield {**_call("prefill", "first", 0, prompt), "replays": "prompt"}
    for t in rest:
        yield {**_call("decode", "first", t, t + 1), "replays": f"decoded-{t}"}
    yield from _reset()
    yield _call("prefill", "second", 0, other)
    for t in range(other, len(SECOND)):
        yield _call("decode", "second", t, t + 1)
        yield from _observed("second", t + 1)


def _reset() -> Iterator[Tree]:
    """A reset, after which every layer is empty and where it was."""
    yield {"op": "reset", "cache": "main", "expect": {"length": "0", "storage": "same"}}
    for i in range(CONFIG.layers):
        yield {
            "op": "observe", "cache": "main", "layer": str(i), "expect": {"length": "0"},
            "requirement": "DECODE-RESET-LENGTH",
        }


def _other_models() -> Tree:
    """Models that the caches of `main` are not bound to, though they have its numbers."""
    rope = replace(CONFIG.layer.rope, base=200.0)
    changed = replace(CONFIG, layer=replace(CONFIG.layer, rope=rope))
    return {
        "rebuilt": {"from": "main", "fresh": "token_embedding.weight blocks.1.ffn.down.weight"},
        "changed": {"from": "main", "config": _strings(asdict(changed))},
    }


def _rejections() -> Iterator[Tree]:
    """The refused calls of the chapter and those of the same kind, every layer as it was, and lawful ones."""
    yield _refused("decode_before_prefill", "decode", "main", "first[0:1]", "prefill_required")
    yield {
        "op": "prefill", "cache": "main", "inputs": {"tokens": "unknown"}, "label": "unknown_token",
        "rejected": {"kind": "token_out_of_vocabulary"}, "unchanged": _layers("main"),
    }
    yield {**_call("prefill", "first", 0, 2), "label": "prompt"}
    yield _refused("prefill_nonempty", "prefill", "main", "first[0:2]", "prefill_not_empty")
    yield _call("decode", "first", 2, 3)
    yield {**_call("prefill", "first", 0, 2), "cache": "of-3"}
    yield {**_call("decode", "first", 2, 3), "cache": "of-3"}
    yield _refused("overflow", "decode", "of-3", "first[0:1]", "full")
    yield _refused("long_prompt", "prefill", "of-2", "first[0:3]", "prompt_exceeds_capacity")
    yield {**_call("prefill", "first", 0, 2), "cache": "of-2"}


def _refused(label: str, op: str, name: str, sequence: str, kind: str) -> Tree:
    return {
        "op": op, "cache": name, "sequence": sequence, "label": label, "rejected": {"kind": kind},
        "unchanged": _layers(name),
    }


def _layers(name: str) -> str:
    return " ".join(f"{name}/{i}" for i in range(CONFIG.layers))


def _reopened() -> Iterator[Tree]:
    """The caches of a closed session refused to other models, and taken up again by their own."""
    yield _call("prefill", "first", 0, 2)
    yield {"op": "close", "cache": "main"}
    for label, model, kind in (
        ("rebuilt_model", "rebuilt", "model_mismatch"),
        ("changed_config", "changed", "configuration_mismatch"),
    ):
        yield {
            "op": "reopen", "cache": "main", "layer": model, "label": label, "rejected": {"kind": kind},
            "unchanged": _layers("main"),
        }
    yield {"op": "reopen", "cache": "main", "layer": "main"}
    yield _call("decode", "first", 2, 3)
    yield from _observed("first", 3)


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
