"""Operations taken together or written otherwise."""

from __future__ import annotations

import numpy as np

from conformance.killers.controls.model import control
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Work
from conformance.values import LayerConfig

NAMES = ("query", "key", "value")


@control("fused_projection", says="query, key and value come from one matrix product")
class _FusedProjection(OpenLayerAdapter):
    def project(self, work: Work, name: str) -> Array:
        weights = [work.layer.nodes[each].value for each in NAMES]
        together = work.rows @ np.concatenate(weights, axis=1)
        start = sum(weight.shape[1] for weight in weights[: NAMES.index(name)])
        return together[..., start : start + weights[NAMES.index(name)].shape[1]]


@control("rotation_complex", says="pairs are turned as complex numbers")
class _ComplexRotation(OpenLayerAdapter):
    def rotate(self, config: LayerConfig, heads: Array, positions: Array) -> Array:
        cosine, sine = self.turn(config, positions)
        half = config.head_width // 2
        if self.pairing(config) == "adjacent":
            turned = (heads[..., 0::2] + 1j * heads[..., 1::2]) * (cosine + 1j * sine)
            return np.stack([turned.real, turned.imag], axis=-1).reshape(heads.shape)
        turned = (heads[..., :half] + 1j * heads[..., half:]) * (cosine + 1j * sine)
        return np.concatenate([turned.real, turned.imag], axis=-1)


@control("pairing_by_permutation", says="features are put into the other pairing, turned there, and put back")
class _Permuted(OpenLayerAdapter):
    def rotate(self, config: LayerConfig, heads: Array, positions: Array) -> Array:
        cosine, sine = self.turn(config, positions)
        width = config.head_width
        order = np.arange(width)
        if self.pairing(config) == "adjacent":
            order = np.concatenate([order[0::2], order[1::2]])
        left, right = heads[..., order[: width // 2]], heads[..., order[width // 2 :]]
        turned = np.empty_like(heads)
        turned[..., order] = np.concatenate([left * cosine - right * sine, left * sine + right * cosine], -1)
        return turned


@control("half_rotated_form", says="turned as x cos + rotate_half(x) sin, over doubled tables")
class _RotateHalf(OpenLayerAdapter):
    def rotate(self, config: LayerConfig, heads: Array, positions: Array) -> Array:
        cosine, sine = self.turn(config, positions)
        half = config.head_width // 2
        if self.pairing(config) == "adjacent":
            cosine, sine = np.repeat(cosine, 2, axis=-1), np.repeat(sine, 2, axis=-1)
            other = np.stack([-heads[..., 1::2], heads[..., 0::2]], axis=-1).reshape(heads.shape)
        else:
            cosine, sine = np.concatenate([cosine] * 2, axis=-1), np.concatenate([sine] * 2, axis=-1)
            other = np.concatenate([-heads[..., half:], heads[..., :half]], axis=-1)
        return heads * cosine + other * sine


@control("table_of_angles", says="sines and cosines of all positions are computed once per layer")
class _Table(OpenLayerAdapter):
    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        known = np.arange(min(config.rope.max_positions, 4096))
        cosine, sine = super().turn(config, known)
        at = np.asarray(positions)
        return cosine[at], sine[at]


@control(
    "grouped_without_repeat", says="query heads are grouped over key/value heads, which are never repeated"
)
class _Grouped(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        keys, query = self.all_keys(work), work.stages["rotated_query"]
        lanes, heads, count, width = query.shape
        grouped = query.reshape(lanes, keys.shape[1], -1, count, width)
        made = np.einsum("bgrtd,bgnd->bgrtn", grouped, keys)
        return made.reshape(lanes, heads, count, -1) * self.scale(work)


@control("merge_fused_with_projection", says="heads are projected one by one and summed, never merged")
class _HeadByHead(OpenLayerAdapter):
    def output(self, work: Work) -> Array:
        heads = work.stages["heads"]
        weight = work.layer.nodes["output"].value.reshape(heads.shape[1], heads.shape[3], -1)
        return np.einsum("bhtd,hdo->bto", heads, weight)
