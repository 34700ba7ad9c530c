"""Faults that an outside tester planted in the embedded layer without knowing the traces, and that passed.

Each was missed once; the scenarios `shapes`, `magnitudes`, `shortcuts`, `far` and `lineage` are for them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.killers.model import killer, registered
from conformance.killers.open_attention import OpenAttentionAdapter
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Node, OpenCache, OpenLayer, Work
from conformance.values import PARAMETERS, LayerConfig, LayerParameters

# -- numbers ----------------------------------------------------------------------------------------------


@killer(
    "exponent_clamped",
    fault="DTYPE-SOFTMAX",
    violates="AGREE-OUTPUT",
    says="exponents below -87.33, the end of a float32 exponential, are raised to it",
)
class _ExponentClamped(OpenLayerAdapter):
    def exponentials(self, work: Work) -> Array:
        masked = self.masked(work)
        below = masked - masked.max(axis=-1, keepdims=True)
        return np.exp(np.where(np.isinf(below), below, np.maximum(below, -87.33)))


@killer(
    "tiny_weights_pruned",
    fault="SOFTMAX-NORMALISATION",
    violates="AGREE-OUTPUT",
    says="weights below 1e-9 are dropped",
)
class _Pruned(OpenLayerAdapter):
    def heads(self, work: Work) -> Array:
        weights = work.stages["weights"]
        return np.where(weights < 1e-9, 0.0, weights) @ self.grouped_values(work)


@killer(
    "mask_minus_1e30",
    fault="MASK-FINITE-FILL",
    violates="CHUNK-CAUSAL",
    says="the mask is filled with -1e30, which lies above very low scores",
)
class _MaskMinus1e30(OpenLayerAdapter):
    def masked(self, work: Work) -> Array:
        return np.where(self.visible(work), work.stages["scores"], -1e30)


@killer(
    "zero_key_is_padding",
    fault="MASK-WINDOW",
    violates="AGREE-OUTPUT",
    says="a retained row whose key is zero is taken for padding",
)
class _ZeroKeyIsPadding(OpenLayerAdapter):
    def masked(self, work: Work) -> Array:
        zero = np.asarray(~self.grouped_keys(work).any(axis=-1))[:, :, None]
        old = np.arange(zero.shape[-1]) < work.start
        return np.where(zero & old, -np.inf, super().masked(work))


# -- sizes ------------------------------------------------------------------------------------------------


@killer(
    "tail_of_vector_dropped",
    fault="LAYOUT-STRIDE",
    violates="AGREE-OUTPUT",
    says="scores with retained keys sum whole vectors of 8 features and drop the tail where there are more",
)
class _TailDropped(OpenLayerAdapter):
    def retained_keys(self, work: Work) -> Array:
        keys = super().retained_keys(work)
        width = keys.shape[-1]
        if width > 8 and width % 8:
            keys = keys.copy()
            keys[..., width // 8 * 8 :] = 0.0
        return keys


@killer(
    "scale_from_model_width",
    fault="SCALE",
    violates="AGREE-OUTPUT",
    says="the scale is taken from model width / heads, not from the head width",
)
class _ScaleFromModelWidth(OpenLayerAdapter):
    def scale(self, work: Work) -> float:
        config = work.layer.config
        return 1.0 / float(np.sqrt(config.model_width // config.heads))


@killer(
    "base_as_integer",
    fault="ROPE-FREQUENCY",
    violates="AGREE-OUTPUT",
    says="the RoPE base is read as a whole number",
)
class _BaseAsInteger(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        pair = np.arange(config.head_width // 2)
        return float(max(int(config.rope.base), 1)) ** (-2.0 * pair / config.head_width)


@killer(
    "group_by_shift",
    fault="GQA-WRONG-HEAD",
    violates="GQA-ORDER",
    says="a query head finds its key/value head by a shift, as if the group were a power of two",
)
class _GroupByShift(OpenLayerAdapter):
    def grouped(self, config: LayerConfig, rows: Array) -> Array:
        bits = (config.heads // config.kv_heads).bit_length() - 1
        return rows[:, np.minimum(np.arange(config.heads) >> bits, config.kv_heads - 1)]


@killer(
    "lanes_in_fours",
    fault="LANE-MIXED",
    violates="STORE-VALUES",
    says="values are written four lanes at a time; the lanes that remain are given those of lane 3",
)
class _LanesInFours(OpenLayerAdapter):
    def stored_values(self, work: Work) -> Array:
        values = super().stored_values(work)
        if len(values) > 4:
            values = values.copy()
            values[len(values) // 4 * 4 :] = values[3]
        return values


# -- long lives -------------------------------------------------------------------------------------------


@killer(
    "positions_in_bfloat16",
    fault="DTYPE-ANGLE",
    violates="AGREE-OUTPUT",
    says="positions are kept in bfloat16, which counts no further than 256",
)
class _PositionsInBfloat16(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        step = 2.0 ** np.maximum(np.floor(np.log2(np.maximum(super().positions(work), 1))) - 7.0, 0.0)
        return np.round(super().positions(work) / step) * step


@killer(
    "halves_weigh_the_same",
    fault="LONG-HISTORY",
    violates="AGREE-OUTPUT",
    says="from 256 rows on both halves of a history are mixed apart and put together as if of equal weight",
)
class _HalvesWeighTheSame(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        weights = super().weights(work)
        count = weights.shape[-1]
        if count >= 256 and work.count == 1:
            halves = (weights[..., : count // 2], weights[..., count // 2 :])
            return np.concatenate([h / (2.0 * h.sum(axis=-1, keepdims=True)) for h in halves], axis=-1)
        return weights


@killer(
    "turns_kept_in_a_ring",
    fault="ROPE-TABLE-BOUND",
    violates="POSITION-AFTER-RESET",
    says="64 turns are kept and renewed when positions pass their end; after a reset the late ones are used",
)
class _TurnsInARing(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        wanted = super().positions(work)
        block = work.layer.notes.get("block", 0)
        if work.count > 1:
            return wanted
        if work.start >= block + 64:
            block = work.layer.notes["block"] = work.start
        return block + (wanted - block) % 64


# -- what is taken for granted ------------------------------------------------------------------------------


@killer(
    "equal_rows_computed_once",
    fault="LANE-MIXED",
    violates="ISOLATE-LANES",
    says="where all lanes are given one and the same row, lane 0 is computed for all",
)
class _EqualRowsOnce(OpenLayerAdapter):
    def heads(self, work: Work) -> Array:
        mixed = super().heads(work)
        if len(mixed) > 1 and np.array_equal(work.rows, np.broadcast_to(work.rows[:1], work.rows.shape)):
            mixed[:] = mixed[:1]
        return mixed


@killer(
    "snapshot_kept_by_length",
    fault="RESET-KEEPS-ROWS",
    violates="RESET-INFLUENCE",
    says="the last snapshot is handed out again where the length is the same",
)
class _SnapshotByLength(OpenLayerAdapter):
    def snapshot(self, cache: OpenCache) -> tuple[Array, Array]:
        kept: Any = cache.notes.get("snapshot")
        if kept is None or kept[0] != cache.length:
            kept = cache.notes["snapshot"] = (cache.length, *super().snapshot(cache))
        return kept[1].copy(), kept[2].copy()


@killer(
    "projection_kept_by_row",
    fault="STALE-WEIGHTS",
    violates="BIND-NEW-CACHE",
    says="the key projection of the last row is kept and used again for the same row, whatever the weights",
)
class _ProjectionByRow(OpenLayerAdapter):
    def key(self, work: Work) -> Array:
        name = work.rows.shape, work.rows.tobytes()
        if work.layer.notes.get("row") != name:
            work.layer.notes |= {"row": name, "kept": super().key(work)}
        return work.layer.notes["kept"].copy()


@killer(
    "update_in_float32",
    fault="DTYPE-CACHE",
    violates="BIND-NEW-CACHE",
    says="new weights pass through float32",
)
class _UpdateInFloat32(OpenLayerAdapter):
    def update_parameters(self, layer: OpenLayer, parameters: dict[str, Array]) -> None:
        rounded = {name: value.astype(np.float32).astype(value.dtype) for name, value in parameters.items()}
        super().update_parameters(layer, rounded)


class _OwnNode(Node):
    def __init__(self, value: Array) -> None:
        self.value, self.revision = value, 0


@killer(
    "weights_of_the_caller",
    fault="ALIAS-SHARED-STATE",
    violates="ISOLATE-CALLER-ARRAY",
    says="a layer keeps the arrays of weights that it is given, and the caller changes them",
)
class _WeightsOfTheCaller(OpenLayerAdapter):
    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> OpenLayer:
        return OpenLayer(config, {name: _OwnNode(getattr(parameters, name)) for name in PARAMETERS})


@killer(
    "fork_copies_when_it_writes",
    fault="FORK-NO-COW",
    violates="FORK-APART",
    says="a fork shares its origin's buffers until it writes itself; what the origin writes shows in it",
)
class _ForkCopiesLate(OpenLayerAdapter):
    def fork(self, cache: OpenCache) -> OpenCache:
        child = super().fork(cache)
        child.keys, child.values, child.notes["shared"] = cache.keys, cache.values, True
        return child

    def write(self, work: Work) -> None:
        self._own(work.cache)
        super().write(work)

    def poison(self, cache: OpenCache, value: float) -> None:
        self._own(cache)
        super().poison(cache, value)

    def reorder(self, cache: OpenCache, lanes: list[int]) -> None:
        self._own(cache)
        super().reorder(cache, lanes)

    def _own(self, cache: OpenCache) -> None:
        if cache.notes.pop("shared", False):
            cache.keys, cache.values = cache.keys.copy(), cache.values.copy()


@killer(
    "values_cut_to_key_width",
    fault="KDIM-VDIM",
    violates="STORE-VALUES",
    level="attention",
    says="of a value row as many features are kept as a key row has",
)
class _ValuesCut(OpenAttentionAdapter):
    def stored_values(self, work: Work) -> Array:
        values = super().stored_values(work).copy()
        values[..., work.cache.keys.shape[-1] :] = 0.0
        return values


AT_ATTENTION = (
    "exponent_clamped", "tiny_weights_pruned", "mask_minus_1e30", "zero_key_is_padding",
    "tail_of_vector_dropped", "group_by_shift", "lanes_in_fours", "halves_weigh_the_same",
    "equal_rows_computed_once", "snapshot_kept_by_length", "fork_copies_when_it_writes",
)  # fmt: skip
"""Those that lie between given rows and mixed heads: planted at level attention as well."""


def plant_at_attention(*names: str) -> None:
    """The same change of one method in the open attention."""
    known = {entry.id: entry for entry in registered()}
    for name in names:
        origin = known[name]
        assert isinstance(origin.make, type)
        planted = type(f"Attention_{name}", (origin.make, OpenAttentionAdapter), {})
        killer(
            f"attention_{name}",
            fault=origin.fault,
            violates=origin.violates,
            level="attention",
            says=origin.says,
        )(planted)


plant_at_attention(*AT_ATTENTION)
