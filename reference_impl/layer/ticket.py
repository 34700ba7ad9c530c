"""The rows of a prepared step, and what the cache looked like when they were prepared."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from reference_impl.layer.memory import Array


class Place(NamedTuple):
    """Where the next rows of a cache go: behind `length` rows, into the buffers at these addresses."""

    length: int
    key_address: int
    value_address: int


class HasPlace(Protocol):
    """A cache, as far as a ticket looks at it."""

    def place(self) -> Place:
        """Where its next rows go."""


class Ticket:
    """Candidate rows, rotated keys and unrotated values [B,G,T,d], owned by the ticket alone.

    Used once by `commit`; dropping it costs nothing. Source: System 1, Prepare, then commit.
    """

    __slots__ = ("keys", "place", "used", "values")

    def __init__(self, place: Place, keys: Array, values: Array) -> None:
        self.place, self.keys, self.values = place, keys, values
        self.used = False

    @property
    def expected_length(self) -> int:
        """The length that the cache had, and must still have when the ticket is used."""
        return self.place.length

    def matches(self, cache: HasPlace) -> bool:
        """True while length and both buffer addresses are what they were.

        Bytes, binding and history are not compared: between prepare and commit the caller leaves cache
        and layer alone.
        """
        return self.place == cache.place()
