"""What real libraries do, in a few lines of NumPy each: each must be able to say so, and be judged right."""

from __future__ import annotations

import numpy as np
import pytest

from conformance import AttentionConfig, Declaration, Observation, check
from conformance.adapter import Precision
from conformance.errors import AdapterError


def attend(query, keys, values):
    """Causal attention, aligned at the last row; query head h reads key/value head h // (H/G)."""
    group = query.shape[1] // keys.shape[1]
    keys, values = keys.repeat(group, axis=1), values.repeat(group, axis=1)
    scores = query @ keys.swapaxes(2, 3) / np.sqrt(query.dtype.type(query.shape[3]))
    old = keys.shape[2] - query.shape[2]
    unseen = np.arange(keys.shape[2])[None, :] > np.arange(old, keys.shape[2])[:, None]
    scores = np.where(unseen, query.dtype.type(-np.inf), scores)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    return weights / weights.sum(axis=3, keepdims=True) @ values


class Growing:
    """As most library caches: new rows are joined to the old ones, there is no capacity and no refusal."""

    declaration = Declaration(name="growing", levels=("attention",), capacity="growing")

    def build_cache(self, config: AttentionConfig, batch_size, capacity):
        dtype = self.declaration.dtypes[0]
        return {
            "keys": np.zeros((batch_size, config.kv_heads, 0, config.key_width), dtype),
            "values": np.zeros((batch_size, config.kv_heads, 0, config.value_width), dtype),
        }

    def append(self, cache, query, key, value):
        cache["keys"] = np.concatenate([cache["keys"], key], axis=2)
        cache["values"] = np.concatenate([cache["values"], value], axis=2)
        return attend(query, cache["keys"], cache["values"])

    def observe(self, cache):
        return Observation(cache["keys"].shape[2], None, cache["keys"], cache["values"])

    def reset(self, cache):
        cache["keys"], cache["values"] = (part[:, :, :0] for part in (cache["keys"], cache["values"]))


def declaring(kind, **claims):
    """An adapter of that class whose declaration claims something else."""
    base = {name: getattr(kind.declaration, name) for name in ("name", "levels", "capacity", "features")}
    return type(kind.__name__, (kind,), {"declaration": Declaration(**(base | claims))})()


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
