"""Declarations, configurations, steps, observations and refusals as messages, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from conformance.adapter import Declaration, Precision
from conformance.errors import AdapterError
from conformance.rejections import KINDS, Rejected
from conformance.values import STEP_ARRAYS, LayerConfig, Observation, RopeConfig, Step, Work
from conformance.wire.errors import MessageError
from conformance.wire.numbers import Numbers
from conformance.wire.text import described
from conformance.wire.tokens import StorageToken

WORK = tuple(field.name for field in dataclasses.fields(Work))
DECLARED = tuple(field.name for field in dataclasses.fields(Declaration) if field.name != "rejections")
LISTS = ("levels", "dtypes", "features", "pairings")
"""The fields of a declaration that hold a list of texts."""
REFUSAL = ("kind", "message", "stage", "index", "value", "parameter", "expected", "found")
OBSERVED = ("length", "capacity", "keys", "values", "storage", "extra")
TOKEN = ("address", "digest", "nbytes", "elements", "data")


def fields_of(given: Any, place: str, known: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object with known keys only, all of `needed` among them. Raises MessageError."""
    if not isinstance(given, dict):
        raise MessageError(place, f"{described(given)} is not an object with the fields {', '.join(known)}")
    for name in given:
        if name not in known:
            raise MessageError(place, f"the field {name!r} is unknown; it may hold {', '.join(known)}")
    for name in needed:
        if name not in given:
            raise MessageError(place, f"the field {name!r} is missing")
    return given


def whole(given: Any, place: str) -> int:
    """A whole number from 0. Raises MessageError."""
    if type(given) is not int or given < 0:
        raise MessageError(place, f"{described(given)} is not a whole number from 0")
    return given


def text(given: Any, place: str) -> str:
    """A text. Raises MessageError."""
    if not isinstance(given, str):
        raise MessageError(place, f"{described(given)} is not a text")
    return given


def config_out(config: Any, numbers: Numbers) -> dict[str, Any]:
    """A configuration as a message: its fields by name, nested ones nested."""
    return {f.name: plain_out(getattr(config, f.name), numbers) for f in dataclasses.fields(config)}


def config_in(given: Any, place: str, kind: type[Any], numbers: Numbers) -> Any:
    """The configuration of class `kind` that a message holds."""
    fields = {f.name: f for f in dataclasses.fields(kind)}
    needed = tuple(name for name, f in fields.items() if f.default is dataclasses.MISSING)
    read = dict(fields_of(given, place, tuple(fields), needed))
    for name, value in read.items():
        nested = {"rope": RopeConfig, "layer": LayerConfig}.get(name)
        if nested is not None:
            read[name] = config_in(value, f"{place}.{name}", nested, numbers)
        elif fields[name].type == "float":
            read[name] = numbers.number_in(value, f"{place}.{name}")
        elif fields[name].type == "int" and type(value) is not int:
            raise MessageError(f"{place}.{name}", f"{described(value)} is not a whole number")
    return kind(**read)


def declaration_out(declaration: Declaration) -> dict[str, Any]:
    """A declaration as a message; its exception classes stay at home, each refusal carries its kind."""
    message = {name: getattr(declaration, name) for name in DECLARED}
    message["features"] = sorted(declaration.features)
    message["precision"] = dataclasses.asdict(declaration.precision)
    return message


def declaration_in(given: Any, place: str) -> Declaration:
    """The declaration of a driver's hello. Raises MessageError that names the field."""
    read = dict(fields_of(given, place, DECLARED, ("name", "levels")))
    for name in LISTS:
        listed = read.get(name, [])
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise MessageError(f"{place}.{name}", f"{described(listed)} is not a list of texts")
    for name in DECLARED:
        if name in read and name not in (*LISTS, "precision", "deterministic", "head_width_multiple"):
            text(read[name], f"{place}.{name}")
    if not isinstance(read.get("deterministic", True), bool):
        raise MessageError(
            f"{place}.deterministic", f"{described(read['deterministic'])} is not true or false"
        )
    if "head_width_multiple" in read:
        whole(read["head_width_multiple"], f"{place}.head_width_multiple")
    if "precision" in read:
        names = tuple(field.name for field in dataclasses.fields(Precision))
        stated = fields_of(read["precision"], f"{place}.precision", names)
        read["precision"] = Precision(
            **{name: text(v, f"{place}.precision.{name}") for name, v in stated.items()}
        )
    try:
        return Declaration(**read)
    except AdapterError as error:
        raise MessageError(place, str(error)) from None


def step_out(step: Step, numbers: Numbers) -> dict[str, Any]:
    """A step as a message; fields that are None are left out."""
    message: dict[str, Any] = {
        name: numbers.array_out(value) for name in STEP_ARRAYS if (value := getattr(step, name)) is not None
    }
    if step.length is not None:
        message["length"] = int(step.length)
    if step.work is not None:
        message["work"] = {name: int(getattr(step.work, name)) for name in WORK}
    return message


def step_in(given: Any, place: str, numbers: Numbers) -> Step:
    """The step that a message holds."""
    fields_of(given, place, (*STEP_ARRAYS, "length", "work"), ("output",))
    read: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name == "length":
            read[name] = whole(value, f"{place}.length")
        elif name == "work":
            counts = fields_of(value, f"{place}.work", WORK, WORK)
            read[name] = Work(**{key: whole(n, f"{place}.work.{key}") for key, n in counts.items()})
        else:
            read[name] = numbers.array_in(value, f"{place}.{name}")
    if "output" not in read:
        raise MessageError(f"{place}.output", "null is not an output")
    return Step(**read)


def observation_in(given: Any, place: str, numbers: Numbers) -> Observation:
    """The observation that a message holds, storage as tokens."""
    fields_of(given, place, OBSERVED, ("length",))
    present = {name: value for name, value in given.items() if value is not None}
    storage = present.get("storage")
    if storage is not None and not isinstance(storage, list):
        raise MessageError(f"{place}.storage", f"{described(storage)} is not a list, one entry per buffer")
    extra = present.get("extra", {})
    if not isinstance(extra, dict):
        raise MessageError(f"{place}.extra", f"{described(extra)} is not an object")
    return Observation(
        length=whole(given["length"], f"{place}.length"),
        capacity=whole(present["capacity"], f"{place}.capacity") if "capacity" in present else None,
        keys=numbers.array_in(present["keys"], f"{place}.keys") if "keys" in present else None,
        values=numbers.array_in(present["values"], f"{place}.values") if "values" in present else None,
        storage=None
        if storage is None
        else tuple(token_in(entry, f"{place}.storage[{i}]", numbers) for i, entry in enumerate(storage)),
        extra={name: plain_in(value, f"{place}.extra.{name}", numbers) for name, value in extra.items()},
    )


def token_in(given: Any, place: str, numbers: Numbers) -> StorageToken:
    """The token of one buffer: its address, and its digest or its whole contents."""
    entry = fields_of(given, place, TOKEN, ("address",))
    address = text(entry["address"], f"{place}.address")
    if entry.get("data") is not None:
        data = numbers.array_in(entry["data"], f"{place}.data")
        return StorageToken(address, None, data.nbytes, data.size, data)
    for name in ("digest", "nbytes", "elements"):
        if name not in entry:
            raise MessageError(place, f"without data the field {name!r} is needed")
    return StorageToken(
        address,
        text(entry["digest"], f"{place}.digest"),
        whole(entry["nbytes"], f"{place}.nbytes"),
        whole(entry["elements"], f"{place}.elements"),
    )


def refusal_out(refusal: Rejected, numbers: Numbers) -> dict[str, Any]:
    """A refusal as a message; what it does not carry is left out."""
    carried = {name: getattr(refusal, name) for name in REFUSAL if getattr(refusal, name) is not None}
    if "value" in carried:
        carried["value"] = numbers.number_out(float(refusal.value))  # type: ignore[arg-type]
    for name in ("expected", "found"):
        if name in carried:
            carried[name] = plain_out(carried[name], numbers)
    return carried


def refusal_in(given: Any, place: str, numbers: Numbers) -> Rejected:
    """The refusal that a message holds. Raises MessageError for a kind that does not exist."""
    entry = {name: v for name, v in fields_of(given, place, REFUSAL, ("kind",)).items() if v is not None}
    kind = text(entry.pop("kind", None), f"{place}.kind")
    if kind not in KINDS:
        raise MessageError(
            f"{place}.kind", f"{described(kind)} is not a kind of rejection; the kinds are {', '.join(KINDS)}"
        )
    for name in ("message", "stage"):
        if name in entry:
            text(entry[name], f"{place}.{name}")
    for name in ("index", "parameter"):
        if name in entry:
            whole(entry[name], f"{place}.{name}")
    if "value" in entry:
        entry["value"] = numbers.number_in(entry["value"], f"{place}.value")
    for name in ("expected", "found"):
        if name in entry:
            entry[name] = plain_in(entry[name], f"{place}.{name}", numbers)
    message = entry.pop("message", "")
    return Rejected(kind, message, **entry)


def plain_in(given: Any, place: str, numbers: Numbers) -> Any:
    """Free data: arrays where they stand as arrays, lists as tuples, everything else as it is."""
    if isinstance(given, dict):
        if given.keys() == {"dtype", "shape", "data"}:
            return numbers.array_in(given, place)
        return {name: plain_in(value, f"{place}.{name}", numbers) for name, value in given.items()}
    if isinstance(given, list):
        return tuple(plain_in(value, f"{place}[{i}]", numbers) for i, value in enumerate(given))
    return given


def plain_out(given: Any, numbers: Numbers) -> Any:
    """Free data as a message; what JSON has no word for goes as its text."""
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return config_out(given, numbers)
    if isinstance(given, np.ndarray):
        return numbers.array_out(given)
    if isinstance(given, Mapping):
        return {str(name): plain_out(value, numbers) for name, value in given.items()}
    if isinstance(given, list | tuple | set | frozenset):
        return [plain_out(value, numbers) for value in given]
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, float):
        return numbers.number_out(given)
    return given if isinstance(given, bool | int | str) or given is None else str(given)
