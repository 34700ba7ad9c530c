"""Finding, verifying and loading the golden files that ship with the package, or those of another folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from conformance.adapter import Declaration
from conformance.errors import TraceError, UsageError
from conformance.golden_files.manifest import (
    MANIFEST,
    Difference,
    Entry,
    deviations,
    digest,
    read_manifest,
)
from conformance.trace.expect import Refused
from conformance.trace.model import Trace
from conformance.trace.yaml import Document
from conformance.trace.yaml import load as load_document

FOLDERS = ("published", "derived")


@dataclass(frozen=True)
class Catalog:
    """The golden files of one folder; `shown` is how messages name it."""

    root: Traversable
    shown: str

    def manifest_text(self) -> str:
        """The manifest. Raises TraceError where there is none."""
        try:
            return (self.root / MANIFEST).read_text("utf-8")
        except OSError as missing:
            raise TraceError(
                f"there is no manifest here ({missing}); without it no golden file can be trusted",
                file=self.shown,
            ) from None

    def entries(self) -> dict[str, Entry]:
        """What the manifest records, by `folder/name.yaml`."""
        return read_manifest(self.manifest_text(), f"{self.shown}/{MANIFEST}")

    def text(self, file: str) -> str:
        """The text of `folder/name.yaml`. Raises TraceError where it cannot be read."""
        folder, _, name = file.partition("/")
        try:
            return (self.root / folder / name).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as problem:
            raise TraceError(f"the file cannot be read: {problem}", file=f"{self.shown}/{file}") from None

    def present(self) -> Iterator[str]:
        """Every YAML file that stands in the folders, in the manifest or not."""
        for folder in FOLDERS:
            place = self.root / folder
            if place.is_dir():
                names = sorted(entry.name for entry in place.iterdir())
                yield from (f"{folder}/{name}" for name in names if name.endswith(".yaml"))

    def verify(self, file: str, entry: Entry) -> Iterator[Difference]:
        """Where a file is not what the manifest records."""
        return deviations(f"{self.shown}/{file}", self.text(file), entry)

    def load(self, file: str, entry: Entry) -> Document:
        """The document of a file. Raises TraceError for the first place that the manifest does not know."""
        text = self.text(file)
        if digest(text) != entry.sha256:
            first = next(iter(deviations(f"{self.shown}/{file}", text, entry)))
            raise TraceError(first.problem, file=first.file, line=first.line, path=first.path)
        return load_document(text, file=f"{self.shown}/{file}")


def catalog(directory: str | Path | None = None) -> Catalog:
    """The files of `directory`, by default those that ship with the package."""
    if directory is None:
        return Catalog(files("golden"), "golden")
    return Catalog(Path(directory), str(directory))


def names(*, directory: str | Path | None = None) -> tuple[str, ...]:
    """The golden files by name: the published ones first, then the derived ones."""
    return tuple(_by_name(catalog(directory)))


def load(name: str, *, directory: str | Path | None = None) -> Document:
    """One golden file, verified against the manifest.

    Raises UsageError for a name that does not exist, TraceError with file, line and path for a file that is
    missing, changed or wrong.
    """
    place = catalog(directory)
    found = _by_name(place)
    if name not in found:
        raise UsageError(f"there is no golden file {name!r}; there are {', '.join(found)}")
    file, entry = found[name]
    return place.load(file, entry)


def traces(declaration: Declaration, *, directory: str | Path | None = None) -> Iterator[Trace]:
    """Every schedule of every golden file that can be asked of this declaration, in a fixed order.

    Those of its levels whose features it declares; a refusal of two rows at once is asked only of an
    implementation that takes one row a call, that of a full cache only where the capacity is the one asked
    for, a cache without a capacity only of one that grows. Raises TraceError as `load` does.
    """
    for name in names(directory=directory):
        document = _shipped(name) if directory is None else load(name, directory=directory)
        if document.level in declaration.levels:
            yield from (trace for trace in document.traces() if _can_be_asked(trace, declaration))


@cache
def _shipped(name: str) -> Document:
    """A golden file of the package, read and verified once; a document does not change."""
    return load(name)


def _can_be_asked(trace: Trace, declaration: Declaration) -> bool:
    refused = [e.kinds for step in trace.steps for e in step.expect if isinstance(e, Refused)]
    if "chunks" in declaration.features and ("single_token_required",) in refused:
        return False
    if declaration.capacity != "exact" and ("full",) in refused:
        return False
    if declaration.capacity != "growing" and any(cache.capacity is None for cache in trace.caches.values()):
        return False
    return trace.needs <= declaration.features


def digest_of_all(*, directory: str | Path | None = None) -> str:
    """A digest of every golden file at once: that of the manifest, which holds the digest of each."""
    return digest(catalog(directory).manifest_text())


def _by_name(place: Catalog) -> dict[str, tuple[str, Entry]]:
    entries = place.entries()
    ordered = sorted(entries, key=lambda file: (FOLDERS.index(PurePosixPath(file).parts[0]), file))
    return {PurePosixPath(file).stem: (file, entries[file]) for file in ordered}
