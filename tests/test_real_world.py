"""What real libraries do: each must be able to say so, and be judged right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from conformance import Declaration, Observation, Rejected, check
from conformance.adapter import Precision
from conformance.errors import AdapterError
from conformance.suite import traces
from conformance.verdict import default_profiles
from tests.library_likes import Growing, Slots, declaring, failed, standings

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
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_unused_slots_are_poisoned_with_what_they_can_hold(dtype) -> None:
    claims = {"dtypes": (dtype,), "features": frozenset({"poison"})}
    for part in ("unused-slots", "reset-poisoned"):
        only = [t for t in traces(declaring(Poisonable, **claims).declaration) if t.id == part]
        report = check(declaring(Poisonable, **claims), only=only)
        assert len(only) == 1
        assert {c.status for c in report.checks} <= {"pass", "unobserved"}
    assert "STORE-UNUSED" in failed(declaring(PoisonsTooMuch, **claims), "unused-slots")


# -- caches that refuse nothing, and such as show nothing


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


# -- a decoder that is no session


def test_a_decoder_is_held_to_the_session_only_where_it_declares_all_that_this_needs() -> None:
    plain = Declaration(name="x", levels=("decoder",), features=frozenset({"gqa"}))
    assert default_profiles(plain, embedded=False) == ("core", "gqa")
    whole = frozenset({"full_prefix", "rewire", "storage", "update_parameters", "work"})
    session = replace(plain, features=whole)
    assert default_profiles(session, embedded=False)[0] == "decoder"
