"""The report of a run and its renderings."""

from conformance.report.model import Report

__all__ = ["Report"]
