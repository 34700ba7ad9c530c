"""`kv-conformance check`: exit status, output, files, and every way in which an adapter can be broken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from conformance import diagnosis
from conformance.cli import main
from conformance.commands import progress
from conformance.report.json import read_report

SMALL = Path(__file__).with_name("small_layer.py")


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(progress, "FIRST_AFTER", 3600.0)
    monkeypatch.setattr(diagnosis, "explain", lambda *_: ("a known fault",))


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["check", *arguments])
    seen = capsys.readouterr()
    return code, seen.out, seen.err


def test_a_right_cache_is_conformant(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = check(capsys, f"{SMALL}:SmallLayer")
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("conformant: ")
    assert "profile gqa: conformant" in out, "a declared feature opens its profile"


def test_warnings_of_an_implementation_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, f"{SMALL}:Warns", "--profile", "core", "-q")[0] == 0


@pytest.mark.parametrize(
    ("name", "code", "requirement", "told"),
    [
        ("WrongScale", 1, "AGREE-OUTPUT", "of the bound"),
        ("StuckPosition", 1, "POSITION-OFFSET", "of the bound"),
        ("WrongShape", 1, "SHAPE-OUTPUT", "output has shape"),
        ("WrongDtype", 1, "SHAPE-OUTPUT", "output has dtype float32, expected float64"),
        ("ComplexDtype", 1, "AGREE-OUTPUT", "complex128"),
        ("Nans", 1, "AGREE-OUTPUT", "observed    nan"),
        ("Nothing", 1, "AGREE-OUTPUT", "append returned None"),
        ("Lists", 1, "AGREE-OUTPUT", "output is list"),
        ("Exits", 3, "AGREE-OUTPUT", "SystemExit: 0"),
        ("Interrupts", 3, "AGREE-OUTPUT", "KeyboardInterrupt"),
        ("Raises", 3, "AGREE-OUTPUT", "the kernel could not be launched"),
        ("ObservesNothing", 3, "STORE-LENGTH", "observe returned None"),
    ],
)
def test_a_broken_cache_is_told_with_requirement_and_step(
    capsys: pytest.CaptureFixture[str], name: str, code: int, requirement: str, told: str
) -> None:
    ended, out, err = check(capsys, f"{SMALL}:{name}", "--profile", "core")
    assert ended == code
    assert requirement in out
    assert told in out
    assert re.search(r"where +\S+, step \d+ \(.+\)", out)
    assert re.search(rf"kv-conformance replay \S+ {SMALL}:{name}\n", out)
    # What only ever broke violated no rule, so no known fault looks like it.
    assert ("looks like  a known fault\n" in out) == (code == 1)
    assert "Traceback" not in out + err
    assert out.splitlines()[-1].startswith("not conformant" if code == 1 else "incomplete")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (f"{SMALL}:factory_exits", "SystemExit: no such device"),
        (f"{SMALL}:factory_interrupts", "KeyboardInterrupt"),
        (f"{SMALL}:factory_raises", "RuntimeError: no such device"),
        (f"{SMALL}:factory_returns_none", "has no 'declaration'"),
        (f"{SMALL}:NUMBER", "neither an adapter"),
        ("not_there_at_all:make", "there is no module"),
        ("cmd:./there-is-no-such-driver", "there-is-no-such-driver"),
    ],
)
def test_an_adapter_that_cannot_be_had_is_incomplete(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, told: str
) -> None:
    paths = tmp_path / "r.json", tmp_path / "r.xml"
    code, out, err = check(capsys, name, "--json", str(paths[0]), "--junit", str(paths[1]))
    assert code == 3
    assert told in " ".join(out.split())
    assert "conformant:" not in out
    assert "Traceback" not in err
    assert read_report(paths[0])["verdict"] == {"text": "incomplete", "exit_code": 3}
    assert Xml.parse(paths[1]).getroot().get("errors") == "1"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nunpy"], "did you mean numpy"),
        ([f"{SMALL}:SmallLayer", "--profile", "cores"], "there is no profile 'cores'"),
        ([f"{SMALL}:SmallLayer", "--profile", "store"], "asks nothing of level 'layer'"),
        ([f"{SMALL}:SmallLayer", "--json", "no/such/folder/r.json"], "there is no folder"),
        (["--profile", "core", "--profile", "store"], "run check once for each"),
    ],
)
def test_wrong_usage_exits_2_before_anything_is_played(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    code, out, err = check(capsys, *arguments)
    assert (code, out) == (2, "")
    assert told in err


def test_unknown_flags_exit_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--nope"], ["--prof", "core"], ["a:b", "c:d"]):
        with pytest.raises(SystemExit) as ended:
            main(["check", *arguments])
        assert ended.value.code == 2
    assert "usage: kv-conformance check" in capsys.readouterr().err


def test_a_narrowed_run_prints_its_result_and_is_incomplete(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, f"{SMALL}:SmallLayer", "-k", "append-five", "--profile", "core")
    assert code == 4
    assert out.splitlines()[-1].startswith("incomplete: ")
    assert "(only traces with 'append-five' were played)" in out
    assert "not run" in out


def test_a_narrowed_run_that_finds_nothing_to_play_is_incomplete(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, f"{SMALL}:SmallLayer", "-k", "no such trace")
    assert code == 4
    assert "0 traces" in out


def test_a_narrowed_run_still_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, f"{SMALL}:WrongScale", "-k", "append-five")[0] == 1


def test_what_is_not_declared_is_incomplete_under_strict(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, f"{SMALL}:SmallLayer", "--profile", "strict", "-k", "append-five")
    assert code == 4
    assert "not declared: rewire" in out


def test_quiet_prints_the_verdict_only(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = check(capsys, f"{SMALL}:WrongScale", "--quiet", "-k", "append-five")
    assert (code, err) == (1, "")
    assert len(out.splitlines()) == 1
    assert out.startswith("not conformant: ")


def test_files_carry_the_whole_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    json_file, xml_file = tmp_path / "r.json", tmp_path / "r.xml"
    name = f"{SMALL}:WrongScale"
    code, _, _ = check(capsys, name, "--profile", "core", "--json", str(json_file), "--junit", str(xml_file))
    found = read_report(json_file)
    assert code == found["verdict"]["exit_code"] == 1
    assert found["adapter"] == name
    assert found["declaration"]["features"] == ["gqa"]
    assert found["traces"]["planned"] == found["traces"]["reported"] > 50
    assert found["environment"].keys() >= {"python", "numpy", "kv-conformance", "platform"}
    standing = {r["id"]: r["standing"] for r in found["profiles"][0]["requirements"]}
    assert standing["AGREE-OUTPUT"] == "fail"
    assert standing["STALE-WEIGHTS"] == "unobserved"
    assert Xml.parse(xml_file).getroot().find("testsuite/testcase/failure") is not None


def test_the_same_run_has_the_same_report(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    documents = []
    for number in range(2):
        path = tmp_path / f"{number}.json"
        check(capsys, f"{SMALL}:StuckPosition", "-k", "mod-", "--seed", "7", "--json", str(path))
        document = json.loads(path.read_text())
        documents.append({k: v for k, v in document.items() if k not in ("seconds", "footer")})
    assert documents[0] == documents[1]


def test_isolation_contains_a_death(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = check(capsys, f"{SMALL}:Dies", "--isolate", "-k", "append-five", "--profile", "core")
    assert code == 3
    assert "closed its stdout without answering" in " ".join(out.split())
    assert f"kv-conformance replay append-five isolated:{SMALL}:Dies" in out
