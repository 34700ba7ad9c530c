"""Chapter 37 of the course as a golden file: its figures as printed, beside the exact values they round to.

The figures are quotations and cannot be made anew; they are carried over from the file that exists, and every
one of them that follows from the inputs is computed and compared, digit for digit.
"""

from __future__ import annotations

from fractions import Fraction

from conformance.golden_files.chapter_37_figures import chapter_figures
from conformance.golden_files.documents import FORMAT, cache, layer, prove_sequences, setup
from conformance.golden_files.fixtures import Fixture, Rows
from conformance.golden_files.numbers import Tree, input_array
from conformance.golden_files.quotations import quotations, require_figures
from conformance.golden_files.rules import identity, lanes, matrix, modular_matrix
from conformance.golden_files.schedules import schedules
from conformance.trace.yaml_tree import Parsed
from conformance.values import LayerConfig, RopeConfig

_LARGEST = Fraction(float.fromhex("0x1.fffffffffffffp+1023"))

_SECOND = (
    ("-0x1.fae04be85e5d2p-1", "-0x1.210386db6d55bp-3", 0, 1),
    ("-0x1.4eaa606db24c1p-1", "0x1.837b9dddc1eaep-1", 1, -1),
)
"""cos 3, -sin 3 and cos 4, -sin 4 as the nearest float64: the example's rule, two positions on."""


def chapter_37(published: Tree) -> Fixture:
    """The published layer and inputs: identity projections, and an output that exchanges the two heads."""
    first = tuple(tuple(Fraction(float(x)) for x in row) for row in published["inputs_f64"])
    second = tuple(
        tuple(Fraction(float.fromhex(x) if isinstance(x, str) else x) for x in row) for row in _SECOND
    )
    return Fixture(
        id="ch37",
        about="The published example: one layer, three rows one at a time, reset and replay, and eight "
        "refused calls. Figures as printed stand under 'published', what they round from in 'sequences'.",
        rule="x[t] = (cos t, -sin t, b, c) as the nearest float64, z the same from t = 3; query, key and "
        "value the identity, output the exchange of the two heads",
        config=LayerConfig(4, 2, 2, 2, RopeConfig(100.0, "adjacent", 5)),
        parameters={
            "query": identity(4), "key": identity(4), "value": identity(4),
            "output": matrix(4, 4, lambda i, j: j == (i + 2) % 4),
        },
        capacity=4,
        first=Rows((first,), (2, 1)),
        second=Rows((second,), (2,)),
    )


def chapter_37_document(given: Parsed, proof: str) -> tuple[Tree, int]:
    """The tree of the golden file, and how many numbers were proved for it; `given` holds the quotations.

    Raises TraceError with the place of the first published figure that the exact value does not round to.
    """
    published = quotations(given)
    fixture = chapter_37(published)
    found = prove_sequences(fixture, proof=proof)
    require_figures(given, chapter_figures(found.tree["first"]["exact"]))
    tree = setup(fixture)
    tree["inputs"]["largest"] = input_array(lanes(1, 1, 4, lambda _b, _t, _i: _LARGEST))
    tree["layers"] |= _other_layers()
    tree["caches"] |= _other_caches()
    return {
        "format": FORMAT,
        "id": fixture.id,
        "level": "layer",
        "about": fixture.about,
        "source": {
            "document": "a course on language models, chapter 37, content revision 5",
            "constants": "weights and inputs from the same course's public program of chapter 37",
        },
        **tree,
        "sequences": found.tree,
        "schedules": {
            **schedules(fixture.first.chunks, fixture.second.chunks),
            "two-tokens": _two_tokens(),
            "rejections": _rejections(),
        },
        "provenance": {**found.provenance, "generator": fixture.rule},
        "published": published,
    }, found.count


def _other_layers() -> Tree:
    """Layers that are not the one a cache was built for; the numbers of the first two do not matter."""
    def small(name: str, width: int, heads: int) -> Tree:
        head_width = width // heads
        weights = {
            "query": modular_matrix(width, width, a=3, b=5, s=1),
            "key": modular_matrix(width, width, a=7, b=2, s=4),
            "value": modular_matrix(width, width, a=2, b=9, s=3),
            "output": modular_matrix(width, width, a=5, b=3, s=6),
        }
        config = LayerConfig(width, heads, heads, head_width, RopeConfig(100.0, "adjacent", 5))
        none = Rows((), ())
        return layer(Fixture(name, "", "", config, weights, 4, none, none))

    return {
        "width-8": small("width-8", 8, 2),
        "one-head": small("one-head", 4, 1),
        "rebuilt": {"from": "main", "fresh": "query key value output"},
        "base-200": {"from": "main", "rope": {"base": "200"}},
        "positions-6": {"from": "main", "rope": {"max_positions": "6"}},
    }


def _other_caches() -> Tree:
    layers = ("width-8", "one-head", "rebuilt", "base-200", "positions-6")
    return {
        "of-2": cache("main", capacity="2"),
        "of-1": cache("main", capacity="1"),
        **{f"of-{name}": cache(name, capacity="4") for name in layers},
    }


def _two_tokens() -> list[Tree]:
    """Refused only by an implementation of one row a call, so a schedule by itself."""
    return [
        {"op": "append", "cache": "of-2", "rows": "x[0:2]", "label": "two_tokens",
         "rejected": {"kind": "single_token_required"}, "unchanged": "of-2"},
        {"op": "append", "cache": "of-2", "sequence": "first[0:1]"},
        {"op": "append", "cache": "of-2", "sequence": "first[1:2]"},
    ]


def _rejections() -> list[Tree]:
    """The refused calls, each with its cache unchanged, and a lawful call after those that leave one."""
    def refused(label: str, name: str, kind: str, rows: str = "x[0:1]") -> Tree:
        return {
            "op": "append", "cache": name, "layer": "main", "rows": rows, "label": label,
            "rejected": {"kind": kind}, "unchanged": name,
        }

    return [
        {"op": "append", "cache": "of-1", "sequence": "first[0:1]"},
        refused("full_cache", "of-1", "full"),
        refused("model_mismatch", "of-width-8", "cache_model_width_mismatch"),
        refused("head_mismatch", "of-one-head", "cache_head_count_mismatch"),
        refused("layer_mismatch", "of-rebuilt", "cache_layer_mismatch"),
        refused("rope_mismatch", "of-base-200", "cache_rope_mismatch"),
        refused("rope_positions_mismatch", "of-positions-6", "cache_rope_mismatch"),
        refused("nonfinite_projection", "main", "non_finite", rows="largest"),
        {"op": "append", "cache": "main", "sequence": "first[0:1]"},
    ]
