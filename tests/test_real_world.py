"""What real libraries do, in a few lines of NumPy each: each must be able to say so, and be judged right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance import AttentionConfig, Declaration, Observation, Rejected, Step, check
from conformance.adapter import Precision
from conformance.adapters.numpy_layer import NumpyLayerAdapter
from conformance.dialect import spoken
from conformance.errors import AdapterError
from conformance.judge import compare
from conformance.report.text import report_text
from conformance.suite import traces
from conformance.verdict import default_profiles


def for_each_query_head(heads, rows, *, tiled):
    """Key/value heads as the query heads read them: h // (H/G), or, tiled, h mod G."""
    group = heads // rows.shape[1]
    return np.tile(rows, (1, group, 1, 1)) if tiled else rows.repeat(group, axis=1)


def attend(query, keys, values, *, tiled=False, evidence=None):
    """Causal attention, aligned at the last row."""
    keys, values = (for_each_query_head(query.shape[1], part, tiled=tiled) for part in (keys, values))
    scores = query @ keys.swapaxes(2, 3) / np.sqrt(query.dtype.type(query.shape[3]))
    old = keys.shape[2] - query.shape[2]
    unseen = np.arange(keys.shape[2])[None, :] > np.arange(old, keys.shape[2])[:, None]
    scores = np.where(unseen, query.dtype.type(-np.inf), scores)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    if evidence is not None:
        evidence["weights"] = weights
    return weights @ values


class Growing:
    """As most library caches: new rows are joined to the old ones, there is no capacity and no refusal."""

    declaration = Declaration(name="growing", levels=("attention",), capacity="growing")
    tiled = False

    def build_cache(self, config: AttentionConfig, batch_size, capacity):
        dtype = self.declaration.dtypes[0]
        return {
            "keys": np.zeros((batch_size, config.kv_heads, 0, config.key_width), dtype),
            "values": np.zeros((batch_size, config.kv_heads, 0, config.value_width), dtype),
        }

    def append(self, cache, query, key, value):
        cache["keys"] = np.concatenate([cache["keys"], key], axis=2)
        cache["values"] = np.concatenate([cache["values"], value], axis=2)
        return attend(query, cache["keys"], cache["values"], tiled=self.tiled)

    def observe(self, cache):
        return Observation(cache["keys"].shape[2], None, cache["keys"], cache["values"])

    def reset(self, cache):
        cache["keys"], cache["values"] = (part[:, :, :0] for part in (cache["keys"], cache["values"]))


def declaring(kind, **claims):
    """An adapter of that class whose declaration claims something else."""
    base = {name: getattr(kind.declaration, name) for name in ("name", "levels", "capacity", "features")}
    return type(kind.__name__, (kind,), {"declaration": Declaration(**(base | claims))})()


class GrowingLayer:
    """A layer as libraries write it: halves of a head are rotated, and nothing else can be configured."""

    declaration = Declaration(
        name="growing layer", levels=("layer",), capacity="growing", features=frozenset({"chunks", "gqa"})
    )
    tiled = False

    def build_layer(self, config, parameters):
        if config.rope.pairing != "half":
            raise NotImplementedError("only halves are rotated here")
        return config, {name: np.array(part) for name, part in vars(parameters).items()}

    def build_cache(self, layer, batch_size, capacity):
        shape = (batch_size, layer[0].kv_heads, 0, layer[0].head_width)
        return {"keys": np.zeros(shape), "values": np.zeros(shape)}

    def append(self, layer, cache, rows):
        config, weights = layer
        lanes, count, _ = rows.shape
        if not count:
            return rows
        query, key, value = (
            (rows @ weights[name]).reshape(lanes, count, -1, config.head_width).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        positions = np.arange(count) + cache["keys"].shape[2]
        turned = self.rotated(query, positions, config), self.rotated(key, positions, config)
        for name, new in (("keys", turned[1]), ("values", value)):
            cache[name] = np.concatenate([cache[name], new], axis=2)
        seen = {"query": query, "key": key, "value": value, "rotated_query": turned[0]}
        heads = attend(turned[0], cache["keys"], cache["values"], tiled=self.tiled, evidence=seen)
        merged = heads.transpose(0, 2, 1, 3).reshape(lanes, count, -1)
        output = merged @ weights["output"]
        if "evidence" not in self.declaration.features:
            return output
        return Step(output, rotated_key=turned[1], heads=heads, merged=merged, **seen)

    def rotated(self, rows, positions, config):
        half = config.head_width // 2
        angles = np.outer(positions, config.rope.base ** (-2.0 * np.arange(half) / config.head_width))
        left, right = rows[..., :half], rows[..., half:]
        return np.concatenate(
            [left * np.cos(angles) - right * np.sin(angles), left * np.sin(angles) + right * np.cos(angles)],
            axis=3,
        )

    observe, reset = Growing.observe, Growing.reset


class Adjacent(GrowingLayer):
    """Rotates the other pairs."""

    def rotated(self, rows, positions, config):
        mixed = rows.reshape(*rows.shape[:-1], -1, 2).swapaxes(-1, -2).reshape(rows.shape)
        turned = super().rotated(mixed, positions, config)
        return turned.reshape(*rows.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(rows.shape)


class OneEarly(GrowingLayer):
    def rotated(self, rows, positions, config):
        return super().rotated(rows, np.maximum(positions - 1, 0), config)


# -- what it is fed with, and where it rounds


def test_a_dtype_alone_says_where_an_implementation_rounds() -> None:
    assert Declaration(name="x", dtypes=("float32",)).precision == Precision.of("float32")
    assert Declaration(name="x").precision == Precision()
    half = Declaration(name="x", dtypes=("float16",), precision=Precision(storage="float16"))
    assert (half.precision.storage, half.precision.arithmetic) == ("float16", "float64")


def test_what_is_fed_with_float32_is_not_held_to_float64() -> None:
    single = declaring(Growing, dtypes=("float32",), features=frozenset({"gqa"}))
    assert check(single, ["core", "gqa"]).verdict.text != "not conformant"
    claimed = declaring(Growing, dtypes=("float32",), precision=Precision())
    assert check(claimed, "core", diagnose=False).verdict.text == "not conformant"


@pytest.mark.parametrize(
    ("claims", "named"),
    [
        ({"dtypes": ("torch.float32",)}, "dtypes holds 'torch.float32'"),
        ({"precision": Precision(softmax="fp32")}, "precision.softmax holds 'fp32'"),
        ({"dtypes": ()}, "dtypes is empty"),
    ],
)
def test_a_dtype_that_is_none_is_refused_by_name(claims, named) -> None:
    with pytest.raises(AdapterError, match=named):
        Declaration(name="x", **claims)


class Upcasting(Growing):
    """Fed with a narrow dtype, computes in float64 and rounds its output once."""

    def append(self, cache, query, key, value):
        wide = super().append(cache, *(part.astype(np.float64) for part in (query, key, value)))
        cache["keys"], cache["values"] = (cache[n].astype(query.dtype) for n in ("keys", "values"))
        return wide.astype(query.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_computes_wider_than_it_is_fed_is_held_to_one_rounding(dtype) -> None:
    wide = {"precision": Precision(storage=dtype), "features": frozenset({"gqa", "chunks"})}
    report = check(declaring(Upcasting, dtypes=(dtype,), **wide), ["core", "gqa"], diagnose=False)
    assert not [c for c in report.checks if c.status == "fail"]
    assert max(c.share for c in report.checks if c.requirement in ("STORE-KEYS", "STORE-VALUES")) == 0.0


class Poisonable(Growing):
    """Fixed buffers of its dtype, which refuse a number that they cannot hold."""

    def build_cache(self, config, batch_size, capacity):
        made = super().build_cache(config, batch_size, capacity)
        made["room"] = {
            name: np.zeros((*made[name].shape[:2], capacity, made[name].shape[3]), made[name].dtype)
            for name in ("keys", "values")
        }
        return made

    def append(self, cache, query, key, value):
        output = super().append(cache, query, key, value)
        n = cache["keys"].shape[2]
        for name in ("keys", "values"):
            cache["room"][name][:, :, :n] = cache[name]
        return output

    def poison(self, cache, value):
        n = cache["keys"].shape[2]
        for part in cache["room"].values():
            if np.isfinite(value) and not np.isfinite(part.dtype.type(value)):
                raise RuntimeError("value cannot be converted without overflow")
            part[:, :, n:] = value


class PoisonsTooMuch(Poisonable):
    def poison(self, cache, value):
        cache["keys"] = cache["keys"] * np.nan


@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_unused_slots_are_poisoned_with_what_they_can_hold(dtype) -> None:
    claims = {"dtypes": (dtype,), "features": frozenset({"poison"})}
    for part in ("unused-slots", "reset-poisoned"):
        only = [t for t in traces(declaring(Poisonable, **claims).declaration) if t.id == part]
        report = check(declaring(Poisonable, **claims), only=only)
        assert len(only) == 1
        assert {c.status for c in report.checks} <= {"pass", "unobserved"}
    assert "STORE-UNUSED" in failed(declaring(PoisonsTooMuch, **claims), "unused-slots")


# -- rotary pairs and the order of query heads

EVIDENT = frozenset({"chunks", "gqa", "evidence"})


def failed(adapter, part):
    """What fails under any profile on the traces that have `part` in their names."""
    only = [trace for trace in traces(adapter.declaration) if part in trace.id]
    return {c.requirement for c in check(adapter, only=only, diagnose=False).checks if c.status == "fail"}


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
    report = check(declaring(tiled, **claims))
    assert report.verdict.text == "conformant"
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


# -- where a finding is


def test_the_place_in_the_output_of_an_attention_names_its_head() -> None:
    wanted, seen = np.zeros((2, 3, 1, 4)), np.zeros((2, 3, 1, 4))
    seen[1, 2, 0, 3] = 1.0
    found = compare.worst("output", seen, wanted, 1e-12, first_row=5)
    assert (found.lane, found.head, found.position) == (1, 2, 5)
    found = compare.worst("output", seen[:, :, 0], wanted[:, :, 0], 1e-12, first_row=5)
    assert (found.lane, found.head, found.position) == (1, None, 7)


# -- arrays that change their dtype


class Retyping(Growing):
    """Its rows come back in another dtype once there are `after` of them."""

    after = 0

    def observe(self, cache):
        dtype = np.float32 if cache["keys"].shape[2] >= self.after else np.float64
        return Observation(
            cache["keys"].shape[2], None, *(cache[n].astype(dtype) for n in ("keys", "values"))
        )


def test_rows_of_another_dtype_are_told_and_break_nothing() -> None:
    adapter = declaring(type("Late", (Retyping,), {"after": 3}))
    only = [trace for trace in traces(adapter.declaration) if trace.id in ("append-five", "two-caches")]
    report = check(adapter, only=only, diagnose=False)
    told = {c.message for c in report.checks if c.requirement == "STORE-EARLIER-ROWS" and c.status == "fail"}
    assert any("float32 now, and were float64" in message for message in told)


def test_rows_that_are_equal_numbers_of_another_dtype_differ_in_every_bit() -> None:
    rows = np.ones((1, 1, 2, 3))
    assert not compare.same_bits(rows, rows.astype(np.float32))
    found = compare.first_bit_difference("keys", rows.astype(np.float32), rows)
    assert (found.index, found.difference, found.share) == ((0, 0, 0, 0), 0.0, np.inf)
    assert compare.same_bits(rows[:, :, :0], rows[:, :, :0].astype(np.float32))


# -- caches that refuse nothing, and such as show nothing


class Slots:
    """forge's store to the letter, with nothing but the required methods."""

    declaration = Declaration(name="slots", levels=("store",), capacity="growing", rows_per_append="any")

    def build_store(self, config, batch_size, capacity=None):
        return [None] * config.layers

    def append(self, store, layer, keys, values):
        pair = (keys.copy(), values.copy())
        old = store[layer]
        store[layer] = pair if old is None else tuple(map(self.joined, old, pair))

    def joined(self, old, new):
        return np.concatenate([old, new], axis=2)

    def observe(self, store, layer):
        held = store[layer]
        return Observation(0) if held is None else Observation(held[0].shape[2], None, *held)

    def reset(self, store):
        store[:] = [None] * len(store)


class Halving(Slots):
    """Keeps float16 of the float64 that it is fed."""

    def joined(self, old, new):
        return super().joined(old, new).astype(np.float16).astype(new.dtype)

    def append(self, store, layer, keys, values):
        super().append(store, layer, *(part.astype(np.float16).astype(np.float64) for part in (keys, values)))


class Blind(Growing):
    """A black box: a length, and outputs."""

    def observe(self, cache):
        return Observation(cache["keys"].shape[2])


def standings(report):
    return {r.requirement.id: (r.standing, r.reason) for p in report.verdict.profiles for r in p.results}


def test_a_store_that_grows_and_refuses_nothing_can_be_conformant() -> None:
    report = check(declaring(Slots, rows_per_append="any"))
    assert report.verdict.text == "conformant"
    assert standings(report)["ATOMIC-ROWS"] == ("unobserved", "no call of this cache has to be refused")
    assert check(declaring(Growing, dtypes=("float32",)), "core").verdict.text == "conformant"


def test_a_fixed_cache_without_refusals_is_still_asked_for_them() -> None:
    class Lenient(Slots):
        def observe(self, store, layer):
            return replace(super().observe(store, layer), capacity=4)

    report = check(declaring(Lenient, capacity="exact", rows_per_append="any"), diagnose=False)
    assert standings(report)["CAPACITY-FULL"][0] == "fail"


def test_rows_that_are_stored_narrower_than_they_are_fed_are_held_to_one_rounding() -> None:
    narrow = Precision(storage="float16")
    report = check(declaring(Halving, precision=narrow, rows_per_append="any"))
    assert report.verdict.text == "conformant"
    assert standings(report)["STORE-ROW-BITS"][0] == "unobserved"
    assert "stored as float16" in standings(report)["STORE-ROW-BITS"][1]


def test_a_black_box_can_be_conformant() -> None:
    report = check(declaring(Blind, keys="unreadable"), "core")
    assert report.verdict.text == "conformant"


# -- fixed buffers that count before they write


class CountsFirst(Slots):
    """A fixed buffer whose length is raised before the write that fails; what fits is written."""

    declaration = Declaration(
        name="counts first", levels=("store",), rows_per_append="any", rejections={IndexError: "full"}
    )

    def build_store(self, config, batch_size, capacity=None):
        shapes = [(batch_size, config.kv_heads, capacity, w) for w in (config.key_width, config.value_width)]
        return [{"length": 0, "buffers": [np.zeros(shape) for shape in shapes]} for _ in range(config.layers)]

    def append(self, store, layer, keys, values):
        slot = store[layer]
        old, slot["length"] = slot["length"], slot["length"] + keys.shape[2]
        for buffer, rows in zip(slot["buffers"], (keys, values), strict=True):
            for at in range(rows.shape[2]):
                buffer[:, :, old + at] = rows[:, :, at]

    def observe(self, store, layer):
        n, (keys, values) = store[layer]["length"], store[layer]["buffers"]
        return Observation(n, keys.shape[2], keys[:, :, :n], values[:, :, :n])

    def reset(self, store):
        for slot in store:
            slot["length"] = 0

    def truncate(self, store, length):
        gone = store[0]["length"] - length
        if gone < 0:
            raise Rejected("invalid_length")
        for slot in store:
            slot["length"] -= gone


class ChecksFirst(CountsFirst):
    def append(self, store, layer, keys, values):
        if store[layer]["length"] + keys.shape[2] > store[layer]["buffers"][0].shape[2]:
            raise IndexError("no room")
        super().append(store, layer, keys, values)


class TakesOne(ChecksFirst):
    declaration = replace(ChecksFirst.declaration, rows_per_append="one")

    def append(self, store, layer, keys, values):
        assert keys.shape[2] == 1
        super().append(store, layer, keys, values)


def test_a_length_raised_before_a_write_that_fails_is_seen() -> None:
    report = check(CountsFirst(), diagnose=False)
    assert standings(report)["ATOMIC-LENGTH"][0] == "fail"
    assert {"ATOMIC-LENGTH", "ATOMIC-ROWS"} <= failed(CountsFirst(), "store-overflow")
    assert check(ChecksFirst()).verdict.text == "conformant"


def test_a_store_that_takes_one_row_a_call_is_given_one_row_a_call() -> None:
    assert check(TakesOne()).verdict.text == "conformant"


def test_a_call_accepted_against_the_rule_fails_also_where_nothing_can_be_seen_after_it() -> None:
    claims = replace(ChecksFirst.declaration, features=frozenset({"truncate"}))
    adapter = type("Backwards", (ChecksFirst,), {"declaration": claims})()
    report = check(adapter, diagnose=False)
    told = [c for c in report.checks if c.trace == "truncate-refused" and c.status in ("fail", "error")]
    assert [c.message for c in told] == ["accepted; it must be refused as invalid_length"]
    assert standings(report)["TRUNCATE-REFUSED"][0] == "fail"


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


# -- what a failure looks like, and what a call leaves behind that raises


class FixedSingle(Growing):
    """float32 inside, whatever it is fed with, and a truncation that is ignored."""

    def append(self, cache, query, key, value):
        single = super().append(cache, *(part.astype(np.float32) for part in (query, key, value)))
        return single.astype(np.float64)

    def truncate(self, cache, length):
        if not 0 <= length <= cache["keys"].shape[2]:
            raise Rejected("invalid_length")


def test_a_known_fault_is_recognised_in_a_coarser_precision() -> None:
    claims = {"features": frozenset({"truncate"}), "precision": Precision.of("float32")}
    adapter = declaring(FixedSingle, **claims)
    only = [t for t in traces(adapter.declaration) if t.id.startswith("truncate-to")]
    lines = {line for c in check(adapter, "rollback", only=only).looks_like.values() for line in c}
    assert any("truncate" in line and "does nothing" in line for line in lines), lines


class JoinsFirst(GrowingLayer):
    """Keeps the new rows before it finds that their form is wrong."""

    def append(self, layer, cache, rows):
        if rows.ndim != 3:
            cache["keys"] = np.concatenate([cache["keys"], cache["keys"][:, :, :0], np.ones((2, 2, 2, 4))], 2)
            cache["values"] = np.concatenate([cache["values"], np.ones((2, 2, 2, 4))], 2)
            raise RuntimeError("tensors must have the same number of dimensions")
        return super().append(layer, cache, rows)


def test_what_a_call_leaves_behind_that_raises_is_told_with_what_it_raised() -> None:
    adapter = declaring(JoinsFirst, pairings=("half",))
    only = [t for t in traces(adapter.declaration) if t.id.startswith("refused-rank")]
    told = {c.message for c in check(adapter, only=only, diagnose=False).checks if c.status == "fail"}
    assert any(m.startswith("length went from 0 to 2; the call raised RuntimeError") for m in told)


# -- a decoder that is no session


def test_a_decoder_is_held_to_the_session_only_where_it_declares_all_that_this_needs() -> None:
    plain = Declaration(name="x", levels=("decoder",), features=frozenset({"gqa"}))
    assert default_profiles(plain, embedded=False) == ("core", "gqa")
    whole = frozenset({"full_prefix", "rewire", "storage", "update_parameters", "work"})
    session = replace(plain, features=whole)
    assert default_profiles(session, embedded=False)[0] == "decoder"


# -- what a verdict is worth


def test_a_report_says_what_rounding_its_bounds_allow() -> None:
    coarse = Precision(arithmetic="bfloat16", angles="float32")
    only = [t for t in traces(Growing.declaration) if t.id == "append-five"]
    told = report_text(check(declaring(Growing, precision=coarse), only=only))
    assert "fed with float64; as declared the bounds allow bfloat16 in arithmetic; float32 in angles" in told
    assert "rounding" not in report_text(check(declaring(Growing), only=only))
