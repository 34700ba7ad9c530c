"""The conformance kit for KV caches.

`check(adapter)` holds an implementation against the contract and returns a `Report`. The names below are
imported when they are first used, so that importing the package, or loading its pytest plugin in a run
that does not use it, brings in neither numpy nor yaml nor mpmath nor hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "AttentionAdapter": "conformance.adapter",
    "AttentionConfig": "conformance.values",
    "CONTRACT_VERSION": "conformance.contract",
    "Declaration": "conformance.adapter",
    "DecoderAdapter": "conformance.adapter",
    "DecoderConfig": "conformance.values",
    "LayerAdapter": "conformance.adapter",
    "LayerConfig": "conformance.values",
    "LayerParameters": "conformance.values",
    "Observation": "conformance.values",
    "Precision": "conformance.adapter",
    "Rejected": "conformance.rejections",
    "Report": "conformance.report",
    "RopeConfig": "conformance.values",
    "Step": "conformance.values",
    "StoreAdapter": "conformance.adapter",
    "StoreConfig": "conformance.values",
    "Trace": "conformance.trace.model",
    "Verdict": "conformance.verdict",
    "Work": "conformance.values",
    "check": "conformance.check",
    "conformance": "conformance.plugin",
    "load_trace": "conformance.trace.yaml",
}

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604 - names, as computed from the table above

if TYPE_CHECKING:
    from conformance.adapter import (
        AttentionAdapter,
        Declaration,
        DecoderAdapter,
        LayerAdapter,
        Precision,
        StoreAdapter,
    )
    from conformance.check import check
    from conformance.contract import CONTRACT_VERSION
    from conformance.plugin import conformance
    from conformance.rejections import Rejected
    from conformance.report import Report
    from conformance.trace.model import Trace
    from conformance.trace.yaml import load_trace
    from conformance.values import (
        AttentionConfig,
        DecoderConfig,
        LayerConfig,
        LayerParameters,
        Observation,
        RopeConfig,
        Step,
        StoreConfig,
        Work,
    )
    from conformance.verdict import Verdict


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
