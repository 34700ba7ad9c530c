"""In what a killer is another class than the clean one that it is made from, and which traces call that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from types import FunctionType
from typing import Any

WITHOUT_EFFECT = frozenset({"name", "__doc__", "__module__", "__qualname__", "__annotations__"})
"""What a class may hold of its own and still behave as the one that it is made from."""

FORMS = frozenset({"one_row"})
"""What the clean class may be given another value of, and be clean."""

LISTS = frozenset({"checks", "prefill_checks", "decode_checks", "binding_checks", "finite_stages", "dropped"})
"""Which checks are made, in which order: where none refuses, fewer or in another order they do the same."""

REFUSED = "a refusal"
"""Noted beside the methods where something was raised."""


def changed_places(adapter: type, clean: type) -> frozenset[str] | None:
    """Where a class may be another than the clean one: methods called, refusals. None: anywhere."""
    changed: set[str] = set()
    for kind in adapter.__mro__[: adapter.__mro__.index(clean)]:
        for name, own in vars(kind).items():
            if name in WITHOUT_EFFECT or name in FORMS or _is_note(name, own, clean):
                continue
            if isinstance(own, FunctionType) and not name.startswith("__"):
                changed.add(name)
            elif name in LISTS and isinstance(own, tuple) and (name == "dropped" or _fewer(name, own, clean)):
                changed.add(REFUSED)
            else:
                return None
    return frozenset(changed)


def own_names(adapter: Any, clean: type) -> frozenset[str]:
    """Everything that an adapter has of its own."""
    kinds = type(adapter).__mro__
    names: set[str] = set(vars(adapter))
    return frozenset(names.union(*(vars(kind) for kind in kinds[: kinds.index(clean)])))


def _is_note(name: str, own: Any, clean: type) -> bool:
    """Whether this is a value that the clean class does not know, so that none of its methods reads it."""
    return isinstance(own, str | int | tuple) and not name.startswith("__") and not hasattr(clean, name)


def _fewer(name: str, own: tuple[Any, ...], clean: type) -> bool:
    return set(own) <= set(getattr(clean, name))


def noting_class(clean: type, form: Mapping[str, Any], called: set[str]) -> type:
    """The clean class, noting every method that is called or looked for, and whether one raised."""

    def noting(name: str, method: FunctionType) -> Callable[..., Any]:
        @wraps(method)
        def noted(*given: Any, **named: Any) -> Any:
            called.add(name)
            try:
                return method(*given, **named)
            except BaseException:
                called.add(REFUSED)
                raise

        return noted

    def missing(_: Any, name: str) -> Any:
        called.add(name)
        raise AttributeError(name)

    own = {
        name: noting(name, method)
        for kind in reversed(clean.__mro__)
        for name, method in vars(kind).items()
        if isinstance(method, FunctionType) and not name.startswith("__")
    }
    return type(f"Noting{clean.__name__}", (clean,), {**own, **form, "__getattr__": missing})
