"""`wire try` says of every step what was sent, what came, and what is wrong."""

import sys

import pytest

from conformance.wire.command import main
from tests.zoo.exercise import ADAPTERS, HOSTILE, LEVELS

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")


def tried(capsys, adapter, *options):
    status = main(["try", adapter, *options])
    return status, capsys.readouterr().out


@pytest.fixture
def changed(tmp_path):
    """The command of a driver that keeps every rule but for the methods in the given text."""

    def command(methods):
        script = tmp_path / "driver.py"
        script.write_text(
            f"import json, os, sys\nsys.path.insert(0, {str(HOSTILE.parent)!r})\n"
            f"import driver\nclass Changed(driver.Driver):\n{methods}\nChanged().run()\n"
        )
        return f"cmd:{sys.executable} -S -E {script}"

    return command


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
    assert "flush stdout" in said


def test_one_break_is_one_wrong_step_and_what_hangs_on_it_is_not_tried(capsys, changed):
    status, said = tried(capsys, changed("    def append(self, request): sys.exit(9)"))
    assert status == 1
    cause, _, rest = said.partition("\nappend\n")[2].partition("\nobserve: what was appended\n")
    assert "WRONG: append (request 6)" in cause
    assert "exited with status 9" in cause
    assert rest.startswith("  not tried: cache 2 is gone with its process (append (request 6)")
    assert ", 1 not tried" in rest.splitlines()[-1]


def test_an_error_where_a_refusal_was_wanted_is_met_with_the_refusal_to_write(capsys):
    said = tried(capsys, hostile("answers_with_an_error"))[1]
    block = said.partition("\na call to be refused as input_batch_mismatch\n")[2]
    assert '\n  do: answer {"seq": n, "rejected": {"kind": "input_batch_mismatch"}}\n' in block


def test_a_driver_that_knows_no_bye_is_told(capsys, changed):
    refusing = "    def reply(self, request, result): driver.send({'seq': request['seq'], **result})"
    answering = "    def answer(self, request):\n        known = getattr(self, request['method'], None)\n"
    unknown = "        return {'result': known(request)} if known else {'error': {'message': 'unknown'}}\n"
    status, said = tried(capsys, changed(f"{answering}{unknown}{refusing}\n    bye = None"))
    assert status == 1
    assert "answer with null, and leave" in said.partition("\nbye\n")[2]


def test_a_reply_over_several_lines_is_told_from_a_stray_print(capsys, changed):
    reply = "json.dumps({'seq': request['seq'], 'result': result}, indent=1).encode() + b'\\n'"
    said = tried(capsys, changed(f"    def reply(self, request, result): driver.raw({reply})"))[1]
    assert "write each reply on one line" in said
    assert "print on stderr" not in said


def test_long_lists_of_numbers_are_cut_so_that_every_name_shows(capsys):
    said = tried(capsys, f"{LEVELS}:lawful")[1]
    request = next(line for line in said.splitlines() if '"build_layer"' in line)
    for name in ("query", "key", "value", "output"):
        assert f'"{name}":{{"dtype":"float64","shape":[4,4],"data":[' in request


def test_a_program_without_cmd_in_front_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["try", str(HOSTILE)])
    assert caught.value.code == 2
    assert f"cmd:{HOSTILE}" in capsys.readouterr().err


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
    assert "wire page" in capsys.readouterr().out
