"""The hooks of a run with an adapter: where the items come from, and what zero of them means."""

from __future__ import annotations

import secrets
from collections.abc import Generator
from typing import Any

import pytest

from conformance import __version__
from conformance.contract import CONTRACT_VERSION
from conformance.pytest_items.collector import ROOT, ConformanceSuite
from conformance.pytest_items.run import Run

PREFIX = f"{ROOT}::"


class Hooks:
    """Registered where an adapter is asked for. profiles () means the default of the declaration."""

    def __init__(self, config: pytest.Config, adapter: str, profiles: tuple[str, ...]) -> None:
        self.config, self.adapter, self.profiles = config, adapter, profiles
        self.explicit = bool(config.getoption("--kv-adapter"))
        self.seed = self._seed()
        self.suite: ConformanceSuite | None = None
        self.ran = 0
        self._take_own_arguments()

    def _seed(self) -> int:
        """Of the twins: asked for, or drawn once and carried to the workers of pytest-xdist."""
        carried: int | None = getattr(self.config, "workerinput", {}).get("kv_seed")
        asked: int | None = self.config.getoption("--kv-seed")
        if carried is not None:
            return carried
        return secrets.randbelow(10**6) if asked is None else asked

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """A hook of pytest-xdist: what a worker is told."""
        node.workerinput["kv_seed"] = self.seed

    def _take_own_arguments(self) -> None:
        """Let `pytest kv-conformance::TRACE[ID]` name items, as it does for tests in files.

        Such arguments are no paths, so they are taken out before pytest looks for files. The options carry
        them to the workers of pytest-xdist, which are handed the arguments that remain.
        """
        option = self.config.option
        if not hasattr(option, "kv_items"):
            option.kv_items = [a for a in self.config.args if a == ROOT or a.startswith(PREFIX)]
            option.kv_others = [a for a in self.config.args if a not in option.kv_items]
        if option.kv_items:
            self.config.args[:] = option.kv_others

    def pytest_report_header(self) -> str:
        """One line, only where an adapter is asked for."""
        seed = f"seed {self.seed} of the twins"
        return f"kv-conformance: {__version__}, contract {CONTRACT_VERSION}, adapter {self.adapter}, {seed}"

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Stand the suite beside the files that the session has found."""
        report = yield
        if isinstance(collector, pytest.Session) and report.outcome == "passed":
            self.suite = ConformanceSuite.of(collector, Run(self.adapter, self.profiles, self.seed))
            report.result = [*report.result, self.suite]
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keep only the items that were named as arguments, where some were."""
        named = self.config.option.kv_items
        if not named or ROOT in named:
            return
        others = [item for item in items if item.nodeid.startswith(PREFIX) and not _named(item.nodeid, named)]
        items[:] = [item for item in items if item not in others]
        if others:
            self.config.hook.pytest_deselected(items=others)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count what was run, wherever it ran."""
        self.ran += report.nodeid.startswith(PREFIX)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """A run that was asked for an adapter and judged nothing of it has not succeeded."""
        if hasattr(self.config, "workerinput") or self.ran or self.config.option.collectonly:
            return
        nothing = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
        if nothing or (self.explicit and exitstatus == pytest.ExitCode.OK):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            reporter = self.config.pluginmanager.get_plugin("terminalreporter")
            if reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(
                    f"kv-conformance: no item of {self.adapter} was run, which is a failure: an adapter was "
                    f"asked for; widen -k, -m or --deselect, or leave the adapter out",
                    red=True,
                )

    def pytest_unconfigure(self) -> None:
        """End the process of an external adapter."""
        if self.suite is not None:
            self.suite.run.close()


def _named(nodeid: str, named: list[str]) -> bool:
    return any(nodeid == name or nodeid.startswith(f"{name}[") for name in named)
