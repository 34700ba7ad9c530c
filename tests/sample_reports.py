"""Reports made by hand, for the tests of their renderings."""

from __future__ import annotations

from typing import Any

from conformance import Declaration, Report, Verdict
from conformance.contract import profile_requirements
from conformance.judge.findings import Check, Difference
from conformance.verdict import verdict

DETAIL = 'Traceback (most recent call last):\n  File "/home/me/mine.py", line 12, in append\n    boom()\n'


def difference(**changed: Any) -> Difference:
    found: dict[str, Any] = {
        "field": "output", "index": (0, 2, 3), "expected": -0.5, "observed": -0.25, "difference": 0.25,
        "bound": 1e-12, "share": 2.5e11, "ulps": 1e15, "lane": 0, "head": 1, "position": 2,
    }  # fmt: skip
    return Difference(**{**found, **changed})


def failed(name: str = "AGREE-OUTPUT", trace: str = "a/single", step: int = 2, **more: Any) -> Check:
    message = more.pop("message", "output is not the exact value within the bound")
    return Check(name, "fail", trace, step, "row 2", message, more.pop("difference", difference()), **more)


def broke(
    name: str = "AGREE-OUTPUT", trace: str = "a/single", message: str = "append raised OSError: 5"
) -> Check:
    return Check(name, "error", trace, 0, "row 0", message, None, DETAIL)


def passes(profile: str = "core", level: str = "layer", *, without: tuple[str, ...] = ()) -> list[Check]:
    """One passing check for everything that the profile lists."""
    used = difference(difference=3e-13, share=0.3)
    return [
        Check(e.id, "pass", "a/single", 0, "row 0", "", used if e.id == "AGREE-OUTPUT" else None)
        for e in profile_requirements(profile, level)
        if e.id not in without
    ]


def report(
    *checks: Check, profiles: tuple[str, ...] = ("core",), adapter: str = "mine:make", **more: Any
) -> Report:
    """The report of a run that made these checks."""
    declaration = Declaration(name="mine", features=more.pop("features", frozenset({"update_parameters"})))
    return Report(
        adapter=adapter,
        declaration=declaration,
        verdict=verdict(profiles, declaration, checks),
        checks=checks,
        **{
            "planned": 3, "reported": 3, "contract_version": "1", "digest": "abcdef0123456789",
            "environment": {"numpy": "2.0"}, "seconds": 1.25, "adapter_seconds": 0.5, **more,
        },
    )  # fmt: skip


def no_adapter() -> Report:
    """The report of a run that never had an adapter."""
    return Report(
        "gone:make",
        None,
        Verdict("incomplete", 3),
        contract_version="1",
        broken="adapter gone:make: there is no module",
    )
