"""Legitimate ways to compute one and the same layer: every one of them must stay within the error bound.

A variant chooses an order of summation, a softmax, a place for the scale, a form of the rotation, and a
dtype for each kind of rounding. Run in extended precision, the same code gives the truth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.adapter import Precision
from conformance.values import LayerConfig, LayerParameters, RopeConfig
from tests.budget_fixtures import Fixture

WIDE = np.longdouble
ORDERS = ("matmul", "forward", "reversed", "pairwise", "permuted", "strided", "chunked", "ascending", "fused")
SOFTMAXES = ("plain", "late", "base2", "base2-fused", "log-sum-exp", "online", "flash", "split")
SCALINGS = ("after", "before", "split", "divide", "key")
ROTATIONS = ("power", "exp-log", "reciprocal", "complex")


def round_to_bfloat16(array: Any) -> Any:
    """Round to the nearest bfloat16, ties to even, keeping the dtype."""
    bits = np.asarray(array, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32).astype(np.asarray(array).dtype)


def round_to_float16(array: Any) -> Any:
    """Round to the nearest float16, keeping the dtype."""
    return np.asarray(array).astype(np.float16).astype(np.asarray(array).dtype)


STORES: dict[str, Callable[[Any], Any]] = {
    "bfloat16": round_to_bfloat16,
    "float16": round_to_float16,
    "float32": lambda array: np.asarray(array).astype(np.float32).astype(np.asarray(array).dtype),
}


@dataclass(frozen=True)
class Variant:
    """One way to compute. The dtypes are those of `Precision`; `eager` stores intermediates too."""

    order: str = "matmul"
    softmax: str = "plain"
    scaling: str = "after"
    rotation: str = "power"
    arithmetic: Any = np.float64
    storage: str = ""
    softmax_dtype: Any = None
    angle_dtype: Any = None
    eager: bool = False

    @property
    def precision(self) -> Precision:
        """What an implementation of this kind would declare."""
        arithmetic = np.dtype(self.arithmetic).name
        return Precision(
            storage=self.storage or arithmetic,
            arithmetic=arithmetic,
            softmax=np.dtype(self.softmax_dtype or self.arithmetic).name,
            angles=np.dtype(self.angle_dtype or self.arithmetic).name,
        )

    def store(self, array: Any) -> Any:
        """Round to the storage dtype."""
        return STORES[self.storage](array) if self.storage else array

    def intermediate(self, array: Any) -> Any:
        """Round to the storage dtype where intermediates are stored."""
        return self.store(array) if self.eager else array


def truth(fixture: Fixture, first_position: int = 0) -> dict[str, Any]:
    """Every stage in extended precision."""
    with np.errstate(all="ignore"):
        return _run(fixture, Variant(arithmetic=WIDE), first_position)


def run(fixture: Fixture, how: Variant, first_position: int = 0) -> dict[str, Any]:
    """Every stage, by the names of `LayerBound`; weights only where the softmax forms them."""
    with np.errstate(all="ignore"):
        return _run(fixture, how, first_position)


def _run(fixture: Fixture, how: Variant, first_position: int) -> dict[str, Any]:
    config, parameters, rows = fixture
    rows, wq, wk, wv, wo = (
        np.asarray(array).astype(how.arithmetic)
        for array in (rows, parameters.query, parameters.key, parameters.value, parameters.output)
    )
    batch, count, _ = rows.shape
    share = config.heads // config.kv_heads

    def project(weight: Any, heads: int) -> Any:
        return how.store(dot(rows, weight, how).reshape(batch, count, heads, -1).swapaxes(1, 2))

    query, key, value = project(wq, config.heads), project(wk, config.kv_heads), project(wv, config.kv_heads)
    positions = np.arange(first_position, first_position + count)
    rotated_query, rotated_key = (rotate(z, positions, config.rope, how) for z in (query, key))
    keys, values = (np.repeat(z, share, axis=1) for z in (rotated_key, value))
    heads, weights = attend(rotated_query, keys, values, how)
    heads = how.store(heads)
    merged = heads.swapaxes(1, 2).reshape(batch, count, -1)
    found = {
        "query": query, "key": key, "value": value, "rotated_query": rotated_query,
        "rotated_key": rotated_key, "heads": heads, "merged": merged,
        "output": how.store(dot(merged, wo, how)),
    }
    return found if weights is None else {**found, "weights": weights}


def dot(left: Any, right: Any, how: Variant) -> Any:
    """[..., M, K] times [..., K, N] in the order of the variant."""
    if how.order == "matmul":
        return left @ right
    if how.order == "fused":
        total = np.zeros((*left.shape[:-1], right.shape[-1]), dtype=left.dtype)
        for k in range(left.shape[-1]):
            step = left[..., :, k, None].astype(WIDE) * right[..., k, None, :].astype(WIDE)
            total = (step + total.astype(WIDE)).astype(left.dtype)
        return total
    return add(left[..., :, :, None] * right[..., None, :, :], -2, how.order)


def add(terms: Any, axis: int, order: str) -> Any:
    """Sum along one axis in the order asked for."""
    terms = np.moveaxis(terms, axis, 0)
    count = len(terms)
    if order == "reversed":
        return _sequential(terms[::-1])
    if order == "pairwise":
        return _pairwise(terms)
    if order == "permuted":
        return _sequential(terms[np.random.default_rng(count).permutation(count)])
    if order == "strided":
        return _sequential([_sequential(terms[lane::4]) for lane in range(min(4, count))])
    if order == "chunked":
        return _sequential([_sequential(terms[start : start + 3]) for start in range(0, count, 3)])
    if order == "ascending":
        return _sequential(np.take_along_axis(terms, np.argsort(np.abs(terms), axis=0), axis=0))
    return _sequential(terms)


def _sequential(terms: Any) -> Any:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _pairwise(terms: Any) -> Any:
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    return _pairwise(terms[:half]) + _pairwise(terms[half:])


def rotate(heads: Any, positions: Any, rope: Any, how: Variant) -> Any:
    """Rotate [B,N,T,d] with angles in their own dtype."""
    angle_dtype = np.dtype(how.angle_dtype or how.arithmetic).type
    width = heads.shape[-1]
    exponent = np.arange(0, width, 2).astype(angle_dtype) / angle_dtype(width)
    base = angle_dtype(rope.base)
    frequency = {
        "power": lambda: np.power(base, -exponent),
        "complex": lambda: np.power(base, -exponent),
        "exp-log": lambda: np.exp(-exponent * np.log(base)),
        "reciprocal": lambda: angle_dtype(1) / np.power(base, exponent),
    }[how.rotation]()
    angle = positions.astype(angle_dtype)[:, None] * frequency
    c, s = (how.intermediate(f(angle).astype(heads.dtype)) for f in (np.cos, np.sin))
    half = width // 2
    first, second = slice(0, None, 2), slice(1, None, 2)
    if rope.pairing == "half":
        first, second = slice(0, half), slice(half, None)
    a, b = heads[..., first], heads[..., second]
    rotated = np.empty_like(heads)
    if how.rotation == "complex" and heads.dtype == np.float64:
        turned = (a + 1j * b) * (c + 1j * s)
        rotated[..., first], rotated[..., second] = turned.real, turned.imag
    else:
        keep = how.intermediate
        rotated[..., first] = keep(a * c) - keep(b * s)
        rotated[..., second] = keep(a * s) + keep(b * c)
    return how.store(rotated)


def scaled_scores(query: Any, key: Any, how: Variant) -> Any:
    """[..., T, T] with minus infinity above the diagonal."""
    kind = query.dtype.type
    width = kind(query.shape[-1])
    scale = kind(1) / np.sqrt(width)
    quarter = width ** kind(-0.25)
    keep = how.intermediate
    if how.scaling == "before":
        query = keep(query * scale)
    elif how.scaling == "key":
        key = keep(key * scale)
    elif how.scaling == "split":
        query, key = keep(query * quarter), keep(key * quarter)
    scores = keep(dot(query, key.swapaxes(-1, -2), how))
    if how.scaling == "after":
        scores = keep(scores * scale)
    elif how.scaling == "divide":
        scores = keep(scores / np.sqrt(width))
    count = scores.shape[-1]
    return np.where(np.tril(np.ones((count, count), dtype=bool)), scores, -np.inf)


def attend(query: Any, key: Any, value: Any, how: Variant) -> tuple[Any, Any]:
    """Causal attention [..., T, *]: heads, and weights or None."""
    outer = query.dtype.type
    inner = np.dtype(how.softmax_dtype or outer).type
    scores = scaled_scores(query, key, how).astype(inner)
    if how.softmax in {"online", "flash", "split"}:
        return _in_parts(scores, value, how), None
    largest = scores.max(axis=-1, keepdims=True)
    raised = _exponential(scores, largest, how.softmax)
    total = _normaliser(raised, how)
    if how.softmax == "late":
        kept = how.store(raised.astype(outer))
        return dot(kept, value, how) / total.astype(outer), None
    weights = raised / total
    if how.softmax == "log-sum-exp":
        weights = np.exp(scores - (largest + np.log(total)))
    weights = how.store(weights.astype(outer))
    return dot(weights, value, how), weights


def _exponential(scores: Any, largest: Any, form: str) -> Any:
    kind = scores.dtype.type
    to_base2 = kind(np.log2(WIDE(np.e)) if kind is not WIDE else 1 / np.log(WIDE(2)))
    if form == "base2":
        return np.exp2(scores * to_base2 - largest * to_base2)
    if form == "base2-fused":
        exponent = scores.astype(WIDE) * WIDE(to_base2) - (largest * to_base2).astype(WIDE)
        return np.exp2(exponent.astype(kind))
    return np.exp(scores - largest)


def _normaliser(raised: Any, how: Variant) -> Any:
    if how.order in {"matmul", "fused"}:
        return raised.sum(axis=-1, keepdims=True)
    return add(raised, -1, how.order)[..., None]


def _in_parts(scores: Any, value: Any, how: Variant) -> Any:
    count = scores.shape[-1]
    size = {"online": 1, "flash": 4, "split": max(1, -(-count // 3))}[how.softmax]
    parts = [slice(start, start + size) for start in range(0, count, size)]
    if how.softmax == "split":
        return _merged_parts(scores, value, parts, how)
    outer = value.dtype.type
    best = np.full((*scores.shape[:-1], 1), -np.inf, dtype=scores.dtype)
    total = np.zeros_like(best)
    mixed = np.zeros((*scores.shape[:-1], value.shape[-1]), dtype=value.dtype)
    for part in parts:
        here = scores[..., part]
        newer = np.maximum(best, here.max(axis=-1, keepdims=True))
        rescale = np.exp(best - newer)
        raised = np.exp(here - newer)
        total = total * rescale + _normaliser(raised, how)
        kept = how.store(raised.astype(outer))
        mixed = mixed * rescale.astype(outer) + dot(kept, value[..., part, :], how)
        best = newer
    return mixed / total.astype(outer)


def _merged_parts(scores: Any, value: Any, parts: list[slice], how: Variant) -> Any:
    outer = value.dtype.type
    logs, means = [], []
    for part in parts:
        here = scores[..., part]
        largest = here.max(axis=-1, keepdims=True)
        seen = np.isfinite(largest)
        safe = np.where(seen, largest, 0)
        raised = np.exp(here - safe)
        total = _normaliser(raised, how)
        logs.append(np.where(seen, safe + np.log(np.where(seen, total, 1)), -np.inf))
        kept = how.store(raised.astype(outer))
        means.append(dot(kept, value[..., part, :], how) / np.where(seen, total, 1).astype(outer))
    stacked = np.stack(logs)
    largest = stacked.max(axis=0)
    raised = np.exp(stacked - largest)
    shares = raised / raised.sum(axis=0)
    return _sequential([share.astype(outer) * mean for share, mean in zip(shares, means, strict=True)])


def may_overflow(how: Variant, profile: str) -> bool:
    """Whether numbers that are not finite are within the rights of this variant, and so beyond any bound.

    float16 ends at 65504. A fused change of base leaves the rounding of the largest score in the exponent,
    which is harmless while scores are below 1e5 or so, and some of the contents go far beyond.
    """
    return how.softmax == "base2-fused" or profile.startswith("float16")


def worst_share(found: dict[str, Any], true: dict[str, Any], bound: Any) -> dict[str, float]:
    """The largest share of the bound that each field used; infinite where a bound of zero was exceeded."""
    shares = {}
    for name, array in found.items():
        error = np.abs(array.astype(WIDE) - true[name])
        limit = getattr(bound, name)
        used = np.where(error > 0, error / np.maximum(limit, np.finfo(np.float64).smallest_subnormal), 0)
        shares[name] = float(used.max())
    return shares


CONTENT: dict[str, Callable[[np.random.Generator, int, int], Any]] = {
    "full": lambda r, n, m: r.standard_normal((n, m)),
    "short": lambda r, n, m: np.round(r.standard_normal((n, m)) * 64) / 64,
    "integers": lambda r, n, m: r.integers(-4, 5, (n, m)).astype(float),
    "sparse": lambda r, n, m: r.standard_normal((n, m)) * (r.random((n, m)) < 0.2),
    "ones": lambda _, n, m: np.ones((n, m)),
    "identical": lambda r, n, m: np.tile(r.standard_normal((1, m)), (n, 1)),
    "tiny": lambda r, n, m: r.standard_normal((n, m)) * 2.0**-72,
    "wide": lambda r, n, m: r.standard_normal((n, m)) * 2.0 ** r.integers(-12, 13, (n, m)),
}
"""Kinds of awkward content: (generator, rows, columns) to a float64 array."""

PROFILES: dict[str, dict[str, Any]] = {
    "float64": {},
    "float32": {"arithmetic": np.float32},
    "float64, softmax in float32": {"softmax_dtype": np.float32},
    "float32, softmax in float64": {"arithmetic": np.float32, "softmax_dtype": np.float64},
    "float32, angles in float64": {"arithmetic": np.float32, "angle_dtype": np.float64},
    "float64, rows in float32": {"storage": "float32"},
    "bfloat16": {"arithmetic": np.float32, "storage": "bfloat16"},
    "bfloat16, eager": {"arithmetic": np.float32, "storage": "bfloat16", "eager": True},
    "float16": {"arithmetic": np.float32, "storage": "float16"},
    "float16, eager": {"arithmetic": np.float32, "storage": "float16", "eager": True},
}


def random_case(r: np.random.Generator, profile: str) -> tuple[Fixture, int]:
    """A small layer with awkward content, exact in the profile's coarsest dtype, and its first position."""
    heads, kv_heads = ((1, 1), (2, 1), (2, 2), (4, 2), (3, 3))[r.integers(5)]
    head, width, count = (int(r.choice(c)) for c in ((2, 4, 6), (1, 2, 3, 6, 12), (1, 2, 3, 5, 8, 13)))
    names = list(CONTENT)

    def content(n: int, m: int) -> Any:
        return CONTENT[names[r.integers(len(names))]](r, n, m)

    arrays = [
        content(width, heads * head), content(width, kv_heads * head), content(width, kv_heads * head),
        content(heads * head, width), content(count, width),
    ]
    if r.random() < 0.3:
        reach = np.abs(arrays[4] @ arrays[0]).max() * np.abs(arrays[4] @ arrays[1]).max() * np.sqrt(head)
        arrays[0] = arrays[0] * 2.0 ** np.round(np.log2(10 ** r.uniform(0, 3.3) / (reach + 1e-9)))
    keep = STORES.get(Variant(**PROFILES[profile]).storage, lambda array: array)
    if "float16" in profile and "bfloat16" not in profile:
        arrays = [np.clip(array, -60000, 60000) for array in arrays]
    if PROFILES[profile].get("arithmetic") is np.float32:
        arrays = [STORES["float32"](array) for array in arrays]
    arrays = [keep(array) for array in arrays]
    rope = RopeConfig(
        float(r.choice([100.0, 1e4, 5e5, 65536.0, 2.0])), ("adjacent", "half")[r.integers(2)], 2**21
    )
    config = LayerConfig(width, heads, kv_heads, head, rope)
    position = int(r.choice([0, 0, 0, 1, 7, 100, 4097, 100_003, 999_983]))
    return Fixture(config, LayerParameters(*arrays[:4]), arrays[4][None]), position


def random_variant(r: np.random.Generator, profile: str) -> Variant:
    """Any way to compute, in the dtypes of the profile."""
    order, softmax, scaling, rotation = (
        choices[r.integers(len(choices))] for choices in (ORDERS, SOFTMAXES, SCALINGS, ROTATIONS)
    )
    return Variant(order, softmax, scaling, rotation, **PROFILES[profile])
