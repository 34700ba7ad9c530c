"""Making the golden files anew, all or none."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from conformance.errors import ConformanceError
from conformance.golden_files.build import Progress, builders, fresh_tree
from conformance.golden_files.catalog import FOLDERS, Catalog, catalog, load, names
from conformance.golden_files.manifest import MANIFEST, manifest_tree
from conformance.trace.yaml import dump


def regenerate(
    target: str | Path, *, proof: str = "interval", accept_figures: bool = False, progress: Progress = print
) -> tuple[str, ...]:
    """Compute every golden file and the manifest, and replace those in `target`; returns the files written.

    Everything is written beside `target` first and loaded from there; only then are the files replaced, and
    put back should one of them fail. Published figures are carried over from `target`, and refused where the
    manifest does not know them, unless `accept_figures` says that they were changed on purpose.
    Raises ConformanceError, with nothing changed.
    """
    folder = Path(target).resolve()
    place = catalog(folder)
    if not accept_figures:
        _require_known_figures(place)
    texts = {}
    for number, file in enumerate(builders(), start=1):
        tree, count = fresh_tree(place, file, proof=proof)
        texts[file] = dump(tree)
        progress(f"[{number}/{len(builders())}] {file}: {count} numbers proved")
    texts[MANIFEST] = dump(manifest_tree(dict(texts)))
    with tempfile.TemporaryDirectory(prefix=".golden-", dir=folder.parent) as scratch:
        fresh, kept = Path(scratch) / "fresh", Path(scratch) / "kept"
        _write(fresh, texts)
        for name in names(directory=fresh):
            load(name, directory=fresh).traces()
        progress(f"{len(texts)} files written and loaded; replacing those in {folder}")
        _exchange(folder, fresh, kept, texts)
    return tuple(sorted(texts))


def shipped_folder() -> Path:
    """The folder of the golden files that ship with the package. Raises ConformanceError where it is none."""
    folder = files("golden")
    if not isinstance(folder, Path):
        raise ConformanceError(
            f"the golden files are not in a plain folder ({folder}); name one with --directory"
        )
    return folder


def _require_known_figures(place: Catalog) -> None:
    for file, entry in place.entries().items():
        if file.startswith("published/"):
            for difference in place.verify(file, entry):
                raise ConformanceError(
                    f"{difference}. Published figures are quotations; they are carried over and must not "
                    f"change unseen: restore the file, or, where a quotation was wrong, say --accept-figures"
                )


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    for file, text in texts.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8", newline="\n")


def _exchange(folder: Path, fresh: Path, kept: Path, texts: Mapping[str, str]) -> None:
    """Move the fresh files in and those they replace out; on any failure move everything back."""
    gone = [file for file in _present(folder) if file not in texts]
    moved: list[str] = []
    try:
        for file in (*gone, *texts):
            moved.append(file)
            if (folder / file).exists():
                (kept / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(folder / file, kept / file)
            if file in texts:
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (fresh / file).replace(folder / file)
            else:
                (folder / file).unlink()
    except BaseException:
        for file in moved:
            if (kept / file).exists():
                (kept / file).replace(folder / file)
            elif file in texts:
                (folder / file).unlink(missing_ok=True)
        raise


def _present(folder: Path) -> list[str]:
    return [f"{name}/{path.name}" for name in FOLDERS for path in sorted((folder / name).glob("*.yaml"))]
