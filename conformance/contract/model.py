"""What a requirement is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CONTRACT_VERSION = "1"
"""Version of the contract. A requirement added later is pending until the next version."""


@dataclass(frozen=True, kw_only=True)
class Requirement:
    """One rule that an implementation is held to.

    id: stable, never reused. sentence: MUST, SHOULD or MAY. levels: the levels that it is asked of.
    profiles: the profiles that list it. needs: features without which it is declined. where_observable:
    a profile may end conformant although it could not be seen. fixed_only: asked only of caches of fixed
    capacity. after_refusal: asked after a refused call, of which a growing cache may have none. source:
    where the rule comes from. look: where in an implementation a failure usually sits. example: what a
    failure says. untestable: why no black box can see it, with `covered_by` the test of ours that covers it
    on the embedded layer.
    """

    id: str
    sentence: str
    levels: tuple[str, ...]
    profiles: tuple[str, ...]
    source: str
    needs: frozenset[str] = frozenset()
    where_observable: bool = False
    fixed_only: bool = False
    after_refusal: bool = False
    since: str = "1"
    look: str = ""
    example: str = ""
    untestable: str = ""
    covered_by: str = ""

    @property
    def strength(self) -> Literal["MUST", "SHOULD", "MAY"]:
        """The word of the sentence that says how binding it is."""
        for word in ("MUST", "SHOULD", "MAY"):
            if word in self.sentence:
                return word
        raise ValueError(f"{self.id}: the sentence says neither MUST, SHOULD nor MAY")

    @property
    def pending(self) -> bool:
        """True for a requirement that a later contract version brings in."""
        return int(self.since) > int(CONTRACT_VERSION)
