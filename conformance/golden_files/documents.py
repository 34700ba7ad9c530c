"""A derived golden file as a tree: what a fixture says, what was proved, and how it is played."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

from conformance.golden_files.certified import Proved, Rows, prove
from conformance.golden_files.condition import provable_bound, sequence_kappa
from conformance.golden_files.fixtures import Fixture
from conformance.golden_files.numbers import Tree, array, input_array, input_number
from conformance.golden_files.rules import Lanes
from conformance.golden_files.schedules import schedules
from conformance.values import PARAMETERS, LayerConfig
from reference_impl.exact import Arithmetic, ExactLayer

FORMAT = "kv-conformance-trace/1"


@dataclass(frozen=True)
class Sequences:
    """The sequences of a file, what proved them, and the bound where 1e-12 cannot be proved."""

    tree: Tree
    provenance: Tree
    bound: str | None
    count: int


def derived_document(fixture: Fixture, *, proof: str) -> tuple[Tree, int]:
    """The tree of a derived golden file and how many numbers were proved for it."""
    found = prove_sequences(fixture, proof=proof)
    tree: Tree = {
        "format": FORMAT,
        "id": fixture.id,
        "level": "layer",
        "about": fixture.about,
        "source": {"document": "none: made by the rule below, for what the published example cannot show"},
        **setup(fixture),
        "sequences": found.tree,
        **({"bound": found.bound} if found.bound else {}),
        "schedules": schedules(fixture.first.chunks, fixture.second.chunks),
        "provenance": {**found.provenance, "generator": fixture.rule},
    }
    return tree, found.count


def setup(fixture: Fixture) -> Tree:
    """Inputs, the layer `main` and its cache `main`."""
    lanes = fixture.first.lanes
    return {
        "inputs": {"x": input_array(lanes), "z": input_array(fixture.second.lanes)},
        "layers": {"main": layer(fixture)},
        "caches": {"main": cache("main", batch_size=len(lanes), capacity=str(fixture.capacity))},
    }


def layer(fixture: Fixture) -> Tree:
    """A layer's configuration and weights as the format writes them."""
    weights = {name: input_array(fixture.parameters[name]) for name in PARAMETERS}
    return {"config": _config(fixture.config), "parameters": weights}


def cache(name: str, *, batch_size: int = 1, capacity: str) -> Tree:
    """A cache of the layer `name`; a capacity of `none` asks for one that grows."""
    return {"layer": name, "batch_size": str(batch_size), "capacity": capacity}


def prove_sequences(fixture: Fixture, *, proof: str) -> Sequences:
    """The sequences `first` and `second` of a fixture. Raises ConformanceError as `prove` does."""
    trees: Tree = {}
    proved: list[Proved] = []
    conditions = []
    for name, rows, given in (("first", "x", fixture.first), ("second", "z", fixture.second)):
        found = prove(_pass(fixture, given.lanes), proof=proof, where=f"{fixture.id}, {name}")
        kappa, largest = sequence_kappa(fixture.config, fixture.parameters, given.lanes)
        exact = _arrays(fixture.config, given.lanes, found)
        trees[name] = {"layer": "main", "rows": rows, "exact": exact, "kappa": kappa}
        proved.append(found)
        conditions.append(largest)
    widest = max(proved, key=lambda one: one.radius)
    count = sum(one.count for one in proved)
    return Sequences(trees, widest.provenance, provable_bound(max(conditions)), count)


def _pass(fixture: Fixture, lanes: Lanes) -> Callable[[Arithmetic], Rows]:
    """The full causal pass over these rows, in any arithmetic."""
    weights = SimpleNamespace(**fixture.parameters)

    def run(arithmetic: Arithmetic) -> Rows:
        found = ExactLayer(fixture.config, weights, arithmetic=arithmetic).run(lanes)
        rows = {"output": [row for lane in found.output for row in lane]}
        by_head = {"keys": found.rotated_key, "values": found.value, "weights": found.weights}
        for name, lane_heads in by_head.items():
            rows[name] = [row for heads in lane_heads for head in heads for row in head]
        return rows

    return run


def _arrays(config: LayerConfig, lanes: Lanes, found: Proved) -> Tree:
    batch, count = len(lanes), len(lanes[0])
    kept = (batch, config.kv_heads, count, config.head_width)
    shapes = {
        "output": (batch, count, config.model_width),
        "keys": kept,
        "values": kept,
        "weights": (batch, config.heads, count, count),
    }
    return {name: array(shape, found.decimals[name]) for name, shape in shapes.items()}


def _config(config: LayerConfig) -> Tree:
    return {
        "model_width": str(config.model_width),
        "heads": str(config.heads),
        "kv_heads": str(config.kv_heads),
        "head_width": str(config.head_width),
        "rope": {
            "base": input_number(Fraction(config.rope.base)),
            "pairing": config.rope.pairing,
            "max_positions": str(config.rope.max_positions),
        },
    }
