"""What a Python adapter returns, as it stands in a reply."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.values import STEP_ARRAYS, Observation, Step
from conformance.wire.errors import MessageError
from conformance.wire.messages import plain_out, step_out
from conformance.wire.numbers import Numbers
from conformance.wire.text import printable
from conformance.wire.tokens import digest

SENT_WHOLE = 4096
"""Elements up to which a buffer travels with its contents; of a larger one only the digest does."""


def array_of(given: Any, place: str) -> NDArray[Any]:
    """A NumPy array of whatever array came, without importing its library. Raises MessageError."""
    if isinstance(given, np.ndarray):
        return given
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        tensor = given.detach().cpu()
        return np.asarray(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)
    if hasattr(given, "__array__"):
        return np.asarray(given)
    if hasattr(given, "__dlpack__"):
        return np.from_dlpack(given)
    raise MessageError(place, f"{type(given).__name__} {printable(repr(given), 60)} is not an array")


def step_message(given: Any, numbers: Numbers) -> dict[str, Any]:
    """The result of an append: a step, or the output alone."""
    if not isinstance(given, Step):
        return {"output": numbers.array_out(array_of(given, "output"))}
    arrays = {
        name: array_of(value, name) for name in STEP_ARRAYS if (value := getattr(given, name)) is not None
    }
    if "output" not in arrays:
        raise MessageError("output", "None is not an output")
    return step_out(Step(**arrays, length=given.length, work=given.work), numbers)


def handed_out(given: Any) -> Iterable[NDArray[Any]]:
    """The NumPy arrays of a step, which must not be the cache's own memory."""
    values = [getattr(given, name) for name in STEP_ARRAYS] if isinstance(given, Step) else [given]
    return [value for value in values if isinstance(value, np.ndarray)]


def pair_message(given: Any, numbers: Numbers) -> dict[str, Any] | None:
    """The result of a store's append or of a snapshot: (keys, values), or None."""
    if given is None:
        return None
    try:
        keys, values = given
    except (TypeError, ValueError):
        raise MessageError("", f"{printable(repr(given), 60)} is not a pair (keys, values)") from None
    return {
        "keys": numbers.array_out(array_of(keys, "keys")),
        "values": numbers.array_out(array_of(values, "values")),
    }


def observation_message(given: Any, numbers: Numbers) -> dict[str, Any]:
    """The result of an observe."""
    if not isinstance(given, Observation):
        raise MessageError("", f"observe returned {type(given).__name__}, not an Observation")
    message: dict[str, Any] = {
        "length": given.length if isinstance(given.length, bool) else _count(given.length)
    }
    if given.capacity is not None:
        message["capacity"] = _count(given.capacity)
    for name in ("keys", "values"):
        value = getattr(given, name)
        if value is not None:
            message[name] = numbers.array_out(array_of(value, name))
    if given.storage is not None:
        message["storage"] = [
            _token(entry, f"storage[{i}]", numbers) for i, entry in enumerate(given.storage)
        ]
    if given.extra:
        message["extra"] = {str(name): _extra(value, numbers) for name, value in given.extra.items()}
    return message


def overwrite_row(adapter: Any, cache: Any, buffer: int, index: int, numbers: NDArray[Any]) -> bool:
    """Change one stored row through the storage that an adapter shows; False where that cannot be written."""
    storage = adapter.observe(cache).storage
    data = array_of(storage[buffer], f"storage[{buffer}]")
    if not (data.flags.writeable and data.flags.c_contiguous and data.ndim == 4):
        return False
    data.reshape(-1)[index : index + numbers.size] = numbers.ravel()
    return True


def _count(given: Any) -> Any:
    # Anything that is no whole number goes out as it is, for the other end to refuse by name.
    return int(given) if isinstance(given, int | np.integer) else plain_out(given, Numbers())


def _extra(value: Any, numbers: Numbers) -> Any:
    return (
        numbers.array_out(array_of(value, "extra"))
        if hasattr(value, "__array__")
        else plain_out(value, numbers)
    )


def _token(entry: Any, place: str, numbers: Numbers) -> dict[str, Any]:
    data = array_of(entry, place)
    token: dict[str, Any] = {"address": hex(_address(entry, data))}
    if data.size <= SENT_WHOLE:
        return {**token, "data": numbers.array_out(data)}
    return {**token, "digest": digest(data), "nbytes": int(data.nbytes), "elements": int(data.size)}


def _address(entry: Any, data: NDArray[Any]) -> int:
    for name in ("data_ptr", "unsafe_buffer_pointer"):
        pointer = getattr(entry, name, None)
        if callable(pointer):
            return int(pointer())
    if data.flags.forc:
        return int(data.__array_interface__["data"][0])
    return int(np.lib.array_utils.byte_bounds(data)[0])
