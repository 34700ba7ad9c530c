"""Hostile drivers that hang, die, flood, or have children."""

import json
import os
import signal
import time

from driver import LINES, ZOO, AtAppend, Driver, at_append, forever, hostile, raw, send

# ---- hangs


@hostile
def hangs_at_once():
    forever()


@hostile
def hangs_in_the_hello():
    next(LINES)
    raw(b'{"seq": 1, "res')
    forever()


@at_append
def hangs_before_the_reply(request, result):
    forever()


@at_append
def hangs_in_the_middle_of_the_reply(request, result):
    raw(b'{"seq": ' + str(request["seq"]).encode())
    forever()


@at_append
def hangs_after_the_reply(request, result):
    send({"seq": request["seq"], "result": result})
    forever()


@hostile
def reads_no_more():
    driver = Driver()
    for _ in range(2):
        request = json.loads(next(LINES))
        driver.reply(request, driver.answer(request))
    forever()


@at_append
def drips(request, result):
    for byte in b'{"seq": ' + b" " * 10**6:
        raw(bytes([byte]))
        time.sleep(0.02)


@at_append
def stops_itself(request, result):
    os.kill(os.getpid(), signal.SIGSTOP)
    forever()


@at_append
def ignores_every_signal_and_hangs(request, result):
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)
    forever()


# ---- floods


@at_append
def floods_without_a_line_end(request, result):
    while True:
        raw(b"a" * 65536)


@at_append
def floods_with_lines(request, result):
    while True:
        raw(b'{"seq": 1, "result": null}\n' * 1000)


@at_append
def floods_stderr(request, result):
    while True:
        os.write(2, b"all is well\n" * 5000)


@at_append
def writes_a_line_of_a_gigabyte(request, result):
    raw(b'{"seq": %d, "result": "' % request["seq"])
    for _ in range(1024):
        raw(b"x" * 2**20)
    raw(b'"}\n')


@at_append
def writes_millions_of_values(request, result):
    raw(b'{"seq": %d, "result": [' % request["seq"] + b"0.5," * 4_000_000 + b"0.5]}\n")


@at_append
def writes_millions_of_lists(request, result):
    raw(b'{"seq": %d, "result": [' % request["seq"] + b"[]," * 4_000_000 + b"[]]}\n")


# ---- deaths


def dies_by(name):
    def work(request, result):
        signal.signal(signal.Signals[name], signal.SIG_DFL) if name != "SIGKILL" else None
        os.kill(os.getpid(), signal.Signals[name])
        forever()

    ZOO[f"dies_by_{name}"] = lambda: AtAppend(work).run()


for deadly in (
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGHUP",
    "SIGILL",
    "SIGINT",
    "SIGKILL",
    "SIGPIPE",
    "SIGSEGV",
    "SIGTERM",
    "SIGXCPU",
):
    dies_by(deadly)


@at_append
def exits_with_0(request, result):
    os._exit(0)


@at_append
def exits_with_3(request, result):
    os.write(2, b"fatal: the cheese has run out\n")
    os._exit(3)


@hostile
def exits_at_once():
    os._exit(7)


@at_append
def closes_its_stdout(request, result):
    os.close(1)
    forever()


@at_append
def closes_its_stdin(request, result):
    send({"seq": request["seq"], "result": result})
    os.close(0)
    forever()


@at_append
def closes_everything(request, result):
    os.closerange(0, 10)
    forever()


@at_append
def eats_its_memory(request, result):
    import resource  # noqa: PLC0415

    resource.setrlimit(resource.RLIMIT_AS, (2**28, 2**28))
    hoard = []
    while True:
        hoard.append(bytearray(2**24))


# ---- families


@at_append
def forks_and_leaves(request, result):
    if os.fork():
        os._exit(0)
    forever()


@at_append
def forks_a_daemon(request, result):
    if not os.fork():
        os.setsid()
        if not os.fork():
            forever()
        os._exit(0)
    forever()


@at_append
def forks_twenty_and_hangs(request, result):
    for _ in range(20):
        if not os.fork():
            forever()
    forever()
