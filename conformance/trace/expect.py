"""What must be observed after a step. Every expectation names the requirement under which it is filed.

Fields of arrays are those of `Step` (`output`, `weights`, ...) and `keys`, `values` of the observed cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Close:
    """`field` agrees with `value` to at most `bound`, the bound itself included.

    bound is a number, an array of the shape of value, or None where the suite still has to compute it for
    the declared precision. `kappa` (arithmetic, storage, angle) is the condition of the golden value.
    """

    requirement: str
    field: str
    value: Array
    bound: float | Array | None = None
    kappa: tuple[float, float, float] | None = None


@dataclass(frozen=True)
class Same:
    """`field` of this step equals `field` of an earlier step, labelled `other`, bit for bit.

    `rows` and `other_rows` (start, stop along the second last axis) and `lanes`, `other_lanes` (indices)
    select what is compared. Where the implementation declares itself non-deterministic, `bound` holds.
    """

    requirement: str
    field: str
    other: str
    rows: tuple[int, int] | None = None
    other_rows: tuple[int, int] | None = None
    lanes: tuple[int, ...] | None = None
    other_lanes: tuple[int, ...] | None = None
    bound: float | None = None


@dataclass(frozen=True)
class Length:
    """The cache holds `rows` rows."""

    requirement: str
    rows: int
    cache: str | None = None


@dataclass(frozen=True)
class Shapes:
    """The logical keys and values, or a step's field, have exactly this shape."""

    requirement: str
    shapes: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Declares:
    """A declared figure (`work.position`, `capacity`, ...) equals `value`."""

    requirement: str
    figure: str
    value: Any


@dataclass(frozen=True)
class Refused:
    """The call is refused with one of `kinds`; `details` are judged when given, demanded when `strict`."""

    requirement: str
    kinds: tuple[str, ...]
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Accepted:
    """The call succeeds: the control beside a refusal."""

    requirement: str


@dataclass(frozen=True)
class Unchanged:
    """Nothing of `cache` has changed: length, logical rows, storage bytes, addresses.

    One requirement a part, so that each is filed on its own; a part whose requirement is "" is not asked.
    """

    cache: str
    length: str = ""
    rows: str = ""
    storage: str = ""
    addresses: str = ""
    capacity: str = ""


@dataclass(frozen=True)
class InputsKept:
    """The arrays that went into the call are bit for bit what they were."""

    requirement: str


@dataclass(frozen=True)
class Apart:
    """The arrays handed out by this step share no memory with the storage of `cache`."""

    requirement: str
    cache: str


@dataclass(frozen=True)
class Custom:
    """A rule that only code can say: `rule` names a function of the judge, `arguments` feed it."""

    requirement: str
    rule: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


Expectation = (
    Close | Same | Length | Shapes | Declares | Refused | Accepted | Unchanged | InputsKept | Apart | Custom
)
