"""The other commands, and what holds for all of them: help, version, a broken pipe, Ctrl-C."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from conformance import __version__
from conformance.cli import COMMANDS, is_there, main
from conformance.contract import CONTRACT_VERSION, PROFILES, all_requirements, profile_requirements

ROOT = Path(__file__).parents[1]
SMALL = Path(__file__).with_name("small_layer.py")
HEAVY = ("numpy", "yaml", "mpmath", "hypothesis", "pytest")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def python(*arguments: str, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        **more,
    )  # type: ignore[call-overload, no-any-return]


def test_help_teaches_the_workflow_and_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    for word in ("check", "list", "explain", "replay", "new", "golden", "wire", "ADAPTER", "exit status"):
        assert word in text
    assert text.index("new layer >") < text.index("check my_adapter.py:adapter")


@pytest.mark.parametrize("command", [name for name, c in COMMANDS.items() if is_there(c.module)])
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert f"usage: kv-conformance {command}" in text
    assert len(text.splitlines()) > 6


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"kv-conformance {__version__} (contract {CONTRACT_VERSION})\n"


@pytest.mark.parametrize(
    "arguments", [[], ["nope"], ["list", "--level", "nope"], ["explain"], ["new", "nope"]]
)
def test_wrong_usage_exits_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["list"], ["new", "layer"], ["check", "--help"]]
)
def test_light_commands_import_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
        import sys
        from conformance.cli import main
        try:
            main({arguments!r})
        except SystemExit:
            pass
        loaded = sorted(set({HEAVY!r}) & set(sys.modules))
        sys.exit(f"loaded: {{loaded}}" if loaded else 0)
    """
    ended = python("-c", textwrap.dedent(code))
    assert ended.returncode == 0, ended.stderr


def test_a_check_loads_no_tool_of_proof_or_search() -> None:
    code = """
        import sys
        from conformance.cli import main
        code = main(["check", "--quiet"])
        loaded = sorted({"mpmath", "hypothesis", "pytest", "onnx", "jsonschema"} & set(sys.modules))
        sys.exit(f"loaded: {loaded}" if loaded else code)
    """
    ended = python("-c", textwrap.dedent(code))
    assert (ended.returncode, ended.stdout.split(":")[0]) == (0, "conformant"), ended.stderr


def test_list_prints_the_whole_contract(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list")
    assert code == 0
    for entry in all_requirements():
        assert f"\n{entry.id}  (" in out
    for name in PROFILES:
        assert re.search(rf"\n  {name} +\w", out)


def test_list_narrows_to_a_profile_and_a_level(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "list", "--profile", "core", "--level", "attention")
    listed = [line.split("  ")[0] for line in out.splitlines() if line[:1].isupper()]
    assert listed == [e.id for e in profile_requirements("core", "attention")]
    code, _, err = run(capsys, "list", "--profile", "nope")
    assert code == 2
    assert "the profiles are core" in err


def test_explain_tells_source_traces_and_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "explain", "store-keys")
    assert code == 0
    told = [line.split()[0] for line in out.splitlines() if line.startswith("  ") and line[2] != " "]
    assert told[:6] == ["rule", "source", "asked", "profiles", "judged", "look"]
    assert re.search(r"judged by   \S+, step \d+ \(.*\): keys is the exact value within the bound", out)
    example = out.split("a failure reads like this:")[1]
    assert "STORE-KEYS  fail" in example
    assert "expected" in example
    assert "observed" in example


def test_explain_tells_what_is_watched_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "explain", "STORE-EARLIER-ROWS")
    assert "every call of every trace to which it applies" in out
    assert "STORE-EARLIER-ROWS  fail" in out


def test_explain_tells_why_a_rule_is_not_judged(capsys: pytest.CaptureFixture[str]) -> None:
    untestable = next(e for e in all_requirements() if e.untestable)
    _, out, _ = run(capsys, "explain", untestable.id)
    assert "not judged" in out
    assert "covered by" in out
    assert "judged by" not in out


def test_explain_an_unknown_requirement_names_near_ones(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "explain", "STORE-KEY")
    assert (code, out) == (2, "")
    assert "did you mean STORE-KEYS" in err


def test_replay_shows_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "replay", "append-five", f"{SMALL}:SmallLayer", "--verbose")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines() if line[:5].strip().isdigit()] == ["pass"] * 5
    assert "no findings" in out
    assert "output is the exact value within the bound" in out


def test_replay_tells_the_finding(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "replay", "append-five", f"{SMALL}:StuckPosition")
    assert code == 1
    assert [line.split()[1] for line in out.splitlines() if line[:5].strip().isdigit()] == ["pass"] + [
        "fail"
    ] * 4
    assert out.count("POSITION-OFFSET  fail") == 1


def test_replay_shows_the_traceback_of_an_implementation(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "replay", "append-five", f"{SMALL}:Raises")
    assert code == 3
    assert "4 more steps not played" in out
    assert "| RuntimeError: the kernel could not be launched" in out
    assert "/player/" not in out


def test_replay_of_a_file_and_of_its_name_agree(capsys: pytest.CaptureFixture[str]) -> None:
    file = ROOT / "golden" / "derived" / "mod-square.yaml"
    by_name = run(capsys, "replay", "mod-square", "numpy")
    by_file = run(capsys, "replay", str(file), "numpy")
    assert by_name[0] == by_file[0] == 0
    assert by_name[1] == by_file[1]
    assert by_name[1].startswith("mod-square/single: ")


@pytest.mark.parametrize(
    ("trace", "adapter", "code", "told"),
    [
        ("append-fiv", "numpy", 2, "did you mean append-five"),
        ("not/there.yaml", "numpy", 3, "not/there.yaml"),
        ("golden/derived/mod-square.yaml", "numpy-store", 2, "is for level layer"),
        ("append-five", f"{SMALL}:factory_raises", 3, "no such device"),
        ("append-five", f"{SMALL}:factory_returns_none", 3, "has no 'declaration'"),
        ("append-five", "nunpy", 2, "did you mean numpy"),
    ],
)
def test_replay_refuses_what_it_cannot_play(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trace: str,
    adapter: str,
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(ROOT)
    ended, out, err = run(capsys, "replay", trace, adapter)
    assert (ended, out) == (code, "")
    assert told in err


def test_golden_and_wire_are_reached(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "golden", "show")
    assert code == 0
    assert "ch37" in out
    with pytest.raises(SystemExit) as ended:
        main(["wire", "serve", "--help"])
    assert ended.value.code == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance", "list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == b""
    assert process.returncode == 141


def test_a_ctrl_c_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "slow_cache.py").write_text(
        textwrap.dedent("""
            import time
            from pathlib import Path
            def make():
                Path("started").touch()
                time.sleep(60)
        """)
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "conformance", "check", "slow_cache:make"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    for _ in range(600):
        if (tmp_path / "started").exists():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"")


def test_a_whole_run_bears_warnings_as_errors_and_an_ascii_terminal() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    ended = python(
        "-W", "error", "-m", "conformance", "check", f"{SMALL}:Warns", "--profile", "core", env=environment
    )
    progress = re.compile(r"\d+ of \d+ traces, now .*\n")
    assert (ended.returncode, progress.sub("", ended.stderr)) == (0, "")
