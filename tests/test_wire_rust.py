"""The example driver in Rust, which was written from the protocol page alone, through the gate."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conformance.check import check
from conformance.suite import traces
from conformance.wire import WireAdapter
from conformance.wire.command import main

SOURCE = Path(__file__).parents[1] / "examples" / "rust" / "driver.rs"
RUSTC = shutil.which("rustc")


def version():
    said = subprocess.run([RUSTC, "--version"], capture_output=True, text=True, check=False).stdout
    return tuple(int(n) for n in re.findall(r"\d+", said)[:2])


pytestmark = pytest.mark.skipif(not RUSTC or version() < (1, 80), reason="needs rustc 1.80 or newer")


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """Compiles a source text and returns the program."""

    def built(text):
        folder = tmp_path_factory.mktemp("rust")
        (folder / "driver.rs").write_text(text, encoding="utf-8")
        subprocess.run(
            [RUSTC, "--edition", "2021", "-O", "-D", "warnings", "driver.rs"], cwd=folder, check=True
        )
        return str(folder / "driver")

    return built


@pytest.fixture(scope="module")
def program(build):
    return build(SOURCE.read_text(encoding="utf-8"))


def test_it_is_conformant_under_every_profile_whose_features_it_declares(program):
    with WireAdapter([program]) as adapter:
        report = check(adapter, ["core", "chunks", "gqa", "rollback", "fork"])
    assert [p.text for p in report.verdict.profiles] == ["conformant"] * 5


def test_it_goes_well_through_every_step_of_the_walk(program, capsys):
    assert main(["try", f"cmd:{program}"]) == 0
    assert "WRONG" not in capsys.readouterr().out


def test_a_planted_fault_is_found(build):
    text = SOURCE.read_text(encoding="utf-8")
    right = "(start + row % steps) as f64"
    assert text.count(right) == 1
    with WireAdapter([build(text.replace(right, "(start + 1 + row % steps) as f64"))]) as adapter:
        chosen = [t for t in traces(adapter.declaration) if t.id == "append-five"]
        report = check(adapter, "core", only=chosen)
    assert "POSITION-OFFSET" in {c.requirement for c in report.checks if c.status == "fail"}


def test_it_answers_garbage_with_errors_and_goes_on(program):
    lines = [b"garbage", b"[" * 9000, b'{"seq": 1}', b'{"seq": 1, "method": "\\u00e9\\ud800']
    sent = b"\n".join([*lines, b'{"seq": 2, "method": "bye"}\n'])
    done = subprocess.run([program], input=sent, capture_output=True, timeout=10, check=True)
    *errors, last = done.stdout.splitlines()
    assert len(errors) == len(lines)
    assert all(b'"error"' in line for line in errors)
    assert last == b'{"seq":2,"result":null}'
