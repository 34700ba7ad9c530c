"""What kind of look a check was, so that it can be asked which looks find anything."""

from __future__ import annotations

from conformance.trace.expect import Close, Custom, Declares, Expectation, Same

FRAME = "frame"
"""What every accepted call must leave alone."""

ASTRAY = "went astray"
"""The call raised, or was refused although it is lawful."""


def kind_of(expectation: Expectation) -> str:
    """Such as `close output`, `same keys`, `refused`, or the name of a rule."""
    if isinstance(expectation, Custom):
        return expectation.rule.replace("_", " ")
    name = type(expectation).__name__.lower()
    if isinstance(expectation, Close | Same):
        # Of `keys:twin/0=keys:main/0` the caches are left out: it is one look wherever it is taken.
        return f"{name} {expectation.field.partition('=')[0].partition(':')[0]}"
    return f"{name} {expectation.figure}" if isinstance(expectation, Declares) else name
