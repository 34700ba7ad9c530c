"""`@conformance(factory)` on a test of one's own, and the weight of the plugin's module."""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import Report, conformance, diagnosis
from tests.small_layer import Raises, SmallLayer, StuckPosition, factory_raises

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def undiagnosed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a failure looks like is of no interest here, and takes time."""
    monkeypatch.setattr(diagnosis, "explain", lambda *_: ())


def test_a_test_of_a_right_cache_runs_and_is_given_the_report() -> None:
    seen: list[object] = []

    @conformance(SmallLayer, profile="core")
    def own(report: Report, other: int) -> None:
        seen.extend((report, other))

    own(other=3)
    assert isinstance(seen[0], Report)
    assert seen[0].verdict.text == "conformant"
    assert seen[1] == 3
    assert list(inspect.signature(own).parameters) == ["other"], (
        "pytest must not look for a fixture named report"
    )


def test_a_test_of_a_wrong_cache_fails_with_the_report_before_it_runs() -> None:
    @conformance(StuckPosition, profile="core")
    def own() -> None:
        raise AssertionError("must not be reached")

    with pytest.raises(pytest.fail.Exception, match="POSITION-OFFSET") as caught:
        own()
    assert caught.value.pytrace is False
    assert "not conformant: tests.small_layer:StuckPosition" in str(caught.value)


@pytest.mark.parametrize(
    ("adapter", "profile"), [(factory_raises, None), (Raises, "core"), ("gone:make", None)]
)
def test_what_is_incomplete_fails_too(adapter: object, profile: str | None) -> None:
    @conformance(adapter, profile)
    def own() -> None:
        raise AssertionError("must not be reached")

    with pytest.raises(pytest.fail.Exception, match="incomplete: "):
        own()


def test_under_pytest_with_fixtures_classes_and_strict_markers(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(
        """
        from conformance import conformance
        from tests.small_layer import SmallLayer, StuckPosition

        @conformance(SmallLayer, profile="gqa")
        def test_right(report, tmp_path):
            assert report.planned > 50 and tmp_path.is_dir()

        class TestOwn:
            @conformance(SmallLayer, profile=["gqa"])
            def test_method(self, report):
                assert report.adapter == "tests.small_layer:SmallLayer"

        @conformance(StuckPosition, profile="gqa")
        def test_wrong(): ...

        def test_plain(): ...
        """
    )
    with_plugin = pytester.runpytest_subprocess(
        "-p", "conformance.plugin", "--strict-markers", "-m", "kv_conformance", "-W", "error", timeout=120
    )
    with_plugin.assert_outcomes(passed=2, failed=1, deselected=1)
    with_plugin.stdout.fnmatch_lines(
        ["GQA-ORDER  fail", "*not conformant: tests.small_layer:StuckPosition; gqa: *"]
    )
    assert "Traceback" not in with_plugin.stdout.str()
    without = pytester.runpytest_subprocess("--strict-markers", "-k", "right", timeout=120)
    without.assert_outcomes(passed=1, deselected=3)


def test_the_module_is_light() -> None:
    code = (
        "import sys, time, pytest, inspect, functools\n"
        "before = set(sys.modules)\n"
        "begun = time.perf_counter()\n"
        "import conformance.plugin\n"
        "print(time.perf_counter() - begun)\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
        ).stdout
        for _ in range(5)
    ]
    assert min(float(run.splitlines()[0]) for run in runs) < 0.005
    assert runs[0].splitlines()[1] == "conformance conformance.plugin"
