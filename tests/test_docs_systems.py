"""The pages of the systems name requirements, killers and adapters that exist, and leave none out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from conformance.adapters.naming import BUILT_IN
from conformance.contract import PROFILES, all_requirements
from conformance.killers import killers

DOCS = Path(__file__).parent.parent / "docs"
PAGES = sorted((DOCS / "systems").glob("*.md"))
SYSTEMS = {
    "full-prefix-attention", "incremental-attention", "paged-attention", "prefill-then-decode", "forge",
    "layer-cache", "decoder-session",
}  # fmt: skip
IDS = re.compile(r"`([A-Z][A-Z0-9]+(?:-[A-Z0-9]+)+)`")


def test_each_system_has_its_page_and_the_index_names_it() -> None:
    assert {page.stem for page in PAGES} == SYSTEMS
    index = (DOCS / "systems.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\(systems/([a-z-]+)\.md\)", index)) == SYSTEMS
    assert set(re.findall(r"`(numpy[a-z-]*|forge[a-z-]*|exact[a-z-]*)`", index)) <= set(BUILT_IN)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_requirements_that_exist(page: Path) -> None:
    named = set(IDS.findall(page.read_text(encoding="utf-8")))
    assert named
    assert named <= {entry.id for entry in all_requirements()}


def test_every_requirement_stands_on_some_page() -> None:
    named = {name for page in PAGES for name in IDS.findall(page.read_text(encoding="utf-8"))}
    asked = {e.id for e in all_requirements() if not e.id.startswith("INSIDE-")}
    assert asked - named == set()


def test_forge_page_names_its_killers_and_profiles() -> None:
    text = (DOCS / "systems" / "forge.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(forge_[a-z_]+)`", text))
    assert named == {k.id for k in killers() if k.id.startswith("forge_")}
    assert {"decoder", "core", "self-agreement", "chunks", "gqa"} <= set(PROFILES)


def test_links_lead_somewhere() -> None:
    for page in (*PAGES, DOCS / "systems.md", DOCS / "error-bounds-decoder.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"
