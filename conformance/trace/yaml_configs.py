"""Configurations in a trace file: layers, attention, stores, models, and the caches built for them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields as fields_of
from dataclasses import replace
from typing import Any

from conformance.trace.exact_numbers import Rows
from conformance.trace.model import CacheSpec, Derived, Source
from conformance.trace.yaml_arrays import read_array
from conformance.trace.yaml_cursor import HANDLE, TITLE, Cursor
from conformance.values import (
    PARAMETERS,
    AttentionConfig,
    DecoderConfig,
    LayerConfig,
    LayerParameters,
    RopeConfig,
    StoreConfig,
)

Config = LayerConfig | AttentionConfig | StoreConfig | DecoderConfig

LAYER_FIELDS = ("model_width", "heads", "kv_heads", "head_width", "rope")
ROPE_FIELDS = ("base", "pairing", "max_positions")


def read_rope(cursor: Cursor, old: RopeConfig | None = None) -> RopeConfig:
    """A rotary configuration; with `old` any part may be left out and is then the old one's."""
    given = cursor.fields((), ROPE_FIELDS) if old else cursor.fields(ROPE_FIELDS)
    parts: dict[str, Any] = {}
    if "base" in given:
        parts["base"] = given["base"].setting()
        if parts["base"] <= 0:
            raise given["base"].error("the base must be positive")
    if "pairing" in given:
        parts["pairing"] = given["pairing"].choice(("adjacent", "half"))
    if "max_positions" in given:
        parts["max_positions"] = given["max_positions"].integer(1)
    return replace(old, **parts) if old else RopeConfig(**parts)


def read_layer_config(cursor: Cursor) -> LayerConfig:
    """The geometry of a layer."""
    given = cursor.fields(LAYER_FIELDS)
    return LayerConfig(**_counts(given, LAYER_FIELDS[:4]), rope=read_rope(given["rope"]))


def _counts(given: Mapping[str, Cursor], names: tuple[str, ...]) -> dict[str, int]:
    return {name: given[name].integer(1) for name in names}


def _read_attention_config(cursor: Cursor) -> AttentionConfig:
    names = ("heads", "kv_heads", "key_width", "value_width")
    given = cursor.fields(names)
    return AttentionConfig(**_counts(given, names))


def _read_store_config(cursor: Cursor) -> StoreConfig:
    names = ("layers", "kv_heads", "key_width", "value_width")
    return StoreConfig(**_counts(cursor.fields(names), names))


def _read_decoder_config(cursor: Cursor) -> DecoderConfig:
    given = cursor.fields(tuple(entry.name for entry in fields_of(DecoderConfig)))
    epsilon = given["norm_epsilon"].setting()
    if epsilon < 0:
        raise given["norm_epsilon"].error("an epsilon is not negative")
    return DecoderConfig(
        **_counts(given, ("vocabulary", "layers", "feed_forward_width")),
        layer=read_layer_config(given["layer"]),
        norm_epsilon=epsilon,
        positions=given["positions"].choice(("rope", "learned")),  # type: ignore[arg-type]
        tied=given["tied"].truth(),
        biases=given["biases"].truth(),
    )


_READERS: Mapping[str, Any] = {
    "layer": read_layer_config,
    "attention": _read_attention_config,
    "store": _read_store_config,
    "decoder": _read_decoder_config,
}


def read_config(cursor: Cursor, level: str) -> Config:
    """The configuration that caches of a level are built for."""
    return _READERS[level](cursor)  # type: ignore[no-any-return]


def read_layers(
    cursor: Cursor, level: str, numbers: Rows
) -> tuple[dict[str, Source | Derived], dict[str, Config]]:
    """Every layer, and the configuration of each, also where it is derived from an earlier one."""
    layers: dict[str, Source | Derived] = {}
    configs: dict[str, Config] = {}
    for name, entry in cursor.entries(TITLE).items():
        if isinstance(entry.value, dict) and "from" in entry.value:
            layers[name], configs[name] = _read_derived(entry, level, configs)
        else:
            layers[name] = _read_source(entry, level, numbers)
            configs[name] = layers[name].config  # type: ignore[assignment]
    return layers, configs


def _read_source(cursor: Cursor, level: str, numbers: Rows) -> Source:
    weighted = level in ("layer", "decoder")
    given = cursor.fields(("config", "parameters") if weighted else ("config",))
    config = read_config(given["config"], level)
    _require_whole_groups(given["config"], config)
    if isinstance(config, LayerConfig):
        return Source(config, _read_layer_parameters(given["parameters"], config, numbers))
    if isinstance(config, DecoderConfig):
        entries = given["parameters"].entries(HANDLE)
        return Source(config, {name: read_array(entry, numbers.handed) for name, entry in entries.items()})
    return Source(config)


def _require_whole_groups(cursor: Cursor, config: Config) -> None:
    """Refuse a geometry that no attention has. A rewired layer may have one: it is there to be refused."""
    plain = config.layer if isinstance(config, DecoderConfig) else config
    if not isinstance(plain, StoreConfig) and plain.heads % plain.kv_heads:
        raise cursor.error(f"{plain.kv_heads} key/value heads do not divide the {plain.heads} query heads")
    if isinstance(plain, LayerConfig) and plain.head_width % 2:
        raise cursor.error(f"a head width of {plain.head_width} is odd; rotary positions turn pairs")


def _read_layer_parameters(cursor: Cursor, config: LayerConfig, numbers: Rows) -> LayerParameters:
    given = cursor.fields(PARAMETERS)
    width, outward = config.model_width, config.heads * config.head_width
    inward = config.kv_heads * config.head_width
    shapes = ((width, outward), (width, inward), (width, inward), (outward, width))
    return LayerParameters(
        *(
            read_array(given[name], numbers.handed, shape=shape)
            for name, shape in zip(PARAMETERS, shapes, strict=True)
        )
    )


def _read_derived(cursor: Cursor, level: str, configs: Mapping[str, Config]) -> tuple[Derived, Config]:
    given = cursor.fields(("from",), rewiring_fields(level))
    old = given["from"].known(configs, "layer above this one named")
    config = read_rewiring(given, level, old)
    fresh = read_fresh(given["fresh"], level) if "fresh" in given else ()
    return Derived(given["from"].text(), config, fresh), config or old  # type: ignore[arg-type]


def rewiring_fields(level: str) -> tuple[str, ...]:
    """The keys that may say what a rewired layer has of its own."""
    return ("fresh", "config", *(LAYER_FIELDS if level == "layer" else ()))


def read_rewiring(given: Mapping[str, Cursor], level: str, old: Config) -> Config | None:
    """The configuration that a rewired layer has instead of the old one, None where it keeps that.

    Either the whole `config`, or single fields of it.
    """
    single = [name for name in LAYER_FIELDS if name in given]
    if "config" in given:
        if single:
            raise given[single[0]].error("config is the whole configuration; leave the single fields out")
        return read_config(given["config"], level)
    if not single or not isinstance(old, LayerConfig):
        return None
    parts: dict[str, Any] = {name: given[name].integer(1) for name in single if name != "rope"}
    if "rope" in given:
        parts["rope"] = read_rope(given["rope"], old.rope)
    return replace(old, **parts)


def read_fresh(cursor: Cursor, level: str) -> tuple[str, ...]:
    """The parameters that a rewired layer has anew."""
    fresh = cursor.words(HANDLE)
    if level == "layer" and not set(fresh) <= set(PARAMETERS):
        raise cursor.error(f"found {cursor.text()!r}; the parameters are {' '.join(PARAMETERS)}")
    return fresh


def read_caches(cursor: Cursor, configs: Mapping[str, Config]) -> dict[str, CacheSpec]:
    """Every cache that stands when a schedule begins."""
    caches = {}
    for name, entry in cursor.entries(TITLE).items():
        given = entry.fields(("layer", "batch_size", "capacity"))
        given["layer"].known(configs, "layer")
        caches[name] = CacheSpec(
            layer=given["layer"].text(),
            batch_size=given["batch_size"].integer(1),
            capacity=read_capacity(given["capacity"], minimum=1),
        )
    return caches


def read_capacity(cursor: Cursor, *, minimum: int | None = None) -> int | None:
    """A number of rows, or `none` for a cache that grows."""
    return None if cursor.value == "none" else cursor.integer(minimum)


def write_config(config: Config | RopeConfig) -> dict[str, Any]:
    """The tree of a configuration."""
    return {entry.name: _write_field(getattr(config, entry.name)) for entry in fields_of(config)}


def _write_field(value: Any) -> Any:
    if isinstance(value, LayerConfig | RopeConfig):
        return write_config(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else write_setting(value)


def write_setting(value: float) -> str:
    """A number in the shortest form that reads back to it: `24`, `0.1`, `1e-12`.

    Raises ValueError where it is not finite.
    """
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is not finite and cannot be a setting of a trace file")
    text = repr(float(value)).removesuffix(".0")
    mantissa, sign, exponent = text.partition("e")
    return f"{mantissa}{sign}{int(exponent)}" if sign else mantissa
