"""`wire try` says of every step what was sent, what came, and what is wrong."""

import sys

import pytest

from conformance.wire.command import main
from tests.zoo.exercise import ADAPTERS, HOSTILE, LEVELS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")


def tried(capsys, adapter, *options):
    status = main(["try", adapter, *options])
    return status, capsys.readouterr().out


def hostile(name):
    return f"cmd:{sys.executable} -S -E {HOSTILE} {name}"


def test_a_served_adapter_is_walked_through_every_level_and_feature(capsys):
    status, said = tried(capsys, f"{LEVELS}:lawful")
    assert "WRONG" not in said
    assert status == 0
    for level in ("layer", "attention", "store", "decoder"):
        assert f"-- level {level}\n" in said
    for step in (
        "full_prefix",
        "snapshot",
        "fork, and observe it",
        "reorder",
        "poison",
        "truncate",
        "rewire",
    ):
        assert f"\n{step}\n  > " in said
    assert '\nbuild a cache\n  > {"seq":' in said
    assert "0 wrong; next: kv-conformance check" in said


@pytest.mark.parametrize(
    ("name", "step", "problem"),
    [
        (
            "behaves",
            "a call to be refused as input_batch_mismatch",
            'it was accepted; answer {"seq": n, "rejected"',
        ),
        (
            "answers_with_an_error",
            "a call to be refused as input_batch_mismatch",
            "OutOfCheese: redo from start",
        ),
        ("says_length_minus_one", "observe: nothing in it", "-1 is not a whole number from 0"),
        ("sends_less_than_it_says", "append", "asks for 4 numbers, data holds 3"),
        ("gives_a_handle_as_text", "build", "is not a whole number from 0"),
    ],
)
def test_what_is_wrong_is_said_at_its_step(capsys, name, step, problem):
    status, said = tried(capsys, hostile(name))
    assert status == 1
    block = said.partition(f"\n{step}\n")[2].partition("WRONG")[2]
    assert problem in block.partition("\n")[0]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("exits_at_once", "exited with status 7"),
        ("writes_15_digits", "15 digits printed, where 17 are needed"),
        ("claims_an_unknown_feature", "it may hold chunks"),
    ],
)
def test_a_driver_that_cannot_be_greeted_ends_the_walk(capsys, name, problem):
    status, said = tried(capsys, hostile(name))
    assert status == 3
    assert problem in said
    assert "before anything else" in said
    assert said.count("WRONG") == 1


def test_the_time_limit_can_be_set(capsys):
    status, said = tried(capsys, hostile("hangs_before_the_reply"), "--time-limit", "0.2")
    assert status == 1
    assert "no answer within the time limit" in said


def test_numbers_can_be_asked_for(capsys):
    status, said = tried(capsys, f"{ADAPTERS}:behaving", "--numbers", "bits")
    assert '"data":["' in said
    assert status == 1, "it refuses nothing, so a step is wrong"


def test_wrong_usage_is_status_2(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["try"])
    assert caught.value.code == 2
    assert "adapter" in capsys.readouterr().err


def test_help_teaches_the_way(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "docs/wire-protocol.md" in capsys.readouterr().out
