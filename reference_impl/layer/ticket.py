"""The rows of a prepared step, and what the cache looked like when they were prepared."""

from __future__ import annotations

from typing import Protocol

from reference_impl.layer.memory import Array


class Place(Protocol):
    """What a ticket looks at in a cache: the length, and where the two buffers lie."""

    @property
    def length(self) -> int: ...
    @property
    def key_address(self) -> int: ...
    @property
    def value_address(self) -> int: ...


class Ticket:
    """Candidate rows, rotated keys and unrotated values [B,G,T,d], owned by the ticket alone.

    Used once by `commit`; dropping it costs nothing. Source: System 1, Prepare, then commit.
    """

    __slots__ = ("expected_length", "key_address", "keys", "used", "value_address", "values")

    def __init__(self, place: Place, keys: Array, values: Array) -> None:
        self.keys, self.values = keys, values
        self.expected_length = place.length
        self.key_address, self.value_address = place.key_address, place.value_address
        self.used = False

    def matches(self, place: Place) -> bool:
        """True while length and both buffer addresses are what they were.

        Bytes, binding and history are not compared: between prepare and commit the caller leaves cache
        and layer alone.
        """
        return (
            self.expected_length == place.length
            and self.key_address == place.key_address
            and self.value_address == place.value_address
        )
