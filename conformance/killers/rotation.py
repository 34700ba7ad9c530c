"""Rotation: what is turned, by which angle, in which pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from conformance.killers.model import killer
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, OpenCache, OpenLayer, Work
from conformance.values import LayerConfig, LayerParameters


@killer("rope_v", fault="ROPE-WRONG-ROWS", violates="STORE-VALUES", says="values are rotated too")
class _ValuesRotated(OpenLayerAdapter):
    def value(self, work: Work) -> Array:
        return self.rotate(work.layer.config, super().value(work), self.positions(work))


@killer("rope_none", fault="ROPE-WRONG-ROWS", violates="POSITION-OFFSET", says="nothing is rotated")
class _NothingRotated(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return np.zeros(work.count)


@killer("rope_q_only", fault="ROPE-WRONG-ROWS", violates="POSITION-OFFSET", says="keys are not rotated")
class _KeysNotRotated(OpenLayerAdapter):
    def rotated_key(self, work: Work) -> Array:
        return work.stages["key"]


@killer(
    "rope_k_only", fault="ROPE-WRONG-ROWS", violates="AGREE-ROTATED-QUERY", says="queries are not rotated"
)
class _QueriesNotRotated(OpenLayerAdapter):
    def rotated_query(self, work: Work) -> Array:
        return work.stages["query"]


@killer(
    "rope_half_only",
    fault="ROPE-WRONG-ROWS",
    violates="AGREE-ROTATED-KEY",
    says="only the first half of the features keeps its rotation",
)
class _HalfRotated(OpenLayerAdapter):
    def rotate(self, config: LayerConfig, heads: Array, positions: Array) -> Array:
        turned = super().rotate(config, heads, positions)
        half = config.head_width // 2
        turned[..., half:] = heads[..., half:]
        return turned


class _RotatedOnRead(OpenLayerAdapter):
    """Stores keys as projected; the rows are turned when they are read."""

    def stored_keys(self, work: Work) -> Array:
        return work.stages["key"]


@killer(
    "k_unrotated",
    fault="ROPE-WRONG-ROWS",
    violates="STORE-ROW-BITS",
    says="retained keys are kept and read as projected, without their rotation",
)
class _RetainedUnrotated(_RotatedOnRead):
    pass


@killer(
    "k_cached_raw_rotated_at_query",
    fault="ROPE-WRONG-ROWS",
    violates="AGREE-OUTPUT",
    says="keys are kept unrotated and all of them rotated at the newest position",
)
class _RotatedAtQuery(_RotatedOnRead):
    def retained_keys(self, work: Work) -> Array:
        newest = np.full(work.start, work.start + work.count - 1)
        return self.rotate(work.layer.config, super().retained_keys(work), newest)


@killer(
    "k_double_rotated",
    fault="ROPE-DOUBLE-APPLY",
    violates="AGREE-OUTPUT",
    says="stored keys are rotated once more when they are read",
)
class _RotatedTwice(OpenLayerAdapter):
    def retained_keys(self, work: Work) -> Array:
        return self.rotate(work.layer.config, super().retained_keys(work), np.arange(work.start))


@killer(
    "k_rotated_again_in_place",
    fault="ROPE-DOUBLE-APPLY",
    violates="STORE-EARLIER-ROWS",
    says="every call rotates the whole stored block again, in place",
)
class _RotatedAgainInPlace(OpenLayerAdapter):
    def commit(self, work: Work) -> None:
        old = work.cache.keys[:, :, : work.start]
        old[...] = self.rotate(work.layer.config, old, np.arange(work.start))
        super().commit(work)


@killer(
    "k_normalised_on_read",
    fault="ROPE-DOUBLE-APPLY",
    violates="AGREE-OUTPUT",
    says="stored keys are normalised on every read",
)
class _NormalisedOnRead(OpenLayerAdapter):
    def retained_keys(self, work: Work) -> Array:
        keys = super().retained_keys(work)
        length = np.sqrt((keys * keys).sum(axis=-1, keepdims=True))
        return keys / np.where(length == 0.0, 1.0, length)


@killer(
    "rope_inverse",
    fault="ROPE-PAIRING",
    violates="AGREE-ROTATED-KEY",
    says="queries and keys are turned the other way",
)
class _OtherWay(OpenLayerAdapter):
    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        cosine, sine = super().turn(config, positions)
        return cosine, -sine


@killer(
    "rope_inverse_k",
    fault="ROPE-PAIRING",
    violates="AGREE-ROTATED-KEY",
    says="keys alone are turned the other way",
)
class _KeysOtherWay(OpenLayerAdapter):
    def key_positions(self, work: Work) -> Array:
        return -super().key_positions(work)


def _other(config: LayerConfig) -> LayerConfig:
    pairing = "half" if config.rope.pairing == "adjacent" else "adjacent"
    return replace(config, rope=replace(config.rope, pairing=pairing))  # type: ignore[arg-type]


@killer(
    "rope_other_pairing",
    fault="ROPE-PAIRING",
    violates="AGREE-ROTATED-KEY",
    says="the other pairing of features for queries and keys",
)
class _OtherPairing(OpenLayerAdapter):
    def pairing(self, config: LayerConfig) -> str:
        return _other(config).rope.pairing


@killer(
    "rope_other_pairing_q",
    fault="ROPE-PAIRING",
    violates="AGREE-ROTATED-QUERY",
    says="the other pairing of features for queries alone",
)
class _OtherPairingOfQueries(OpenLayerAdapter):
    def rotated_query(self, work: Work) -> Array:
        return self.rotate(_other(work.layer.config), work.stages["query"], self.query_positions(work))


@killer(
    "rope_pairing_in_chunks",
    fault="ROPE-PATH-MISMATCH",
    violates="CHUNK-ROWS",
    says="a chunk is rotated in the other pairing than a single row",
)
class _OtherPairingInChunks(OpenLayerAdapter):
    def rotate(self, config: LayerConfig, heads: Array, positions: Array) -> Array:
        return super().rotate(_other(config) if heads.shape[2] > 1 else config, heads, positions)


@killer(
    "chunk_scored_unrotated",
    fault="ROPE-PATH-MISMATCH",
    violates="CHUNK-AGREE",
    says="the rows of a chunk are scored with unrotated keys and stored rotated",
)
class _ChunkScoredUnrotated(OpenLayerAdapter):
    def all_keys(self, work: Work) -> Array:
        if work.count == 1:
            return super().all_keys(work)
        return np.concatenate([self.retained_keys(work), work.stages["key"]], axis=2)


# -- frequencies --------------------------------------------------------------------------------------------


@killer(
    "base_10000",
    fault="ROPE-FREQUENCY",
    violates="AGREE-ROTATED-KEY",
    says="the base is 10000 whatever is configured",
)
class _Base10000(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        return super().frequencies(replace(config, rope=replace(config.rope, base=10000.0)))


@killer(
    "freq_denominator_D",
    fault="ROPE-FREQUENCY",
    violates="AGREE-ROTATED-KEY",
    says="the exponent is -2i/(H d) instead of -2i/d",
)
class _WidthOfAllHeads(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        pair = np.arange(config.head_width // 2)
        return config.rope.base ** (-2.0 * pair / (config.heads * config.head_width))


@killer(
    "freq_i_over_d",
    fault="ROPE-FREQUENCY",
    violates="AGREE-ROTATED-KEY",
    says="the exponent is -i/d instead of -2i/d",
)
class _IOverD(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        return np.sqrt(super().frequencies(config))


@killer(
    "freq_i_plus_1",
    fault="ROPE-FREQUENCY",
    violates="AGREE-ROTATED-KEY",
    says="pairs are counted from 1: the exponent is -2(i+1)/d",
)
class _PairsFromOne(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        return super().frequencies(config) * config.rope.base ** (-2.0 / config.head_width)


@killer(
    "freq_halfminus1",
    fault="ROPE-FREQUENCY",
    violates="AGREE-ROTATED-KEY",
    says="the exponent is -i/(d/2 - 1)",
)
class _HalfMinusOne(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        half = config.head_width // 2
        return config.rope.base ** (-np.arange(half) / max(half - 1.0, 1.0))


@killer(
    "freq_reversed",
    fault="ROPE-FREQUENCY",
    violates="AGREE-ROTATED-KEY",
    says="the frequencies stand in reverse order",
)
class _Reversed(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        return super().frequencies(config)[::-1]


@killer(
    "rope_base_grows",
    fault="ROPE-DYNAMIC-BASE",
    violates="POSITION-OFFSET",
    says="from the fourth row on the base grows with the length, for the new rows alone",
)
class _BaseGrows(OpenLayerAdapter):
    def rotated_key(self, work: Work) -> Array:
        return self.rotate(_grown(work, work.start + work.count), work.stages["key"], self.positions(work))

    def rotated_query(self, work: Work) -> Array:
        return self.rotate(_grown(work, work.start + work.count), work.stages["query"], self.positions(work))


@killer(
    "rope_base_kept_after_reset",
    fault="ROPE-DYNAMIC-BASE",
    violates="POSITION-AFTER-RESET",
    says="after a long history reset leaves the base that was enlarged for it",
)
class _BaseKeptAfterReset(OpenLayerAdapter):
    def reset(self, cache: OpenCache) -> None:
        super().reset(cache)
        cache.notes["longest"] = cache.high_water

    def rotated_key(self, work: Work) -> Array:
        return self.rotate(
            _grown(work, work.cache.notes.get("longest", 0)), work.stages["key"], self.positions(work)
        )

    def rotated_query(self, work: Work) -> Array:
        config = _grown(work, work.cache.notes.get("longest", 0))
        return self.rotate(config, work.stages["query"], self.positions(work))


def _grown(work: Work, length: int, *, threshold: int = 3) -> LayerConfig:
    rope = work.layer.config.rope
    return replace(work.layer.config, rope=replace(rope, base=rope.base * max(length, threshold) / threshold))


# -- tables -------------------------------------------------------------------------------------------------


@killer(
    "rope_table_clipped",
    fault="ROPE-TABLE-BOUND",
    violates="CONSTRUCT-POSITIONS-EQUAL",
    says="the table of angles is one row short, and indices are clipped to it",
)
class _TableClipped(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return np.minimum(super().positions(work), work.layer.config.rope.max_positions - 2)


@killer(
    "rope_table_chunk_bound",
    fault="ROPE-TABLE-BOUND",
    violates="POSITION-OFFSET",
    says="a table of four rows is tested against the rows of the call and not against the history",
)
class _TableOfFour(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        position = super().positions(work)
        return np.minimum(position, 3) if work.count <= 4 else position


@killer(
    "rope_table_keyed_on_count",
    fault="KEY-INCOMPLETE",
    violates="POSITION-OFFSET",
    says="cosines and sines are kept by the number of rows alone; the second call gets those of the first",
)
class _TableKeyedOnCount(OpenLayerAdapter):
    def positions(self, work: Work) -> Array:
        return work.cache.notes.setdefault(f"positions of {work.count}", super().positions(work))


@killer(
    "frequencies_keyed_on_width",
    fault="KEY-INCOMPLETE",
    violates="ISOLATE-CACHES",
    says="frequencies are kept by head width alone; a layer of another base gets those of the first",
)
class _FrequenciesKeyedOnWidth(OpenLayerAdapter):
    def __init__(self) -> None:
        self.kept: dict[int, Array] = {}

    def build_layer(self, config: LayerConfig, parameters: LayerParameters) -> OpenLayer:
        self.kept.setdefault(config.head_width, super().frequencies(config))
        return super().build_layer(config, parameters)

    def frequencies(self, config: LayerConfig) -> Array:
        return self.kept.get(config.head_width, super().frequencies(config))


# -- precision ----------------------------------------------------------------------------------------------


@killer(
    "freq_f32", fault="DTYPE-ANGLE", violates="AGREE-ROTATED-KEY", says="frequencies are rounded to float32"
)
class _Float32Frequencies(OpenLayerAdapter):
    def frequencies(self, config: LayerConfig) -> Array:
        return super().frequencies(config).astype(np.float32).astype(np.float64)


@killer(
    "rope_angle_f32",
    fault="DTYPE-ANGLE",
    violates="AGREE-ROTATED-KEY",
    says="the angle is computed in float32",
)
class _Float32Angle(OpenLayerAdapter):
    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        angle = np.asarray(positions, np.float32)[..., None] * self.frequencies(config).astype(np.float32)
        return np.cos(angle.astype(np.float64)), np.sin(angle.astype(np.float64))


@killer(
    "rope_trig_f32",
    fault="DTYPE-ANGLE",
    violates="AGREE-ROTATED-KEY",
    says="sine and cosine are computed in float32",
)
class _Float32Trigonometry(OpenLayerAdapter):
    def turn(self, config: LayerConfig, positions: Array) -> tuple[Array, Array]:
        angle = np.asarray(positions)[..., None] * self.frequencies(config)
        return np.cos(angle.astype(np.float32)), np.sin(angle.astype(np.float32))
