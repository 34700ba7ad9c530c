"""The life of a driver: when it starts, what outlives it, and that nothing is left behind."""

import gc
import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from conformance.adapter import Adapter
from conformance.errors import AdapterError
from conformance.wire import WireAdapter, WireError
from tests.zoo.exercise import CONFIG, HOSTILE, live, marked, parameters, rows

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")


def command(name="behaves"):
    return [sys.executable, "-S", "-E", str(HOSTILE), name]


@pytest.fixture
def adapter():
    with WireAdapter(command()) as behaving:
        yield behaving


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_the_driver_starts_at_the_first_need_of_it(adapter):
    assert adapter.pid is None
    assert adapter.declaration.name == "hostile"
    assert alive(adapter.pid)
    assert isinstance(adapter, Adapter)


def test_no_shell_runs(tmp_path):
    target = tmp_path / "made by a shell"
    adapter = WireAdapter(
        f"{sys.executable} -c 'import sys; sys.exit(len(sys.argv))' $HOME ; touch '{target}'"
    )
    with pytest.raises(WireError, match="exited with status 5"):
        live(adapter)
    assert not target.exists()


@pytest.mark.parametrize("given", ["", "   ", []])
def test_a_command_without_a_program_is_refused_at_once(given):
    with pytest.raises(AdapterError, match="names no program"):
        WireAdapter(given)


@pytest.mark.parametrize("limit", [0, -1, float("nan")])
def test_a_time_limit_must_be_above_zero(limit):
    with pytest.raises(AdapterError, match="must be above 0"):
        WireAdapter(["true"], time_limit=limit)


def test_a_program_that_is_not_there_is_said_once_and_kept():
    adapter = WireAdapter("/no/such/driver --fast")
    for _ in range(2):
        with pytest.raises(WireError, match=r"/no/such/driver.*cannot be started.*No such file") as caught:
            live(adapter)
    assert "without a shell" in str(caught.value)


@pytest.mark.parametrize(("mode", "advice"), [(0o600, "chmod"), (0o700, "first line such as #!")])
def test_a_script_that_cannot_start_is_told_what_it_lacks(tmp_path, mode, advice):
    script = tmp_path / "driver.rb"
    script.write_text("puts 1\n")
    script.chmod(mode)
    with pytest.raises(WireError, match="cannot be started") as caught:
        live(WireAdapter([str(script)]))
    assert str(caught.value).startswith(f"`{script}`: ")
    assert advice in str(caught.value)


def test_closing_says_goodbye_and_a_later_call_starts_afresh(adapter):
    live(adapter)
    first = adapter.pid
    adapter.close_process()
    assert adapter.pid is None
    assert not alive(first)
    live(adapter)
    assert adapter.pid not in (None, first)


def test_handles_of_an_ended_process_are_refused(adapter):
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 1, 4)
    os.kill(adapter.pid, signal.SIGKILL)
    with pytest.raises(WireError, match="SIGKILL"):
        adapter.observe(cache)
    with pytest.raises(WireError, match=r"cache 2 is gone with its process.*build it again"):
        adapter.observe(cache)
    assert live(adapter).length == 0
    with pytest.raises(WireError, match="layer 1 is gone with its process"):
        adapter.build_cache(layer, 1, 4)


def test_what_is_no_handle_is_refused_by_name(adapter):
    for call in (adapter.observe, adapter.reset, adapter.append, adapter.fork):
        with pytest.raises(AdapterError, match="'a cache' is not an object that this driver has built"):
            call("a cache")


def test_what_nobody_holds_is_dropped_in_batches(adapter):
    asked = []
    layer = adapter.build_layer(CONFIG, parameters())
    for _ in range(100):
        adapter.build_cache(layer, 1, 4)
        gc.collect(0)
        asked += [sent for sent, _ in adapter.take_exchanges() if b'"drop"' in sent]
    dropped = [
        number for line in asked for number in range(200) if f"{number}" in line.decode().split("[")[1]
    ]
    assert len(asked) == 3
    assert len(dropped) >= 96


def test_the_end_of_the_adapter_is_the_end_of_the_driver():
    mark = f"zoo-{uuid.uuid4().hex}"
    adapter = WireAdapter(command(), environment={"ZOO": mark})
    live(adapter)
    assert len(marked(mark)) == 1
    del adapter
    gc.collect()
    assert not marked(mark)


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "raise RuntimeError", "os.abort()"])
def test_the_end_of_the_program_is_the_end_of_the_driver(ending):
    mark = f"zoo-{uuid.uuid4().hex}"
    program = (
        "import os, sys; from conformance.wire import WireAdapter\n"
        f"adapter = WireAdapter({command()!r}, environment={{'ZOO': '{mark}'}})\n"
        f"adapter.declaration; print(adapter.pid); sys.stdout.flush()\n{ending}\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False
    )
    assert int(result.stdout)
    until = time.monotonic() + 5
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.02)
    assert not marked(mark)
    assert ending or not result.stderr


def test_a_fork_of_the_program_leaves_the_driver_alone(adapter):
    live(adapter)
    child = os.fork()
    if child == 0:
        adapter._driver.conversation._child._finalizer()
        os._exit(0)
    os.waitpid(child, 0)
    assert live(adapter).length == 0


def test_no_file_descriptor_is_left_open():
    def count():
        return len(list(Path("/proc/self/fd").iterdir()))

    live_once = WireAdapter(command("exits_with_3"))
    before = count()
    for _ in range(3):
        with pytest.raises(WireError):
            live(live_once)
    assert count() == before


def test_numbers_as_bits_must_be_spoken_by_the_driver():
    with pytest.raises(WireError, match="'decimal' came, bits was asked for"):
        live(WireAdapter(command(), numbers="bits"))


def test_an_error_carries_its_parts():
    with pytest.raises(WireError) as caught:
        live(WireAdapter(command("exits_with_3")))
    error = caught.value
    assert error.asked == "append (request 6)"
    assert error.status == "had exited with status 3"
    assert error.stderr == "fatal: the cheese has run out"
    assert error.command.endswith("exits_with_3")


def test_a_large_request_is_written_while_the_reply_is_awaited(adapter):
    wide = np.ones((1, 1, 300_000))
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 1, 4)
    assert adapter.append(layer, cache, wide).output.shape == wide.shape
    assert adapter.append(layer, cache, rows()).output.shape == (1, 1, 4)


def test_a_driver_that_does_not_read_a_large_request_runs_into_the_limit():
    adapter = WireAdapter(command("reads_no_more"), time_limit=0.3)
    begun = time.monotonic()
    with pytest.raises(WireError, match=r"build_layer.*no answer"):
        adapter.build_layer(CONFIG, parameters(400))
    assert time.monotonic() - begun < 3


def test_an_interrupt_of_the_user_ends_the_driver(adapter, monkeypatch):
    live(adapter)
    process = adapter.pid

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(adapter._driver.conversation._child, "exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live(adapter)
    assert not alive(process)


def test_a_child_without_environment_ends_with_the_group():
    program = (
        "import subprocess, sys, time\n"
        "null = subprocess.DEVNULL\n"
        "nap = subprocess.Popen(['sleep', '60'], env={}, stdin=null, stdout=null)\n"
        "print(nap.pid, file=sys.stderr, flush=True)\n"
        "time.sleep(60)\n"
    )
    with pytest.raises(WireError, match="no answer") as caught:
        live(WireAdapter([sys.executable, "-S", "-E", "-c", program], start_limit=0.5))
    until = time.monotonic() + 5
    while alive(int(caught.value.stderr)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not alive(int(caught.value.stderr))
