"""Compares what was observed with what must be observed, and files each difference under a requirement."""

from conformance.judge.findings import Check, Difference
from conformance.judge.judge import judge

__all__ = ["Check", "Difference", "judge"]
