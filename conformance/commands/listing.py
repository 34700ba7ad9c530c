"""Print the requirements of the contract, in its order, with the profiles that list them."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Sequence

from conformance.adapter import LEVELS
from conformance.contract import (
    CONTRACT_VERSION,
    PROFILES,
    Profile,
    Requirement,
    all_requirements,
    profile_requirements,
)

WIDTH = 100
PROFILE_COLUMN = 2 + max(map(len, PROFILES))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `list`."""
    parser.add_argument("--profile", metavar="P", help=f"only what this profile lists: {', '.join(PROFILES)}")
    parser.add_argument("--level", choices=LEVELS, help="only what is asked of this level")


def run(options: argparse.Namespace) -> int:
    """Print the contract; 0."""
    print("\n".join(_lines(options.profile, options.level)))
    return 0


def _lines(profile: str | None, level: str | None) -> list[str]:
    asked = _asked(profile, level)
    lines = [f"contract {CONTRACT_VERSION}: {len(asked)} requirements"]
    if profile is None:
        lines += ["", "profiles:"]
        lines += [_about(p) for p in PROFILES.values() if level is None or level in p.levels]
    for entry in asked:
        lines += ["", *_entry(entry)]
    return lines


def _about(profile: Profile) -> str:
    told = ", ".join(profile.levels)
    if profile.features:
        told += f"; run by default where {', '.join(sorted(profile.features))} is declared"
    return f"  {profile.name:<{PROFILE_COLUMN}}{profile.about} ({told})"


def _asked(profile: str | None, level: str | None) -> Sequence[Requirement]:
    if profile is None:
        return [e for e in all_requirements() if level is None or level in e.levels]
    levels = (level,) if level is not None else (PROFILES[profile].levels if profile in PROFILES else LEVELS)
    listed = {e.id for one in levels for e in profile_requirements(profile, one)}
    return [e for e in all_requirements() if e.id in listed]


def _entry(entry: Requirement) -> list[str]:
    if entry.untestable:
        tags = "no black box can see it"
    else:
        tags = f"{' '.join(entry.profiles)} | {' '.join(entry.levels)}"
        if entry.needs:
            tags += f" | needs {' '.join(sorted(entry.needs))}"
        if entry.where_observable:
            tags += " | where observable"
        if entry.pending:
            tags += f" | pending until contract {entry.since}"
    return [
        f"{entry.id}  ({tags})",
        *textwrap.wrap(entry.sentence, WIDTH, initial_indent="  ", subsequent_indent="  "),
    ]
