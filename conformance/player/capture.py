"""Copying what an implementation shows, whatever array library it uses.

A framework is looked at only where the implementation has already imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conformance.errors import AdapterError
from conformance.player.records import Buffer, CacheView, Returned
from conformance.values import STEP_ARRAYS, Observation, Step, Work


def array(given: Any, what: str) -> NDArray[Any]:
    """`given` as a NumPy array, sharing memory where it can.

    Raises AdapterError for anything that is not an array: None, a list, a number.
    """
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
    raise AdapterError(
        f"{what} is {_describe(given)}, not an array; return NumPy or anything with __array__ or DLPack"
    )


def copy(given: Any, what: str) -> NDArray[Any]:
    """A row-major copy of `given`. Raises AdapterError where it is no array of real numbers."""
    plain = type(given) is np.ndarray
    taken = given.copy() if plain else np.array(array(given, what), order="C", copy=True)
    if taken.dtype.kind not in "fiuV" and taken.dtype.name not in ("bfloat16",):
        raise AdapterError(f"{what} has dtype {taken.dtype}; arrays of real numbers are wanted")
    return taken


def _describe(given: Any) -> str:
    if given is None:
        return "None"
    text = repr(given)
    return f"{type(given).__name__} {text[:60] + '...' if len(text) > 60 else text}"


def memory(given: Any) -> tuple[int, int] | None:
    """First address and number of bytes of the memory that an array spans, None where unknown."""
    if isinstance(given, np.ndarray) and given.flags.forc:
        return given.__array_interface__["data"][0], given.nbytes
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(given, torch.Tensor):
        storage = given.untyped_storage()
        return int(storage.data_ptr()), int(storage.nbytes())
    if not isinstance(given, np.ndarray) and hasattr(given, "unsafe_buffer_pointer"):
        return int(given.unsafe_buffer_pointer()), int(given.nbytes)
    try:
        low, high = np.lib.array_utils.byte_bounds(array(given, "an array"))
    except AdapterError:
        return None
    return int(low), int(high - low)


def buffer(given: Any) -> Buffer:
    """One entry of `Observation.storage`, copied. A driver's token carries a digest instead of data."""
    if not isinstance(given, np.ndarray) and hasattr(given, "digest") and hasattr(given, "address"):
        shown = getattr(given, "data", None)
        data = None if shown is None else copy(shown, "an entry of storage")
        return Buffer(str(given.address), given.digest, int(given.elements), int(given.nbytes), data, True)
    data = copy(given, "an entry of storage")
    place = memory(given)
    address = place[0] if place is not None else id(given)
    return Buffer(address, None, data.size, data.nbytes, data)


def count(given: Any, what: str) -> int:
    """`given` as a count. Raises AdapterError for anything but a whole number from 0."""
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
        raise AdapterError(f"{what} is {_describe(given)}; a whole number from 0 is wanted")
    return int(given)


def view(seen: Any, *, storage: bool = True) -> CacheView:
    """An observation, copied, with or without the physical buffers. Raises AdapterError where it is none."""
    if not isinstance(seen, Observation):
        raise AdapterError(f"observe returned {_describe(seen)}; it must return an Observation")
    wanted = storage and seen.storage is not None
    return CacheView(
        length=count(seen.length, "Observation.length"),
        capacity=None if seen.capacity is None else count(seen.capacity, "Observation.capacity"),
        keys=None if seen.keys is None else copy(seen.keys, "Observation.keys"),
        values=None if seen.values is None else copy(seen.values, "Observation.values"),
        storage=tuple(buffer(entry) for entry in seen.storage) if wanted else None,
        extra=dict(seen.extra),
    )


def returned(given: Any, raw: Mapping[str, Any]) -> Returned:
    """What a call handed out, copied. `raw` are its arrays by field."""
    step = given if isinstance(given, Step) else None
    if step is not None and step.work is not None and not isinstance(step.work, Work):
        raise AdapterError(f"Step.work is {_describe(step.work)}; it must be a Work or None")
    return Returned(
        fields={name: copy(value, name) for name, value in raw.items()},
        length=None if step is None or step.length is None else count(step.length, "Step.length"),
        work=None if step is None else step.work,
    )


def raw_fields(given: Any) -> dict[str, Any]:
    """The arrays that a call handed out, by field name, not copied."""
    if isinstance(given, Step):
        fields = {name: getattr(given, name) for name in STEP_ARRAYS}
        return {name: value for name, value in fields.items() if value is not None or name == "output"}
    return {"output": given}
