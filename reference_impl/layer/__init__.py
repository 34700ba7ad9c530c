"""The layer cache in NumPy, float64: System 1 with its whole contract.

`Layer` and `LayerCache` hold the state, `append` takes a step; `prepare` and `commit` are its two halves.
"""

from reference_impl.layer.cache import LayerCache
from reference_impl.layer.commit import commit, commit_all
from reference_impl.layer.config import PARAMETER_NAMES, LayerConfig, RopeConfig
from reference_impl.layer.history import HistoryWork, StepRecord, summarize
from reference_impl.layer.layer import Layer
from reference_impl.layer.result import Evidence, Prepared, StepResult, WorkCounts
from reference_impl.layer.step import append, check_append, prepare, prepare_unchecked
from reference_impl.layer.ticket import Ticket

__all__ = [
    "PARAMETER_NAMES",
    "Evidence",
    "HistoryWork",
    "Layer",
    "LayerCache",
    "LayerConfig",
    "Prepared",
    "RopeConfig",
    "StepRecord",
    "StepResult",
    "Ticket",
    "WorkCounts",
    "append",
    "check_append",
    "commit",
    "commit_all",
    "prepare",
    "prepare_unchecked",
    "summarize",
]
