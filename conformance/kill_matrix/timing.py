"""How long one faulty implementation stays unnoticed in the gate that a user runs."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from conformance.judge import judge
from conformance.kill_matrix.run import Subject
from conformance.player import play
from conformance.suite import traces


def seconds_to_first_finding(subject: Subject) -> float:
    """Processor seconds to the first finding, the making of traces included; infinite where there is none."""
    begun = time.process_time()
    adapter: Any = subject.make()
    for trace in traces(adapter.declaration):
        found = judge(play(trace, adapter), adapter.declaration)
        if any(check.status in ("fail", "error") for check in found):
            return time.process_time() - begun
    return float("inf")


def median_seconds(subjects: tuple[Subject, ...]) -> float:
    """The median over these implementations, one after the other in this process."""
    return median(seconds_to_first_finding(subject) for subject in subjects)
