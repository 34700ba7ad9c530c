"""The pytest plugin, each time in a pytest of its own: what is collected, selected, and how it ends."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[1]
SMALL = Path(__file__).with_name("small_layer.py")
PLUGINS = ("-p", "conformance.plugin", "-p", "no:cacheprovider")


@pytest.fixture
def folder(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty folder whose pytest loads no plugin but those that are named."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return pytester


def run(folder: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return folder.runpytest_subprocess(*PLUGINS, *arguments, timeout=120)


def text(result: pytest.RunResult) -> str:
    return result.stdout.str()


def ids(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if line.startswith("kv-conformance::")]


def test_ids_are_unique_plain_and_tell_trace_and_requirement(folder: pytest.Pytester) -> None:
    listed = ids(run(folder, "--kv-adapter", "numpy", "--collect-only", "-q"))
    assert len(listed) == len(set(listed)) > 500
    for name in listed:
        assert name.isascii()
        assert re.fullmatch(
            r"kv-conformance::([a-z0-9/.+-]+\[[A-Z0-9-]+\]|verdict\[[A-Za-z0-9-]+\])", name
        ), name
    assert "kv-conformance::mod-square/single[AGREE-OUTPUT]" in listed
    assert listed[-2:] == ["kv-conformance::verdict[strict]", "kv-conformance::verdict[gqa]"]
    assert "kv-conformance::verdict[STORE-EARLIER-ROWS]" in listed, "also what no trace names has an item"


def test_a_right_cache_passes_strictly_and_leaves_a_junit_file(folder: pytest.Pytester) -> None:
    folder.makepyfile("def test_own(): pass")
    result = run(
        folder, "--kv-adapter", f"{SMALL}:SmallLayer", "--kv-profile", "core",
        "--strict-markers", "--strict-config", "-W", "error", "--junitxml=r.xml", "-rs", "-q",
    )  # fmt: skip
    assert result.ret == 0
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] > 100
    assert outcomes.keys() <= {"passed", "skipped"}
    assert "unobserved: not declared: update_parameters" in text(result), "STALE-WEIGHTS is told, not hidden"
    written = (folder.path / "r.xml").read_text()
    assert 'name="verdict[core]"' in written
    assert 'name="kv_verdict" value="conformant"' in written


def test_a_wrong_cache_fails_with_the_report_text_and_no_traceback_of_ours(folder: pytest.Pytester) -> None:
    result = run(folder, "--kv-adapter", f"{SMALL}:StuckPosition", "-k", "append-five or verdict")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        [
            "kv-conformance: * contract *, adapter *:StuckPosition, seed * of the twins",
            "*_ append-five?POSITION-OFFSET? _*",
            "POSITION-OFFSET  fail",
            "  where       append-five, step 1 (row 1), lane 0, head 0, position 1, keys?*",
            "  expected    -*",
            "  observed    0.*",
            "  reproduce   kv-conformance replay append-five *small_layer.py:StuckPosition",
            "POSITION-OFFSET: fail, * findings in * trace*: *append-five*",
            "profile core: not conformant, *",
            "  looks like  *",
            "FAILED kv-conformance::append-five?POSITION-OFFSET? - *",
        ]
    )
    assert "Traceback" not in text(result)
    assert "conformance/" not in text(result).replace("kv-conformance", "").replace(str(ROOT), "")


def test_what_is_missing_is_skipped_with_a_reason_and_fails_the_profile(folder: pytest.Pytester) -> None:
    result = run(
        folder, "--kv-adapter", f"{SMALL}:SmallLayer", "--kv-profile", "strict", "-k", "verdict", "-rfs"
    )  # fmt: skip
    assert result.ret == 1
    assert "FAILED kv-conformance::verdict[strict]" in text(result)
    assert "declined    " in text(result)
    assert "declined: not declared: rewire" in text(result)


@pytest.mark.parametrize(
    ("adapter", "told"),
    [
        (f"{SMALL}:factory_exits", "SystemExit: no such device"),
        (f"{SMALL}:factory_returns_none", "has no 'declaration'"),
        ("not_there_at_all:make", "there is no module"),
        ("nunpy", "did you mean numpy"),
    ],
)
def test_an_adapter_that_cannot_be_had_is_one_failing_item(
    folder: pytest.Pytester, adapter: str, told: str
) -> None:
    folder.makepyfile("def test_own(): pass")
    result = run(folder, "--kv-adapter", adapter)
    result.assert_outcomes(passed=1, failed=1)
    assert "FAILED kv-conformance::adapter" in text(result)
    assert told in text(result)


def test_an_unknown_profile_is_one_failing_item(folder: pytest.Pytester) -> None:
    result = run(folder, "--kv-adapter", "numpy", "--kv-profile", "cores")
    result.assert_outcomes(failed=1)
    assert "there is no profile 'cores'" in text(result)


def test_ini_keys_serve_as_defaults_and_the_command_line_wins(folder: pytest.Pytester) -> None:
    folder.makeini(f"[pytest]\nkv_adapter = {SMALL}:SmallLayer\nkv_profile = gqa\n")
    result = run(folder, "--strict-config", "-k", "verdict", "-v")
    assert result.ret == 0
    assert "verdict[gqa] PASSED" in text(result)
    assert "verdict[core]" not in text(result)
    other = run(folder, "--kv-adapter", f"{SMALL}:factory_raises")
    other.assert_outcomes(failed=1)


def test_selection_by_id_by_marker_and_by_deselecting(folder: pytest.Pytester) -> None:
    folder.makepyfile("def test_own(): pass")
    adapter = ("--kv-adapter", f"{SMALL}:SmallLayer")
    named = run(folder, *adapter, "kv-conformance::append-five[AGREE-OUTPUT]", "-v")
    named.assert_outcomes(passed=1, deselected=named.parseoutcomes()["deselected"])
    assert "kv-conformance::append-five[AGREE-OUTPUT] PASSED" in text(named)
    marked = run(folder, *adapter, "-m", "kv_verdict", "--deselect", "kv-conformance::verdict[gqa]", "-v")
    assert marked.ret == 0
    assert "verdict[core] PASSED" in text(marked)
    assert "verdict[gqa]" not in text(marked)
    assert "append-five" not in text(marked)
    assert "test_own" not in text(marked)


def test_only_what_failed_is_run_again(folder: pytest.Pytester) -> None:
    options = ("-p", "conformance.plugin", "--kv-adapter", f"{SMALL}:StuckPosition", "-k", "append-five")
    first = folder.runpytest_subprocess(*options, timeout=120)
    again = folder.runpytest_subprocess(*options, "--lf", "-v", timeout=120)
    failed = first.parseoutcomes()["failed"]
    assert 0 < failed < first.parseoutcomes()["passed"] + failed
    assert again.parseoutcomes()["failed"] == failed
    assert "passed" not in again.parseoutcomes()


@pytest.mark.parametrize("own", [True, False], ids=["beside own tests", "alone"])
def test_an_adapter_without_a_single_item_fails(folder: pytest.Pytester, own: bool) -> None:
    if own:
        folder.makepyfile("def test_own(): pass")
    result = run(folder, "--kv-adapter", f"{SMALL}:SmallLayer", "-k", "test_own")
    assert result.ret == 1
    assert "no item of" in text(result)
    assert "which is a failure" in text(result)


def test_an_adapter_of_the_ini_file_may_be_left_out_of_a_narrowed_run(folder: pytest.Pytester) -> None:
    folder.makeini(f"[pytest]\nkv_adapter = {SMALL}:SmallLayer\n")
    folder.makepyfile("def test_own(): pass")
    assert run(folder, "-k", "test_own").ret == 0
    assert run(folder, "-k", "nothing_at_all").ret == 1, "not the 5 that a careless script takes for success"


def test_order_and_workers_do_not_matter(folder: pytest.Pytester) -> None:
    options = (
        "--kv-adapter",
        f"{SMALL}:StuckPosition",
        "--kv-profile",
        "core",
        "-q",
        "-rf",
        "--kv-seed",
        "3",
    )
    plain = run(folder, *options)
    spread = run(folder, *options, "-p", "xdist", "-n", "2", "-p", "randomly", "-p", "no:cov")
    assert plain.parseoutcomes() == spread.parseoutcomes()
    failed = [sorted(re.findall(r"FAILED (kv-\S+)", text(r))) for r in (plain, spread)]
    assert failed[0] == failed[1] != []


def test_every_worker_draws_from_the_seed_that_the_header_tells(folder: pytest.Pytester) -> None:
    options = ("--kv-adapter", f"{SMALL}:StuckPosition", "-k", "twin and (mod-square or mod-mqa)")
    spread = run(folder, *options, "-p", "xdist", "-n", "2")
    (seed,) = re.findall(r"seed (\d+) of the twins", text(spread))
    told = re.findall(r"kv-conformance replay (mod-\S+-twin) \S+ --seed (\d+)", text(spread))
    assert {name for name, _ in told} == {"mod-square/single-twin", "mod-mqa/single-twin"}
    assert {found for _, found in told} == {seed}
