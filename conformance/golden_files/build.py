"""Every golden file by its place in the folder, and the tree that it must hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from conformance.golden_files.catalog import Catalog
from conformance.golden_files.chapter_37 import chapter_37_document
from conformance.golden_files.chapter_38 import chapter_38_document
from conformance.golden_files.documents import derived_document
from conformance.golden_files.fixtures import Fixture, derived
from conformance.golden_files.forge import forge_document
from conformance.golden_files.numbers import Tree
from conformance.trace.yaml_tree import Parsed, parse

Builder = Callable[[Parsed, str], tuple[Tree, int]]
"""From the file as it stands, for its quotations, and the name of a proof, to a tree and how many numbers."""

Progress = Callable[[str], None]
"""Called with a line of text whenever a file is done."""


def builders() -> Mapping[str, Builder]:
    """The builder of each file, by `folder/name.yaml`, in the order in which they are made."""
    return {
        "published/ch37.yaml": chapter_37_document,
        "published/ch38.yaml": chapter_38_document,
        "published/forge.yaml": forge_document,
        **{f"derived/{fixture.id}.yaml": partial(_derived, fixture) for fixture in derived()},
    }


def fresh_tree(place: Catalog, file: str, *, proof: str) -> tuple[Tree, int]:
    """One golden file computed anew, and how many numbers were proved for it.

    Published figures are taken from the file in `place`. Raises ConformanceError where a value cannot be
    certified, TraceError where a published figure is missing or contradicts the exact value.
    """
    given = Parsed({}, file)
    if file.startswith("published/"):
        given = parse(place.text(file), f"{place.shown}/{file}")
    return builders()[file](given, proof)


def _derived(fixture: Fixture, _: Parsed, proof: str) -> tuple[Tree, int]:
    return derived_document(fixture, proof=proof)

