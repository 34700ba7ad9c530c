"""Operands of a call as they stand in a request."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from conformance.errors import AdapterError
from conformance.values import AttentionConfig, DecoderConfig, LayerConfig, LayerParameters, StoreConfig
from conformance.wire.errors import MessageError
from conformance.wire.messages import config_in, config_out, fields_of
from conformance.wire.numbers import Numbers
from conformance.wire.text import described

CONFIGS: Mapping[str, type[Any]] = {
    "layer_config": LayerConfig,
    "attention_config": AttentionConfig,
    "store_config": StoreConfig,
    "decoder_config": DecoderConfig,
}
PARAMETERS = ("query", "key", "value", "output")


def encoded(value: Any, name: str, numbers: Numbers) -> Any:
    """An operand by its type: arrays, parameters, configurations, numbers, lists. Raises AdapterError."""
    if isinstance(value, np.ndarray):
        try:
            return numbers.array_out(value)
        except MessageError as error:
            raise AdapterError(f"{name}: {error.problem}") from None
    if isinstance(value, LayerParameters):
        return {
            f.name: encoded(np.asarray(getattr(value, f.name)), name, numbers)
            for f in dataclasses.fields(value)
        }
    if dataclasses.is_dataclass(value):
        return config_out(value, numbers)
    if isinstance(value, Mapping):
        return {key: encoded(np.asarray(item), name, numbers) for key, item in value.items()}
    if isinstance(value, float | np.floating):
        return numbers.number_out(float(value))
    return int(value) if isinstance(value, np.integer) else value


def operand_in(given: Any, name: str, kind: str, numbers: Numbers) -> Any:
    """The operand that a request holds, by its kind in `REQUESTS` (handles excepted). Raises MessageError."""
    if kind == "array":
        return numbers.array_in(given, name)
    if kind == "number":
        return numbers.number_in(given, name)
    if kind in CONFIGS:
        return config_in(given, name, CONFIGS[kind], numbers)
    if kind in ("layer_parameters", "arrays"):
        if not isinstance(given, dict):
            raise MessageError(name, f"{described(given)} is not an object of arrays by name")
        if kind == "layer_parameters":
            fields_of(given, name, PARAMETERS, PARAMETERS)
        arrays = {key: numbers.array_in(value, f"{name}.{key}") for key, value in given.items()}
        return LayerParameters(**arrays) if kind == "layer_parameters" else arrays
    return _plain_operand(given, name, kind)


def _plain_operand(given: Any, name: str, kind: str) -> Any:
    if kind == "int" and type(given) is int:
        return given
    wanted = {"ints": int, "names": str}.get(kind)
    if wanted is not None and isinstance(given, list) and all(type(item) is wanted for item in given):
        return tuple(given) if kind == "names" else given
    raise MessageError(name, f"{described(given)} is not what {name} takes ({kind})")
