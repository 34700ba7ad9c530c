"""A loaded trace file: its named parts, and one trace for each of its schedules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from numpy.typing import NDArray

from conformance.errors import TraceError
from conformance.trace.exact_numbers import exact_fraction, golden_fraction
from conformance.trace.model import CacheSpec, Derived, Source, Trace
from conformance.trace.yaml_sequences import Sequence


@dataclass(frozen=True, eq=False)
class Document:
    """A trace file. Arrays are float64 and read-only; `tree` holds every string as it stands in the file.

    inputs, layers, caches, sequences: by name. bound: the absolute bound where the promise of 1e-12 is not
    provable. kappa: the largest condition number of arithmetic, None where the file states none.
    """

    id: str
    level: str
    about: str
    source: Mapping[str, str]
    inputs: Mapping[str, NDArray[Any]]
    layers: Mapping[str, Source | Derived]
    caches: Mapping[str, CacheSpec]
    sequences: Mapping[str, Sequence]
    bound: float | None
    kappa: float | None
    tree: Mapping[str, Any]
    file: str = ""
    _traces: tuple[Trace, ...] = field(default=(), repr=False)

    def traces(self) -> tuple[Trace, ...]:
        """One trace for each schedule, in the order of the file; the id is `<id>/<schedule>`."""
        return self._traces

    def trace(self, schedule: str) -> Trace:
        """The trace of one schedule. Raises TraceError that names the schedules there are."""
        for trace in self._traces:
            if trace.id == f"{self.id}/{schedule}":
                return trace
        names = ", ".join(trace.id.rpartition("/")[2] for trace in self._traces)
        raise TraceError(f"no schedule {schedule!r}; there is {names}", file=self.file, path="schedules")

    def rows(self, name: str) -> tuple[str, ...]:
        """The rows of an array as they stand in the file.

        name: an input (`x`), a parameter (`main.query`) or an exact array (`first.output`). Raises KeyError.
        """
        return tuple(self._array(name)["rows"])

    def exact(self, name: str) -> tuple[Fraction, ...]:
        """The numbers of such an array as printed, row by row, without the zeros that weights leave out."""
        convert = golden_fraction if name.partition(".")[0] in self.sequences else exact_fraction
        return tuple(convert(token) for row in self.rows(name) for token in row.split(" ") if token)

    def _array(self, name: str) -> Mapping[str, Any]:
        owner, _, part = name.partition(".")
        if not part:
            return self.tree["inputs"][name]  # type: ignore[no-any-return]
        if owner in self.sequences:
            return self.tree["sequences"][owner]["exact"][part]  # type: ignore[no-any-return]
        return self.tree["layers"][owner]["parameters"][part]  # type: ignore[no-any-return]
