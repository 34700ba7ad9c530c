"""Checking that the golden files are what a fresh computation gives."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from conformance.errors import ConformanceError, TraceError, UsageError
from conformance.golden_files.build import Progress, builders, fresh_tree
from conformance.golden_files.catalog import Catalog, catalog
from conformance.golden_files.manifest import Difference
from conformance.trace.yaml_tree import Parsed, parse, show
from conformance.trace.yaml_tree import Path as TreePath

INFORMATIVE = (("provenance", "oracle"), ("provenance", "certificate"), ("provenance", "radius_log2"))
"""What names tools and their versions; it may differ from one machine to the next."""


def check(
    names: Collection[str] = (),
    *,
    directory: str | Path | None = None,
    proof: str = "interval",
    progress: Progress = print,
) -> list[Difference]:
    """Where the golden files differ from a fresh computation or from the manifest; empty where all agree.

    Every file is held against the manifest line by line; those named (none: all) are computed anew and
    compared entry by entry: inputs, weights, exact values, kappa, schedules, published figures. Tool
    versions are not compared. Raises UsageError for a name that does not exist.
    """
    chosen = _chosen(names)
    place = catalog(directory)
    try:
        found = list(_against_manifest(place))
    except TraceError as problem:
        return [_as_difference(problem)]
    progress(f"manifest: {counted(len(found))}")
    for number, file in enumerate(chosen, start=1):
        differences, count = _against_fresh(place, file, proof)
        done = f"[{number}/{len(chosen)}] {file}"
        progress(f"{done}: {count} numbers proved, {counted(len(differences))}")
        found += differences
    return _without_doubles(found)


def counted(differences: int) -> str:
    """How many differences, in words."""
    return "1 difference" if differences == 1 else f"{differences} differences"


def _chosen(names: Collection[str]) -> list[str]:
    by_name = {PurePosixPath(file).stem: file for file in builders()}
    for name in names:
        if name not in by_name:
            raise UsageError(f"there is no golden file {name!r}; there are {', '.join(by_name)}")
    return [file for name, file in by_name.items() if not names or name in names]


def _against_manifest(place: Catalog) -> Iterator[Difference]:
    entries = place.entries()
    present = set(place.present())
    for file, entry in entries.items():
        if file in present:
            yield from place.verify(file, entry)
        else:
            yield Difference(f"{place.shown}/{file}", "the manifest records this file, but it is not there")
    for file in sorted(present - set(entries)):
        yield Difference(f"{place.shown}/{file}", "the manifest does not know this file; remove it")


def _against_fresh(place: Catalog, file: str, proof: str) -> tuple[list[Difference], int]:
    shown = f"{place.shown}/{file}"
    try:
        parsed = parse(place.text(file), shown)
        fresh, count = fresh_tree(place, file, proof=proof)
    except TraceError as problem:
        return [_as_difference(problem)], 0
    except ConformanceError as problem:
        return [Difference(shown, str(problem))], 0
    return list(_differing(parsed, parsed.tree, fresh, ())), count


def _differing(parsed: Parsed, given: object, fresh: object, path: TreePath) -> Iterator[Difference]:
    if path in INFORMATIVE:
        return
    if isinstance(given, dict) and isinstance(fresh, dict):
        for key in (*fresh, *(key for key in given if key not in fresh)):
            if key in given and key in fresh:
                yield from _differing(parsed, given[key], fresh[key], (*path, key))
            else:
                where = "stands in the file only" if key in given else "is missing in the file"
                yield _difference(parsed, (*path, key), f"a fresh computation differs: this entry {where}")
    elif isinstance(given, list) and isinstance(fresh, list):
        for index, (one, other) in enumerate(zip(given, fresh, strict=False)):
            yield from _differing(parsed, one, other, (*path, index))
        if len(given) != len(fresh):
            problem = f"the file has {len(given)} entries, a fresh computation {len(fresh)}"
            yield _difference(parsed, path, problem)
    elif given != fresh:
        yield _difference(parsed, path, _values(given, fresh))


def _values(given: object, fresh: object) -> str:
    """What differs between two strings of numbers, or two other entries."""
    if isinstance(given, str) and isinstance(fresh, str):
        numbers, others = given.split(" "), fresh.split(" ")
        if len(numbers) == len(others) > 1:
            pairs = enumerate(zip(numbers, others, strict=True))
            column, (one, other) = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
            return f"number {column} is {one}, a fresh computation gives {other}"
    return f"it is {given!r}, a fresh computation gives {fresh!r}"


def _difference(parsed: Parsed, path: TreePath, problem: str) -> Difference:
    return Difference(parsed.file, problem, parsed.line(path), show(path))


def _as_difference(problem: TraceError) -> Difference:
    return Difference(problem.file, problem.problem, problem.line, problem.path)


def _without_doubles(found: list[Difference]) -> list[Difference]:
    """A changed digit shows in the manifest and in the fresh computation; the second says more."""
    explained = {(one.file, one.line) for one in found if "manifest records" not in one.problem}
    return [
        one for one in found
        if "manifest records" not in one.problem or (one.file, one.line) not in explained
    ]
