"""The golden files: traces with frozen, certified expectations, and how they are made and checked.

    names()                  which there are
    load(name)               one of them, verified against the manifest
    traces(declaration)      the schedules that can be asked of an implementation
    show(name)               the same for a person to read
    check()                  where they differ from a fresh computation
    regenerate(folder)       make them anew, all or none

Only `check` and `regenerate` compute anything, and only they import mpmath. The names are imported when they
are first used, so that a command line that merely lists its commands stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Difference": "conformance.golden_files.manifest",
    "check": "conformance.golden_files.verification",
    "digest_of_all": "conformance.golden_files.catalog",
    "load": "conformance.golden_files.catalog",
    "names": "conformance.golden_files.catalog",
    "regenerate": "conformance.golden_files.regeneration",
    "show": "conformance.golden_files.display",
    "traces": "conformance.golden_files.catalog",
}

__all__ = ["Difference", "check", "digest_of_all", "load", "names", "regenerate", "show", "traces"]

if TYPE_CHECKING:
    from conformance.golden_files.catalog import digest_of_all, load, names, traces
    from conformance.golden_files.display import show
    from conformance.golden_files.manifest import Difference
    from conformance.golden_files.regeneration import regenerate
    from conformance.golden_files.verification import check


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value
