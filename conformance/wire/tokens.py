"""What stands for a physical buffer that lives in another process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class StorageToken:
    """A buffer as its driver describes it: everything here is the driver's own word.

    address: text that stays the same as long as the buffer does. digest: text that is equal exactly when the
    bytes are, None where they are here. nbytes and elements: its size. data: a copy of the whole buffer where
    the driver sends it.
    """

    address: str
    digest: str | None
    nbytes: int
    elements: int
    data: NDArray[Any] | None = None


def digest(data: NDArray[Any]) -> str:
    """The digest of an array's bytes in row-major order."""
    return hashlib.blake2b(np.ascontiguousarray(data).tobytes(), digest_size=16).hexdigest()
