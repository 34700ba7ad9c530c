"""Every requirement by id, and the profiles that list them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from conformance.contract import (
    agreement,
    binding,
    construction,
    decoder,
    decoder_refusals,
    features,
    lifecycle,
    paged,
    refusals,
    storage,
    store,
    untestable,
)
from conformance.contract.model import Requirement
from conformance.errors import UsageError

FAMILIES = (
    agreement,
    storage,
    lifecycle,
    binding,
    refusals,
    construction,
    features,
    paged,
    store,
    decoder,
    decoder_refusals,
    untestable,
)


@dataclass(frozen=True)
class Profile:
    """A named list of requirements. `features` open it: it is run by default where all are declared."""

    name: str
    about: str
    levels: tuple[str, ...]
    features: frozenset[str] = frozenset()
    embedded: str = "numpy"


def _feature(name: str, about: str, feature: str, *more: str) -> Profile:
    """A profile of levels layer, attention and `more`."""
    return Profile(name, about, ("layer", "attention", *more), frozenset({feature}), "numpy-chunks")


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile("core", "what any cache must do whatever its design", ("layer", "attention", "decoder")),
        Profile("strict", "all that System 1, the layer cache, demands", ("layer", "attention")),
        Profile("store", "keeping rows and giving them back", ("store",), embedded="numpy-store"),
        Profile(
            "decoder", "all that System 3, the whole-model session, demands", ("decoder",),
            embedded="numpy-decoder",
        ),
        Profile(
            "self-agreement", "a decoder against its own pass without the cache", ("decoder",),
            frozenset({"full_prefix"}), "numpy-decoder",
        ),
        _feature("chunks", "append of several rows at once", "chunks", "decoder"),
        _feature("gqa", "fewer key/value heads than query heads", "gqa", "decoder"),
        _feature("rollback", "taking the newest rows back", "truncate", "store"),
        _feature("fork", "two continuations of one history", "fork", "store"),
        Profile("paged", "rows in blocks", ("layer",), frozenset({"paged"}), "numpy-paged"),
        _feature("reorder", "lanes permuted, duplicated and dropped", "reorder", "store"),
    )
}


@cache
def all_requirements() -> tuple[Requirement, ...]:
    """Every requirement in the order of the contract. Raises ValueError where an id stands twice."""
    found = tuple(entry for family in FAMILIES for entry in family.REQUIREMENTS)
    ids = [entry.id for entry in found]
    doubled = {name for name in ids if ids.count(name) > 1}
    if doubled:
        raise ValueError(f"contract: these ids stand twice: {sorted(doubled)}")
    return found


@cache
def _by_id() -> dict[str, Requirement]:
    return {entry.id: entry for entry in all_requirements()}


def requirement(name: str) -> Requirement:
    """The requirement of that id. Raises UsageError that names the nearest ids."""
    import difflib  # noqa: PLC0415 - only on the way to an error

    found = _by_id().get(name.upper())
    if found is None:
        near = difflib.get_close_matches(name.upper(), _by_id(), n=3, cutoff=0.4)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise UsageError(f"there is no requirement {name!r}{hint} ('kv-conformance list' prints them all)")
    return found


def profile_requirements(profile: str, level: str) -> tuple[Requirement, ...]:
    """What `profile` asks of `level`, in the order of the contract. Raises UsageError for unknown names."""
    if profile not in PROFILES:
        raise UsageError(f"there is no profile {profile!r}; the profiles are {', '.join(PROFILES)}")
    if level not in PROFILES[profile].levels:
        raise UsageError(
            f"profile {profile!r} asks nothing of level {level!r}; "
            f"it is for {', '.join(PROFILES[profile].levels)}"
        )
    return tuple(e for e in all_requirements() if profile in e.profiles and level in e.levels)


def requirement_ids(profiles: Iterable[str], level: str) -> frozenset[str]:
    """The ids that these profiles ask of `level`. Raises UsageError as `profile_requirements` does."""
    return frozenset(entry.id for name in profiles for entry in profile_requirements(name, level))
