"""The contract: every rule as data, with a stable id."""

from __future__ import annotations

from conformance.contract.model import CONTRACT_VERSION, Requirement
from conformance.contract.registry import (
    PROFILES,
    Profile,
    all_requirements,
    profile_requirements,
    requirement,
    requirement_ids,
)

__all__ = [
    "CONTRACT_VERSION",
    "PROFILES",
    "Profile",
    "Requirement",
    "all_requirements",
    "profile_requirements",
    "requirement",
    "requirement_ids",
]
