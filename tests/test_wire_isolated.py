"""Python adapters in a process of their own: whatever they do stays there."""

import os
import re
import sys
import time
import uuid

import numpy as np
import pytest

from conformance.rejections import Rejected
from conformance.wire import DriverError, WireError, isolated
from tests.zoo.exercise import ADAPTERS, CONFIG, live, marked, parameters, rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")

EXPECTED = {
    "raises_keyboard_interrupt": "an error, KeyboardInterrupt",
    "raises_system_exit": "an error, SystemExit: 4",
    "raises_memory_error": "MemoryError: all gone",
    "raises_generator_exit": "an error, GeneratorExit",
    "raises_without_text": "an error, UnreadableError: .its text cannot be read",
    "recurses": "RecursionError",
    "aborts": "SIGABRT",
    "exits_for_good": "exited with status 5",
    "reads_address_zero": "SIGSEGV",
    "spins": "no answer within the time limit",
    "sleeps": "no answer within the time limit",
    "eats_memory": "MemoryError|exited with status|ended by signal",
    "closes_every_file": "closed its stdout|ended without",
    "returns_a_list": "list .* is not an array",
    "returns_text": "dtype str.* cannot be sent",
    "returns_objects": "dtype object cannot be sent",
    "patches_numpy": "numpy is not what it was|exited|closed",
    "says_length_nan": "length.* is not a whole number from 0|ValueError|TypeError",
    "says_length_minus_one": "-1 is not a whole number from 0|ValueError|IndexError",
    "factory_raises": "no licence found",
    "factory_exits": "no licence found",
    "undeclared": "declaration",
    "lacks_reset": "no method 'reset'",
    "no_such_factory": "has no 'no_such_factory'",
}


def served(name, **options):
    return isolated(f"{ADAPTERS}:{name}", **options)


GENTLE = ("raises_", "returns_", "says_", "recurses", "reads_stdin")


@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if not name.startswith(GENTLE)))
def test_a_misbehaving_adapter_is_an_error_and_nothing_more(name):
    mark = f"zoo-{uuid.uuid4().hex}"
    limits = {"time_limit": 0.5} if name in ("spins", "sleeps") else {}
    memory = {"memory_limit": 2**32} if name == "eats_memory" else {}
    # what is spoken in bits needs nothing of numpy that is patched here
    spoken = {"numbers": "decimal"} if name == "patches_numpy" else {}
    with served(name, environment={"ZOO": mark}, **limits, **memory, **spoken) as adapter:
        with pytest.raises(WireError) as caught:
            live(adapter)
        text = str(caught.value)
        assert re.search(EXPECTED[name], text, re.DOTALL), text
    assert not marked(mark)


@pytest.fixture(scope="module")
def menagerie():
    with served("menagerie") as adapter:
        yield adapter


def gentle(adapter, name):
    """One life with the mischief `name`; the names stand in the order of the module that serves them."""
    names = re.findall(r"^(?:def )?(\w+)(?: = raising|\(.*\):$)", ADAPTERS.read_text(), re.MULTILINE)
    return live(adapter, 10 + [n for n in names if n.startswith(GENTLE)].index(name))


@pytest.mark.parametrize("name", sorted(name for name in EXPECTED if name.startswith(GENTLE)))
def test_what_an_adapter_raises_or_returns_is_an_error_and_the_process_goes_on(menagerie, name):
    process = menagerie.pid
    with pytest.raises(WireError) as caught:
        gentle(menagerie, name)
    assert re.search(EXPECTED[name], str(caught.value), re.DOTALL), str(caught.value)
    assert process in (None, menagerie.pid)


def test_the_control_behaves_and_its_exceptions_are_mapped_to_kinds():
    with served("behaving") as adapter:
        assert live(adapter).length == 0
        layer = adapter.build_layer(CONFIG, parameters())
        cache = adapter.build_cache(layer, 1, 1)
        step = adapter.append(layer, cache, rows(0.1))
        assert np.array_equal(step.output, rows(0.2))
        assert step.length == 1
        with pytest.raises(Rejected, match="IndexError: no slot is left") as caught:
            adapter.append(layer, cache, rows())
        assert caught.value.kind == "full"
        seen = adapter.observe(cache)
        assert (seen.length, seen.capacity) == (1, 1)
        assert [token.elements for token in seen.storage] == [4, 4]
        assert seen.storage[0].address != seen.storage[1].address
        assert np.array_equal(seen.storage[0].data.ravel(), rows(0.1).ravel())


def test_an_exception_shows_the_adapters_own_traceback(menagerie):
    with pytest.raises(DriverError, match="SystemExit") as caught:
        gentle(menagerie, "raises_system_exit")
    assert caught.value.type == "SystemExit"
    assert "in mischief" in str(caught.value)


def test_a_refusal_keeps_what_it_carries(menagerie):
    with pytest.raises(Rejected) as caught:
        gentle(menagerie, "raises_a_kind_of_its_own")
    assert (caught.value.kind, caught.value.message) == ("full", "enough")
    assert caught.value.expected == (1, 2)


def test_prints_do_not_reach_the_protocol_and_are_reported():
    with served("prints") as adapter:
        live(adapter)
        assert any("append printed on stdout: loss 0.25" in note for note in adapter.notes)
        for text in ("loss 0.25", "straight to the descriptor", "from a child process"):
            assert text in adapter.stderr


def test_the_protocol_cannot_be_read_away(menagerie):
    assert gentle(menagerie, "reads_stdin").length == 0


def test_a_mutated_input_shows_in_the_callers_array():
    with served("mutates_its_input") as adapter:
        layer = adapter.build_layer(CONFIG, parameters())
        cache = adapter.build_cache(layer, 1, 4)
        first, second = rows(1.0), rows(1.0)
        adapter.append(layer, cache, first)
        adapter.append(layer, cache, second)
        assert np.array_equal(first, rows(1.0))
        assert np.array_equal(second, rows(3.0))


@pytest.mark.parametrize("name", ["keeps_its_input", "hands_out_its_storage"])
def test_memory_shared_with_the_caller_shows_in_the_cache(name):
    with served(name) as adapter:
        layer = adapter.build_layer(CONFIG, parameters())
        cache = adapter.build_cache(layer, 1, 4)
        for _ in range(2):
            adapter.append(layer, cache, rows())
        assert np.isnan(adapter.observe(cache).keys[0, 0, 0]).all()


def test_warnings_of_an_adapter_stay_with_it():
    with served("warns", environment={"PYTHONWARNINGS": "error"}) as adapter:
        assert live(adapter).length == 0


def build_and_forget(adapter, layer):
    for _ in range(40):
        adapter.build_cache(layer, 1, 4)


def test_an_object_that_sleeps_when_it_is_dropped_runs_into_the_time_limit():
    with served("sleeps_when_dropped", time_limit=0.5) as adapter:
        layer = adapter.build_layer(CONFIG, parameters())
        begun = time.monotonic()
        with pytest.raises(WireError, match=r"drop \(request .*no answer within the time limit"):
            build_and_forget(adapter, layer)
        assert time.monotonic() - begun < 5
        assert adapter.pid is None


def test_the_child_sees_the_modules_that_this_process_sees(tmp_path, monkeypatch):
    (tmp_path / "my_adapter_for_isolation.py").write_text(
        "from conformance.adapter import Declaration\n"
        "class Mine:\n    declaration = Declaration(name='mine')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with isolated("my_adapter_for_isolation:Mine") as adapter:
        assert adapter.declaration.name == "mine"
        assert adapter.pid != os.getpid()
