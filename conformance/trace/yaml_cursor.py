"""A place in a parsed file: the value there, the way to it, and reading it as what it must be.

Every method raises TraceError with file, line and path where the value is something else.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeVar

from conformance.errors import TraceError
from conformance.trace.exact_numbers import setting, whole
from conformance.trace.yaml_tree import Parsed, Path, Tree, short

NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
"""Names of inputs and sequences, which stand in references such as `x[0:5]` and `first.output`."""
HANDLE = r"[A-Za-z_][!-~]*"
"""Names of parameters: ASCII, no space, a letter first."""
TITLE = r"[A-Za-z_](?:[ -~]*[!-~])?"
"""Names of layers and caches, inside which spaces may stand."""
REQUIREMENT = r"[A-Z0-9]+(?:-[A-Z0-9]+)+"

T = TypeVar("T")


def listed(names: Collection[str]) -> str:
    """Names as an error lists them, not more than a screen of them."""
    shown = [name for _, name in zip(range(40), names, strict=False)]
    return (", ".join(shown) + (", ..." if len(names) > len(shown) else "")) or "none"


@dataclass(frozen=True, slots=True)
class Cursor:
    """One entry of a parsed file."""

    parsed: Parsed
    value: Tree
    path: Path = ()

    def error(self, problem: str) -> TraceError:
        """The error to raise for this entry."""
        return self.parsed.error(problem, self.path)

    def _wrong(self, wanted: str) -> TraceError:
        if isinstance(self.value, str):
            found = short(self.value)
        else:
            found = "a mapping" if isinstance(self.value, dict) else "a list"
        return self.error(f"found {found}; it must be {wanted}")

    def entries(self, pattern: str = r"[^\n]{1,120}") -> dict[str, Cursor]:
        """The entries of a mapping whose keys are names of the author's choice."""
        if not isinstance(self.value, dict):
            raise self._wrong("a mapping")
        for key in self.value:
            if not re.fullmatch(pattern, key):
                raise self.parsed.error(f"this key is no name; a name matches {pattern}", (*self.path, key))
        return {key: Cursor(self.parsed, value, (*self.path, key)) for key, value in self.value.items()}

    def fields(self, required: Collection[str], optional: Collection[str] = ()) -> dict[str, Cursor]:
        """The entries of a mapping whose keys are fixed: all of `required`, any of `optional`, no other."""
        if not isinstance(self.value, dict):
            raise self._wrong(f"a mapping with {', '.join(required) or ', '.join(optional)}")
        for key in self.value:
            if key not in required and key not in optional:
                known = (*required, *optional)
                near = [] if len(key) > 60 else difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known here: {listed(known)}"
                raise self.parsed.error(f"unknown key; {hint}", (*self.path, key))
        for key in required:
            if key not in self.value:
                raise self.error(f"the key {key!r} is missing")
        return {key: Cursor(self.parsed, value, (*self.path, key)) for key, value in self.value.items()}

    def items(self) -> list[Cursor]:
        """The entries of a list."""
        if not isinstance(self.value, list):
            raise self._wrong("a list")
        return [Cursor(self.parsed, value, (*self.path, i)) for i, value in enumerate(self.value)]

    def text(self) -> str:
        """Any string."""
        if not isinstance(self.value, str):
            raise self._wrong("a string")
        return self.value

    def match(self, pattern: str, wanted: str) -> re.Match[str]:
        """A string of that form."""
        found = re.fullmatch(pattern, self.value) if isinstance(self.value, str) else None
        if found is None:
            raise self._wrong(wanted)
        return found

    def choice(self, choices: Collection[str]) -> str:
        """One of a few words."""
        if not isinstance(self.value, str) or self.value not in choices:
            raise self._wrong(f"one of {', '.join(choices)}" if len(choices) > 1 else repr(*choices))
        return self.value

    def known(self, table: Mapping[str, T], what: str) -> T:
        """What a name stands for."""
        if self.text() not in table:
            raise self.error(f"there is no {what} {short(self.text())}; there is {listed(table)}")
        return table[self.text()]

    def words(self, pattern: str = r"[!-~]+") -> tuple[str, ...]:
        """Words with one space between them; the empty string is no word."""
        words = tuple(self.text().split(" ")) if self.text() else ()
        for word in words:
            if not re.fullmatch(pattern, word):
                raise self._wrong("words with exactly one space between them")
        return words

    def titles(self) -> tuple[str, ...]:
        """Names of caches: words, or a list where a name has spaces."""
        if isinstance(self.value, list):
            return tuple(entry.match(TITLE, "a name")[0] for entry in self.items())
        return self.words(HANDLE)

    def truth(self) -> bool:
        """`true` or `false`."""
        return self.choice(("true", "false")) == "true"

    def integer(self, minimum: int | None = None) -> int:
        """A whole number, at least `minimum`."""
        number = self.read(whole)
        if minimum is not None and number < minimum:
            raise self.error(f"{number} is too small; it must be at least {minimum}")
        return number

    def integers(self) -> tuple[int, ...]:
        """Whole numbers with one space between them."""
        return self.read(lambda text: tuple(whole(token) for token in text.split(" ")) if text else ())

    def setting(self) -> float:
        """A finite number, rounded once to float64."""
        return self.read(setting)

    def settings(self, count: int) -> tuple[float, ...]:
        """So many finite numbers, each rounded once to float64."""
        numbers = self.read(lambda text: tuple(setting(token) for token in text.split(" ")))
        if len(numbers) != count:
            raise self.error(f"{len(numbers)} numbers; there must be {count}")
        return numbers

    def read(self, convert: Callable[[str], T]) -> T:
        """The string here, converted; a ValueError becomes an error with its place."""
        try:
            return convert(self.text())
        except TraceError:
            raise
        except ValueError as problem:
            raise self.error(str(problem)) from None
