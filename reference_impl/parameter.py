"""A trainable tensor as a cache sees it: a node with an identity, a value and a value revision."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Parameter:
    """One parameter node; two nodes are the same only when they are the same object.

    value: a read-only float64 copy of what was given, row-major. revision: rises by one with every
    successful `update`, also when the numbers stay equal, and with nothing else.
    Source: System 1, Binding.
    """

    __slots__ = ("_revision", "_value")

    def __init__(self, value: ArrayLike, revision: int = 0) -> None:
        self._value = _read_only_copy(value)
        self._revision = revision

    @property
    def value(self) -> NDArray[np.float64]:
        """The numbers of the current revision, read-only."""
        return self._value

    @property
    def revision(self) -> int:
        """How often this node has been updated, counted from the revision that it was built with."""
        return self._revision

    def update(self, values: ArrayLike) -> None:
        """Write new numbers of the same shape and raise the revision by one.

        Raises ValueError for another shape; the node then keeps numbers and revision.
        """
        replacement = _read_only_copy(values)
        if replacement.shape != self._value.shape:
            raise ValueError(
                f"Parameter.update: got shape {list(replacement.shape)}, the node holds "
                f"{list(self._value.shape)}; pass values of the shape that it holds"
            )
        self._value = replacement
        self._revision += 1

    def rebuilt(self) -> Parameter:
        """Another node with equal numbers and revision: to a cache it is a different parameter."""
        return Parameter(self._value, self._revision)

    def __repr__(self) -> str:
        return f"Parameter(shape={list(self._value.shape)}, revision={self._revision})"


def _read_only_copy(values: ArrayLike) -> NDArray[np.float64]:
    # Handed out through a read-only memoryview: the flag of such an array cannot be turned back on.
    copy = np.array(values, dtype=np.float64, order="C")
    copy.setflags(write=False)
    return np.asarray(copy.data)
