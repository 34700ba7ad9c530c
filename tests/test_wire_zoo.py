"""Every hostile driver ends in a clear error, within its time limit, and leaves nothing running."""

import re
import subprocess
import sys
import time
import uuid

import pytest

from conformance.errors import AdapterError
from conformance.wire import LossyPipeError, WireAdapter, WireError
from tests.zoo.exercise import HOSTILE, live, marked

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")

MORE = "more than the one line"
NO_ANSWER = "no answer within the time limit"
NOT_WHOLE = "is not a whole number from 0"
TOO_LARGE = "too large for float64"

EXPECTED = {
    "hangs_at_once": NO_ANSWER,
    "hangs_in_the_hello": f"{NO_ANSWER} .the beginning of a line had come",
    "hangs_before_the_reply": NO_ANSWER,
    "hangs_in_the_middle_of_the_reply": f"{NO_ANSWER} .the beginning of a line had come",
    "hangs_after_the_reply": r"^observe \(request 7\).*" + NO_ANSWER,
    "reads_no_more": f"^build_layer.*{NO_ANSWER}",
    "drips": f"{NO_ANSWER} .the beginning of a line had come",
    "stops_itself": NO_ANSWER,
    "ignores_every_signal_and_hangs": NO_ANSWER,
    "floods_without_a_line_end": "longer than the limit",
    "floods_with_lines": MORE,
    "floods_stderr": f"{NO_ANSWER}.*its stderr ends: .*all is well",
    "writes_a_line_of_a_gigabyte": "longer than the limit",
    "writes_millions_of_values": "more than 2097152 values",
    "writes_millions_of_lists": "more than 10000 brackets",
    "replies_twice": f"{MORE}|seq 7 was asked, the number 6",
    "replies_to_the_request_before": "seq 6 was asked, the number 5 was answered",
    "replies_to_the_request_to_come": "seq 6 was asked, the number 7 was answered",
    "replies_before_it_is_asked": f"{MORE}|seq 2 was asked, the number 1|hello is wrong|the echo is wrong",
    "leaves_seq_out": "seq 6 was asked, null was answered",
    "says_seq_as_text": "seq 6 was asked, the text '6' was answered",
    "says_seq_as_true": "seq 6 was asked, the truth value True was answered",
    "writes_an_empty_line": "an empty line is not a message",
    "prints_on_stdout": "step 2 done, loss 0.25.*stdout is for the protocol only",
    "writes_a_list": "a list is not a message",
    "cuts_its_json": "not JSON",
    "cuts_its_json_and_leaves": "closed its stdout in the middle of a line.*exited with status 0",
    "writes_no_utf8": "not UTF-8 at byte 22: ff fe",
    "writes_zero_bytes": r"not JSON.*\\x00",
    "writes_utf16": "not UTF-8",
    "nests_lists": "nested too deeply",
    "nests_objects": "nested too deeply",
    "nests_a_million_lists": "more than 10000 brackets",
    "says_a_key_twice": "the key 'result' stands twice",
    "writes_nan": "NaN is not JSON",
    "writes_infinity": "-Infinity is not JSON",
    "writes_a_number_of_5000_digits": "not a number that can be read",
    "answers_two_ways": "exactly one of result, rejected, error",
    "answers_no_way": "exactly one of result, rejected, error",
    "misspells_rejected": "the reply holds 'reject'; it may hold seq, result, rejected",
    "says_a_shape_without_data": r"asks for 1152921504606846976 numbers, data holds 0",
    "says_a_shape_of_nothing": "too large",
    "says_a_negative_shape": "whole numbers from 0",
    "says_a_shape_of_100_axes": "at most 8",
    "sends_less_than_it_says": "asks for 4 numbers, data holds 3",
    "sends_nested_lists": "is not an array; write",
    "sends_numbers_as_text": "the text '0.0' is not a number",
    "sends_truth_values": "the truth value True is not a number",
    "sends_no_output": "result: null is not an object",
    "sends_a_null_output": "null is not an output",
    "sends_another_dtype": "the text 'complex128' is not one of",
    "sends_an_object_dtype": "the text 'object' is not one of",
    "misspells_a_field": "the field 'wieghts' is unknown; it may hold output, query",
    "says_length_nan": NOT_WHOLE,
    "says_length_minus_one": f"-1 {NOT_WHOLE}",
    "says_length_as_a_fraction": NOT_WHOLE,
    "says_length_as_text": NOT_WHOLE,
    "says_length_true": NOT_WHOLE,
    "says_storage_without_address": "the field 'address' is missing",
    "says_storage_as_numbers": "not an object with the fields address",
    "gives_a_handle_twice": "handle 1 was given twice",
    "gives_a_handle_as_text": NOT_WHOLE,
    "answers_reset_with_a_result": "reset answers with null",
    "speaks_another_protocol": "the number 2 is spoken, 1 is asked for",
    "claims_an_unknown_feature": "features holds 'speed'; it may hold chunks",
    "claims_an_unknown_level": "levels holds 'universe'",
    "claims_nothing": "the field 'protocol' is missing",
    "overflows_to_infinity": TOO_LARGE,
    "overflows_as_a_whole_number": TOO_LARGE,
    "refuses_with_a_kind_of_its_own": "'not_in_the_mood' is not a kind of rejection",
    "answers_with_an_error": "OutOfCheese: redo from start",
    "lacks_a_feature_that_it_claims": "full_prefix.*not implemented",
    "exits_with_0": "exited with status 0",
    "exits_with_3": "exited with status 3; its stderr ends: fatal: the cheese has run out",
    "exits_at_once": "hello.*exited with status 7",
    "closes_its_stdout": "it closed its stdout without answering",
    "closes_its_stdin": f"closed its stdin|{NO_ANSWER}",
    "closes_everything": "it closed its stdout",
    "eats_its_memory": f"exited with status|{NO_ANSWER}",
    "forks_and_leaves": "ended without answering.*exited with status 0",
    "forks_a_daemon": NO_ANSWER,
    "forks_twenty_and_hangs": NO_ANSWER,
    "reads_through_float32": "the driver's reader loses bits.*bits 430c6bf526340000.*float32",
    "writes_through_float32": "the driver's writer loses bits.*float32",
    "writes_15_digits": "the driver's writer loses bits.*15 digits printed",
    "writes_16_digits": "the driver's writer loses bits.*16 digits printed",
    "rounds_wrongly_when_it_reads": "the driver's reader loses bits.*does not round correctly",
    "loses_the_sign_of_zero": "-0.0 .bits 8000000000000000.*became 0.0 .bits 0000000000000000.*sign of zero",
    "flushes_subnormals": "subnormal numbers flushed",
    "echoes_1e400": TOO_LARGE,
    "echoes_the_text_unread": "the field 'bits' is missing",
    **{
        f"dies_by_{name}": f"was ended by signal [0-9]+ .{name}"
        for name in (
            "SIGABRT", "SIGBUS", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGKILL", "SIGPIPE", "SIGSEGV",
            "SIGTERM", "SIGXCPU",
        )
    },
}  # fmt: skip
LIMIT = 0.25
SLOW = [name for name, text in EXPECTED.items() if NO_ANSWER in text]


def driver(name, **options):
    limits = {"time_limit": LIMIT} if name in SLOW else {}
    start = {"start_limit": LIMIT} if "hello" in name or "at_once" in name else {}
    return WireAdapter([sys.executable, "-S", "-E", str(HOSTILE), name], **{**limits, **start, **options})


def test_every_hostile_driver_is_expected_to_fail_in_its_own_way():
    listed = subprocess.run([sys.executable, str(HOSTILE)], capture_output=True, text=True, check=True).stdout
    assert set(listed.split()) == {*EXPECTED, "behaves"}
    assert len(EXPECTED) >= 40


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_hostile(name):
    mark = f"zoo-{uuid.uuid4().hex}"
    adapter = driver(name, environment={"ZOO": mark})
    begun = time.monotonic()
    with pytest.raises(AdapterError) as caught:
        live(adapter)
    adapter.close_process()
    assert time.monotonic() - begun < 10.0
    assert isinstance(caught.value, WireError)
    assert re.search(EXPECTED[name], str(caught.value), re.DOTALL), str(caught.value)
    assert len(str(caught.value)) < 4000
    assert str(caught.value).isprintable() or "\n" in str(caught.value)
    assert not marked(mark), "something was left running"


def test_the_control_behaves():
    with driver("behaves") as adapter:
        assert live(adapter).length == 0


@pytest.mark.parametrize("name", ["exits_with_3", "floods_without_a_line_end", "writes_no_utf8"])
def test_after_a_break_a_fresh_process_is_built_in(name):
    with driver(name) as adapter:
        with pytest.raises(WireError):
            live(adapter)
        assert adapter.pid is None
        with pytest.raises(WireError, match="request 6"):
            live(adapter)


def test_a_driver_that_hangs_again_and_again_is_given_up():
    with driver("hangs_before_the_reply", time_limit=0.2) as adapter:
        for _ in range(3):
            with pytest.raises(WireError, match="no answer"):
                live(adapter)
        begun = time.monotonic()
        with pytest.raises(WireError, match=r"given up after 3 breaks, 3 of them hangs.*no answer"):
            live(adapter)
        assert time.monotonic() - begun < 0.1


def test_a_lossy_pipe_is_refused_once_for_all():
    with driver("writes_15_digits") as adapter:
        for _ in range(2):
            with pytest.raises(LossyPipeError, match="15 digits"):
                live(adapter)


MEASURE = """
import resource, sys
from tests.test_wire_zoo import driver
from tests.zoo.exercise import live
from conformance.wire import WireError
with driver("behaves") as adapter:
    live(adapter)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in sys.argv[1:]:
    try:
        live(driver(name))
    except WireError:
        continue
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_memory_stays_flat_whatever_a_driver_sends():
    loud = [name for name in EXPECTED if re.match("floods|writes_m|writes_a_line|nests|says_a_shape", name)]
    assert len(loud) >= 10
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", MEASURE, *loud], capture_output=True, text=True, check=True
    )
    assert int(result.stdout) < 128, "MiB more than a driver that behaves"
