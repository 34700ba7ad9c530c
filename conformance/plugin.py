"""The pytest plugin: `pytest --kv-adapter ADAPTER`, and the decorator `@conformance(factory)`.

Nothing but the standard library and pytest is imported here, and nothing happens until an adapter is asked
for: the rest lives in `conformance.pytest_items` and is loaded then.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

MARKERS = {
    "kv_conformance": "an item of the conformance kit for KV caches, or a test under its decorator",
    "kv_verdict": "an item that judges a requirement or a profile over all its traces",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options in a group of their own; each has an ini key of the same name."""
    group = parser.getgroup("kv-conformance", "conformance of KV caches")
    group.addoption(
        "--kv-adapter",
        metavar="ADAPTER",
        help="collect the conformance suite for this implementation: pkg.mod:factory, "
        "path/to/file.py:factory, a built-in name such as numpy, or cmd:./driver. First make one trace pass "
        "(-k TRACE), then all; in CI select nothing, so that the items verdict[...] judge the whole profile.",
    )
    group.addoption(
        "--kv-profile",
        metavar="PROFILE",
        action="append",
        help="hold it to this profile; may be given again (default: what the declaration opens)",
    )
    group.addoption(
        "--kv-seed",
        metavar="N",
        type=int,
        help="draw the twins of the golden traces from N; else from a number that the header tells",
    )
    parser.addini("kv_adapter", "the same as --kv-adapter", type="string", default="")
    parser.addini("kv_profile", "the same as --kv-profile, one or several", type="args", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; where an adapter is asked for, also the collector of its items."""
    for name, about in MARKERS.items():
        config.addinivalue_line("markers", f"{name}: {about}")
    asked = config.getoption("--kv-adapter") or config.getini("kv_adapter")
    if asked:
        from conformance.pytest_items.hooks import Hooks  # noqa: PLC0415 - only where it is used

        profiles = config.getoption("--kv-profile") or config.getini("kv_profile")
        config.pluginmanager.register(Hooks(config, asked, tuple(profiles)), "kv-conformance-items")


def conformance(
    adapter: Any, profile: str | Sequence[str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a test: it fails with the report unless `check(adapter, profile)` is conformant.

    adapter: an adapter, a factory of one, or a name, as for `check`. A test that has a parameter named
    `report` is given the `Report` of the conformant run; other fixtures are passed as always.
    """

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(test)

        @functools.wraps(test)
        def checked(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            from conformance.check import check  # noqa: PLC0415 - only when the test runs
            from conformance.report.text import report_text  # noqa: PLC0415

            report = check(adapter, profile)
            if report.verdict.text != "conformant":
                pytest.fail(report_text(report), pytrace=False)
            if "report" in signature.parameters:
                kwargs["report"] = report
            return test(*args, **kwargs)

        others = [p for name, p in signature.parameters.items() if name != "report"]
        checked.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return _marked(checked)

    return decorate


def _marked(test: Callable[..., Any]) -> Callable[..., Any]:
    try:
        marked: Callable[..., Any] = pytest.mark.kv_conformance(test)
    except pytest.fail.Exception:
        # Markers are strict and the plugin is switched off: the decorator works without one.
        return test
    return marked
