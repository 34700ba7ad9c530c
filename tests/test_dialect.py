"""Rotary pairs, the order of query heads and head widths: said as an implementation declares them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from conformance import Declaration, Rejected, check
from conformance.adapters.numpy_layer import NumpyLayerAdapter
from conformance.dialect import spoken
from conformance.errors import AdapterError
from conformance.suite import traces
from conformance.verdict import default_profiles
from tests.library_likes import Adjacent, Growing, GrowingLayer, OneEarly, Slots, declaring, failed

EVIDENT = frozenset({"chunks", "gqa", "evidence"})


def test_an_implementation_of_one_pairing_says_so_and_is_judged_on_every_golden_trace() -> None:
    half = declaring(GrowingLayer, pairings=("half",), features=EVIDENT)
    report = check(half)
    assert report.verdict.text == "conformant"
    assert report.planned == len(list(traces(replace(half.declaration, pairings=("adjacent", "half")))))
    asked = {t.layers[n].config.rope.pairing for t in traces(half.declaration) for n in t.layers}
    assert asked == {"half"}
    assert check(declaring(GrowingLayer), "core", diagnose=False).verdict.text == "incomplete"


@pytest.mark.parametrize("kind", [Adjacent, OneEarly])
def test_what_is_wrong_in_the_one_pairing_is_seen(kind) -> None:
    assert "POSITION-OFFSET" in failed(declaring(kind, pairings=("half",)), "append-five")


class NumpyOfOnePairing(NumpyLayerAdapter):
    """The embedded layer, every feature declared, that refuses to be built with the other pairs."""

    def __init__(self, pairing):
        super().__init__("any")
        self.declaration = replace(self.declaration, pairings=(pairing,))

    def build_layer(self, config, parameters):
        assert (config.rope.pairing,) == self.declaration.pairings
        return super().build_layer(config, parameters)


@pytest.mark.parametrize("pairing", ["adjacent", "half"])
def test_updates_rewired_layers_and_refusals_are_said_in_the_one_pairing(pairing) -> None:
    adapter = NumpyOfOnePairing(pairing)
    report = check(adapter, ["strict", *default_profiles(adapter.declaration, embedded=False)])
    assert report.verdict.text == "conformant"


@pytest.mark.parametrize("features", [EVIDENT, EVIDENT - {"evidence"}])
def test_tiled_heads_are_judged_as_tiled(features) -> None:
    claims = {"pairings": ("half",), "heads": "tiled", "features": features}
    tiled = type("Tiled", (GrowingLayer,), {"tiled": True})
    adapter = declaring(tiled, **claims)
    told = ("heads", "mod-", "evidence", "chunks-1", "lanes")
    played = [t for t in traces(adapter.declaration) if not t.id.startswith("refused")]
    only = [t for t in played if any(part in t.id for part in told)]
    report = check(adapter, only=only, diagnose=False)
    assert len(only) > 30
    assert {c.status for c in report.checks} <= {"pass", "unobserved"}
    assert "GQA-ORDER" in failed(declaring(GrowingLayer, **claims), "grouped-heads")
    assert "GQA-ORDER" in failed(declaring(tiled, pairings=("half",)), "grouped-heads")


def test_tiled_heads_of_an_attention_are_judged_as_tiled() -> None:
    claims = {"heads": "tiled", "features": frozenset({"gqa"})}
    tiled = type("Tiled", (Growing,), {"tiled": True})
    assert check(declaring(tiled, **claims)).verdict.text == "conformant"
    assert "GQA-ORDER" in failed(declaring(Growing, **claims), "grouped-heads")


def test_what_an_implementation_speaks_already_is_not_said_otherwise() -> None:
    plain = replace(GrowingLayer.declaration, features=EVIDENT)
    for trace in traces(plain):
        assert spoken(trace, plain) is trace


def test_a_pairing_that_is_none_is_refused_by_name() -> None:
    with pytest.raises(AdapterError, match="pairings holds 'interleaved'"):
        Declaration(name="x", pairings=("interleaved",))
    with pytest.raises(AdapterError, match="pairings is empty"):
        Declaration(name="x", pairings=())


# -- head widths


class Kernel(Growing):
    """A fused kernel: head widths are multiples of 8, and values are as wide as keys."""

    def build_cache(self, config, batch_size, capacity):
        if config.key_width % 8 or config.key_width != config.value_width:
            raise NotImplementedError("head_size must be a multiple of 8")
        return super().build_cache(config, batch_size, capacity)

    def append(self, cache, query, key, value):
        if not query.shape[2]:
            raise Rejected("empty_chunk")
        return super().append(cache, query, key, value)


class OneFeatureShort(Kernel):
    def append(self, cache, query, key, value):
        query = query.copy()
        query[..., 7] = 0.0
        return super().append(cache, query, key, value)


FUSED = {"head_width_multiple": 8, "value_width": "key", "features": frozenset({"chunks", "gqa"})}


def test_a_kernel_of_certain_head_widths_says_so() -> None:
    assert check(declaring(Kernel, **FUSED)).verdict.text == "conformant"
    assert check(declaring(Kernel), "core", diagnose=False).verdict.text == "incomplete"
    assert "AGREE-OUTPUT" in failed(declaring(OneFeatureShort, **FUSED), "append-five")


class WideLayer(GrowingLayer):
    def build_layer(self, config, parameters):
        if config.head_width % 4:
            raise ZeroDivisionError
        return super().build_layer(config, parameters)


def test_a_layer_of_certain_head_widths_says_so() -> None:
    assert check(declaring(WideLayer, pairings=("half",), head_width_multiple=4)).verdict.text == "conformant"
    adapter = NumpyLayerAdapter("any")
    adapter.declaration = replace(adapter.declaration, head_width_multiple=4)
    assert check(adapter, ["core", "chunks", "gqa", "rollback", "fork"]).verdict.text == "conformant"


class SquareStore(Slots):
    def append(self, store, layer, keys, values):
        assert keys.shape == values.shape
        super().append(store, layer, keys, values)


def test_a_store_of_equal_widths_says_so() -> None:
    claims = {"value_width": "key", "rows_per_append": "any"}
    played = [trace.id for trace in traces(declaring(SquareStore, **claims).declaration)]
    assert "store-growth" in played
    assert check(declaring(SquareStore, **claims)).verdict.text == "conformant"


@pytest.mark.parametrize("multiple", [0, -8, 8.0, True])
def test_a_multiple_that_is_none_is_refused(multiple) -> None:
    with pytest.raises(AdapterError, match="head_width_multiple is"):
        Declaration(name="x", head_width_multiple=multiple)
