"""Rules that no black box can see: each with the reason and the test of ours that covers it.

They are in no profile. The tests run on the embedded NumPy layer.
"""

from __future__ import annotations

from conformance.contract.model import Requirement


def _inside(name: str, sentence: str, reason: str, test: str, *, source: str) -> Requirement:
    return Requirement(
        id=f"INSIDE-{name}",
        sentence=sentence,
        levels=("layer",),
        profiles=(),
        source=source,
        untestable=reason,
        covered_by=test,
    )


ONE_STEP = "System 1, One step"
PREPARE = "System 1, Prepare, then commit"
CALCULATION = "System 1, Rejections, during the calculation"

REQUIREMENTS: tuple[Requirement, ...] = ()
