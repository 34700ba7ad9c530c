"""Every refusal of the reference layer, typed, comparable, with all that it carries.

Two errors are equal when they are of one class and all their fields are equal; an error that carries NaN is
therefore not equal to itself. `kind` is the name of the refusal in the words of the contract.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(eq=False, repr=False)
class CacheError(Exception):
    """Root of every refusal: nothing was written, no length has changed."""

    kind: ClassVar[str] = ""
    text: ClassVar[str] = ""

    def carried(self) -> tuple[Any, ...]:
        """The values of the fields, in their order."""
        return tuple(getattr(self, entry.name) for entry in fields(self))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        # A loop over ==, because comparing tuples takes one NaN object to be equal to itself.
        return all(mine == its for mine, its in zip(self.carried(), other.carried(), strict=True))

    def __hash__(self) -> int:
        return hash((type(self), repr(self.carried())))

    def __str__(self) -> str:
        return self.text.format(**{entry.name: getattr(self, entry.name) for entry in fields(self)})

    def __repr__(self) -> str:
        named = ", ".join(f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self))
        return f"{type(self).__name__}({named})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.carried()


# Construction, in the order of its checks.


@dataclass(eq=False, repr=False)
class ZeroBatchSizeError(CacheError):
    """A cache for no lanes was asked for."""

    kind = "zero_batch_size"
    text = "a cache needs at least one lane; got batch size {batch_size}"
    batch_size: int = 0


@dataclass(eq=False, repr=False)
class ZeroCapacityError(CacheError):
    """A cache for no rows was asked for."""

    kind = "zero_capacity"
    text = "a cache needs room for at least one row; got capacity {capacity}"
    capacity: int = 0


@dataclass(eq=False, repr=False)
class CapacityExceedsPositionsError(CacheError):
    """More rows were asked for than the layer has positions."""

    kind = "capacity_exceeds_positions"
    text = "{capacity} rows need {capacity} positions; the layer has {max_positions}"
    capacity: int
    max_positions: int


@dataclass(eq=False, repr=False)
class ElementCountOverflowError(CacheError):
    """The product of the factors is above 2**63 - 1."""

    kind = "element_count_overflow"
    text = "the element count {factors} multiplies to more than 2**63 - 1"
    factors: tuple[int, ...]


@dataclass(eq=False, repr=False)
class AllocationFailedError(CacheError):
    """Memory for so many float64 elements cannot be had."""

    kind = "allocation_failed"
    text = "memory for {elements} float64 elements cannot be had; ask for a smaller batch or capacity"
    elements: int


# The call's operands and the binding, in the order of their checks.


@dataclass(eq=False, repr=False)
class InputRankError(CacheError):
    """The input does not have three axes."""

    kind = "input_rank"
    text = "the input must be [B,T,D]; got {rank} axes"
    rank: int


@dataclass(eq=False, repr=False)
class SingleTokenRequiredError(CacheError):
    """The layer takes exactly one row per lane and call."""

    kind = "single_token_required"
    text = "one row per lane and call is taken; got {tokens}"
    tokens: int


@dataclass(eq=False, repr=False)
class EmptyChunkError(CacheError):
    """A chunk without rows was given to a layer that takes chunks."""

    kind = "empty_chunk"
    text = "a chunk needs at least one row; got {tokens}"
    tokens: int = 0


@dataclass(eq=False, repr=False)
class InputBatchMismatchError(CacheError):
    """The input has another number of lanes than the cache."""

    kind = "input_batch_mismatch"
    text = "the cache has {expected} lanes; the input has {actual}"
    expected: int
    actual: int


@dataclass(eq=False, repr=False)
class InputWidthMismatchError(CacheError):
    """The input rows are not as wide as the layer's model width."""

    kind = "input_width_mismatch"
    text = "rows must be {expected} wide; they are {actual}"
    expected: int
    actual: int


@dataclass(eq=False, repr=False)
class GeometryMismatchError(CacheError):
    """Cache and layer differ in one figure; each figure has its own subclass."""

    text = "the cache was built for {cache}, the layer has {layer}; build a cache for this layer"
    cache: int
    layer: int


class CacheModelWidthMismatchError(GeometryMismatchError):
    """Cache and layer differ in model width."""

    kind = "cache_model_width_mismatch"


class CacheHeadCountMismatchError(GeometryMismatchError):
    """Cache and layer differ in query heads or, those being equal, in key/value heads."""

    kind = "cache_head_count_mismatch"


class CacheHeadWidthMismatchError(GeometryMismatchError):
    """Cache and layer differ in head width."""

    kind = "cache_head_width_mismatch"


@dataclass(eq=False, repr=False)
class CacheLayerMismatchError(CacheError):
    """The layer holds another parameter node than the cache was built for, whatever its numbers."""

    kind = "cache_layer_mismatch"
    text = "the cache belongs to another layer; build a cache for this one"


@dataclass(eq=False, repr=False)
class CacheLayerRevisionMismatchError(CacheError):
    """A parameter was updated after the cache was built; parameter 0 to 3: query, key, value, output."""

    kind = "cache_layer_revision_mismatch"
    text = (
        "parameter {parameter} stood at revision {cache} when the cache was built and stands at {layer}; "
        "the stored rows come from old weights, so build a new cache"
    )
    parameter: int
    cache: int
    layer: int


@dataclass(frozen=True)
class RopeSettings:
    """What a cache remembers of the rotary positions; compared with the base bit for bit.

    feature_width in features, max_positions in rows, base as given, pairing `adjacent` or `half`.
    """

    feature_width: int
    max_positions: int
    base: float
    pairing: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RopeSettings):
            return NotImplemented
        return self is other or self._bits() == other._bits()

    def __hash__(self) -> int:
        return hash(self._bits())

    def _bits(self) -> tuple[int, int, str, str]:
        # float.hex tells any two finite doubles apart, and 0.0 from -0.0.
        return self.feature_width, self.max_positions, float(self.base).hex(), self.pairing


@dataclass(eq=False, repr=False)
class CacheRopeMismatchError(CacheError):
    """Cache and layer differ in the settings of their rotary positions."""

    kind = "cache_rope_mismatch"
    text = "the stored keys were rotated with {cache}, the layer rotates with {layer}; build a new cache"
    cache: RopeSettings
    layer: RopeSettings


@dataclass(eq=False, repr=False)
class CacheFullError(CacheError):
    """The new rows do not fit."""

    kind = "full"
    text = (
        "the cache holds at most {capacity} rows and the new ones do not fit; reset it or build a larger one"
    )
    capacity: int


# The calculation and the commit.


@dataclass(eq=False, repr=False)
class NonFiniteError(CacheError):
    """A number is NaN or infinite; index is its flat row-major index in the tensor of its stage."""

    kind = "non_finite"
    text = "element {index} is {value}; every number of a step must be finite"
    index: int
    value: float


@dataclass(eq=False, repr=False)
class CandidateNonFiniteError(NonFiniteError):
    """A row that is to be written is not finite; index is `(b*G + g)*d + feature` for a single row."""

    text = "{tensor} element {index} is {value}; only finite rows are written"
    tensor: str


@dataclass(eq=False, repr=False)
class CandidateShapeError(CacheError):
    """A row that is to be written does not have the shape of the cache's slots; tensor: key or value."""

    kind = "candidate_shape"
    text = "the {tensor} rows must be {expected}; they are {actual}"
    tensor: str
    expected: tuple[int, ...]
    actual: tuple[int, ...]


@dataclass(eq=False, repr=False)
class StepError(CacheError):
    """A step failed at `stage`; `cause` is the refusal that says why, also reachable as `__cause__`."""

    text = "{stage}: {cause}"
    stage: str
    cause: CacheError

    def __post_init__(self) -> None:
        self.__cause__ = self.cause

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of the cause: the wrapper only adds the place."""
        return self.cause.kind


@dataclass(eq=False, repr=False)
class TicketMismatchError(CacheError):
    """Ticket number `index` of a commit is used up, or its cache is no longer as it was when prepared."""

    kind = "ticket_mismatch"
    text = "ticket {index} does not match its cache: {reason}; nothing was written, prepare the step again"
    index: int
    reason: str


@dataclass(eq=False, repr=False)
class HistoryError(CacheError):
    """The records of a history contradict each other; step is None where no single one is to blame."""

    kind = "history"
    text = "history, step {step}: {reason}"
    step: int | None
    reason: str
