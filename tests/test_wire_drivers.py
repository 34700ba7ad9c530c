"""The two example drivers, which share no code with the kit, and the served NumPy layer, through the gate."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.check import check
from conformance.suite import traces
from conformance.wire import WireAdapter, isolated
from conformance.wire.command import main

EXAMPLES = Path(__file__).parents[1] / "examples"
NODE, CC = shutil.which("node"), shutil.which("cc")
DRIVERS = ("javascript", "c")
FAULTS = {
    "position-from-one": ("append-five", "POSITION-OFFSET"),
    "reset-keeps-length": ("capacity", "RESET-LENGTH"),
    "write-first": ("overflow-output-2", "ATOMIC-BYTES"),
    "stale-weights": ("stale-key", "BIND-REVISION"),
    "no-scale": ("append-five", "AGREE-OUTPUT"),
}


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """The command of each driver that this machine can run."""
    found = {}
    if NODE:
        found["javascript"] = f"{NODE} {EXAMPLES / 'javascript' / 'driver.mjs'}"
    if CC:
        program = tmp_path_factory.mktemp("c") / "driver"
        source = EXAMPLES / "c" / "driver.c"
        strict = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-clobbered", "-Werror"]
        subprocess.run([CC, *strict, "-o", program, source, "-lm"], check=True)
        found["c"] = str(program)
    return found


@pytest.fixture(params=DRIVERS)
def command(request, commands):
    if request.param not in commands:
        pytest.skip({"javascript": "needs node", "c": "needs a C compiler named cc"}[request.param])
    return commands[request.param]


def unlike_pass(report):
    return {(c.requirement, c.trace, c.status, c.message) for c in report.checks if c.status != "pass"}


def test_a_driver_is_strictly_conformant(command):
    with WireAdapter(command) as adapter:
        report = check(adapter, "strict")
    assert not unlike_pass(report)
    assert report.verdict.text == "conformant"


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(command, fault):
    trace, requirement = FAULTS[fault]
    with WireAdapter(f"{command} --fault {fault}") as adapter:
        chosen = [t for t in traces(adapter.declaration) if t.id == trace]
        assert len(chosen) == 1
        report = check(adapter, "strict", only=chosen)
        assert requirement in {c.requirement for c in report.checks if c.status == "fail"}
    with WireAdapter(command) as adapter:
        assert not unlike_pass(check(adapter, "strict", only=chosen))


def test_a_driver_goes_well_through_every_step_of_the_walk(command, capsys):
    assert main(["try", f"cmd:{command}"]) == 0
    assert "WRONG" not in capsys.readouterr().out


@pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")
def test_the_driver_that_speaks_in_bits_is_right_as_far_as_it_goes():
    with WireAdapter(["perl", str(EXAMPLES / "perl" / "driver.pl")]) as adapter:
        ids = (
            "ch37/single",
            "extreme/single",
            "mod-gqa-half/single",
            "stale-key",
            "capacity",
            "overflow-output-2",
        )
        chosen = [t for t in traces(adapter.declaration) if t.id in ids]
        report = check(adapter, "core", only=chosen)
    assert len(chosen) == len(ids)
    wrong = {c.requirement for c in report.checks if c.status in ("fail", "error")}
    assert wrong <= {"AGREE-WEIGHTS"}, "weights are evidence, which it does not declare"
    assert {"AGREE-OUTPUT", "STORE-KEYS", "CAPACITY-FULL", "ATOMIC-ROWS"} <= {
        c.requirement for c in report.checks
    }


@pytest.mark.skipif(not CC, reason="needs a C compiler named cc")
@pytest.mark.parametrize(
    "line",
    [
        b"garbage",
        b"[" * 100_000,
        b'{"seq": 1}',
        b'{"seq": 1, "method": "append", "layer": 1e9, "cache": -1}',
        b'{"seq": 1, "method": "observe", "cache": 0.5}',
        b'{"seq": 1, "method": "echo", "values": {"shape": [3], "data": [1]}}',
        b'{"seq": 1, "method": "echo", "values": {"shape": [-1], "data": ["maybe"]}}',
        b'{"seq": 1, "method": "\\u00e9\\ud800',
    ],
)
def test_the_c_driver_answers_garbage_with_errors_and_goes_on(commands, line):
    good = b'\n{"seq": 2, "method": "bye"}\n'
    done = subprocess.run([commands["c"]], input=line + good, capture_output=True, timeout=10, check=True)
    first, second = done.stdout.splitlines()
    assert b'"error"' in first
    assert second == b'{"seq":2,"result":null}'


@pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")
@pytest.mark.parametrize("name", ["numpy-attention", "forge-store"])
def test_a_served_adapter_gives_the_ids_and_verdicts_that_it_gives_in_process(name):
    here = check(name)
    with isolated(name) as adapter:
        there = check(adapter, [p.profile for p in here.verdict.profiles])
    assert there.verdict.text == here.verdict.text
    assert [(c.requirement, c.trace, c.step, c.status) for c in there.checks] == [
        (c.requirement, c.trace, c.step, c.status) for c in here.checks
    ]
    assert len(here.checks) > 1000


def test_the_served_numpy_layer_gives_the_ids_and_verdicts_that_it_gives_in_process():
    here = check("numpy", "strict")
    with isolated("numpy") as adapter:
        there = check(adapter, "strict")
    assert there.verdict.text == here.verdict.text == "conformant"
    assert [(c.requirement, c.trace, c.step, c.status) for c in there.checks] == [
        (c.requirement, c.trace, c.step, c.status) for c in here.checks
    ]
