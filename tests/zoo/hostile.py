"""Drivers that misbehave, one a name: `python hostile.py NAME`; without a name it lists them.

Each behaves well until its moment comes. Uses the standard library only and nothing of the kit.
"""

import json
import os
import signal
import struct
import sys
import time

ZOO = {}
LINES = (line for line in sys.stdin.buffer)


def hostile(work):
    ZOO[work.__name__] = work
    return work


def raw(data):
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def send(message):
    raw(json.dumps(message).encode() + b"\n")


def array(shape, value=0.0):
    count = 1
    for axis in shape:
        count *= axis
    return {"dtype": "float64", "shape": list(shape), "data": [value] * count}


class Driver:
    """A driver that keeps every rule of the protocol: a cache whose numbers are all zero."""

    declaration = {"name": "hostile", "levels": ["layer"], "features": []}  # noqa: RUF012 - never changed
    protocol = 1

    def __init__(self):
        self.length, self.handles = 0, 0

    def run(self):
        for line in LINES:
            request = json.loads(line)
            self.reply(request, self.answer(request))
            if request["method"] == "bye":
                return

    def answer(self, request):
        return getattr(self, request["method"])(request)

    def reply(self, request, result):
        send({"seq": request["seq"], "result": result})

    def hello(self, request):
        return {"protocol": self.protocol, "declaration": self.declaration, "numbers": "decimal"}

    def echo(self, request):
        special = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
        numbers = [special.get(x, x) for x in request["values"]["data"]]
        bits = [struct.pack(">d", x).hex() for x in numbers]
        return {"values": request["values"], "bits": bits}

    def build_layer(self, request):
        self.handles += 1
        return {"handle": self.handles}

    build_cache = build_layer

    def append(self, request):
        self.length += 1
        return {"output": array(request["rows"]["shape"])}

    def observe(self, request):
        return {"length": self.length, "keys": array([1, 1, self.length, 2])}

    def reset(self, request):
        self.length = 0

    def drop(self, request):
        return None

    bye = drop


class AtAppend(Driver):
    """Does its mischief when the second row is appended."""

    def __init__(self, mischief):
        super().__init__()
        self.mischief = mischief

    def reply(self, request, result):
        if request["method"] == "append" and self.length == 2:
            self.mischief(request, result)
        else:
            super().reply(request, result)


class Answering(Driver):
    """Answers one request with a result of its own."""

    def __init__(self, method, result):
        super().__init__()
        self.method, self.result = method, result

    def answer(self, request):
        good = super().answer(request)
        return self.result if request["method"] == self.method else good


def forever():
    while True:
        time.sleep(60)


def at_append(work):
    ZOO[work.__name__] = lambda: AtAppend(work).run()
    return work


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


# ---- lines that are not the reply


@at_append
def replies_twice(request, result):
    line = json.dumps({"seq": request["seq"], "result": result}).encode() + b"\n"
    raw(line + line)


@at_append
def replies_to_the_request_before(request, result):
    send({"seq": request["seq"] - 1, "result": result})


@at_append
def replies_to_the_request_to_come(request, result):
    send({"seq": request["seq"] + 1, "result": result})


@hostile
def replies_before_it_is_asked():
    send({"seq": 1, "result": {"protocol": 1, "declaration": Driver.declaration}})
    send({"seq": 2, "result": None})
    Driver().run()


@at_append
def leaves_seq_out(request, result):
    send({"result": result})


@at_append
def says_seq_as_text(request, result):
    send({"seq": str(request["seq"]), "result": result})


@at_append
def says_seq_as_true(request, result):
    send({"seq": True, "result": result})


@at_append
def writes_an_empty_line(request, result):
    raw(b"\n")


@at_append
def prints_on_stdout(request, result):
    raw(b"step 2 done, loss 0.25\n")
    send({"seq": request["seq"], "result": result})


@at_append
def writes_a_list(request, result):
    send([request["seq"], result])


@at_append
def cuts_its_json(request, result):
    raw(json.dumps({"seq": request["seq"], "result": result}).encode()[:-5] + b"\n")


@at_append
def cuts_its_json_and_leaves(request, result):
    raw(json.dumps({"seq": request["seq"], "result": result}).encode()[:-5])
    os._exit(0)


@at_append
def writes_no_utf8(request, result):
    raw(b'{"seq": %d, "result": "\xff\xfe"}\n' % request["seq"])


@at_append
def writes_zero_bytes(request, result):
    raw(b"\x00" * 100 + b"\n")


@at_append
def writes_utf16(request, result):
    raw(json.dumps({"seq": request["seq"], "result": result}).encode("utf-16") + b"\n")


@at_append
def nests_lists(request, result):
    raw(b'{"seq": %d, "result": ' % request["seq"] + b"[" * 9000 + b"]" * 9000 + b"}\n")


@at_append
def nests_objects(request, result):
    raw(b'{"seq": %d, "result": ' % request["seq"] + b'{"a":' * 9000 + b"1" + b"}" * 9000 + b"}\n")


@at_append
def nests_a_million_lists(request, result):
    raw(b"[" * 10**6 + b"\n")


@at_append
def says_a_key_twice(request, result):
    raw(b'{"seq": %d, "result": {"output": 1}, "result": {"output": 2}}\n' % request["seq"])


@at_append
def writes_nan(request, result):
    raw(
        b'{"seq": %d, "result": {"output": {"dtype": "float64", "shape": [1], "data": [NaN]}}}\n'
        % request["seq"]
    )


@at_append
def writes_infinity(request, result):
    raw(b'{"seq": %d, "result": {"output": -Infinity}}\n' % request["seq"])


@at_append
def writes_a_number_of_5000_digits(request, result):
    raw(b'{"seq": %d, "result": %s}\n' % (request["seq"], b"7" * 5000))


@at_append
def answers_two_ways(request, result):
    send({"seq": request["seq"], "result": result, "rejected": {"kind": "full"}})


@at_append
def answers_no_way(request, result):
    send({"seq": request["seq"]})


@at_append
def misspells_rejected(request, result):
    send({"seq": request["seq"], "reject": {"kind": "full"}})


# ---- results that are wrong


def answering(name, method, result):
    ZOO[name] = lambda: Answering(method, result).run()


OUTPUT = {"dtype": "float64", "shape": [1, 1, 4]}
answering("says_a_shape_without_data", "append", {"output": {**OUTPUT, "shape": [2**30, 2**30], "data": []}})
answering("says_a_shape_of_nothing", "append", {"output": {**OUTPUT, "shape": [2**39, 2**39, 0], "data": []}})
answering("says_a_negative_shape", "append", {"output": {**OUTPUT, "shape": [-1, -1, -4], "data": [0.0] * 4}})
answering("says_a_shape_of_100_axes", "append", {"output": {**OUTPUT, "shape": [1] * 100, "data": [0.0]}})
answering("sends_less_than_it_says", "append", {"output": {**OUTPUT, "data": [0.0] * 3}})
answering("sends_nested_lists", "append", {"output": [[[0.0, 0.0, 0.0, 0.0]]]})
answering("sends_numbers_as_text", "append", {"output": {**OUTPUT, "data": ["0.0"] * 4}})
answering("sends_truth_values", "append", {"output": {**OUTPUT, "data": [True] * 4}})
answering("sends_no_output", "append", None)
answering("sends_a_null_output", "append", {"output": None})
answering("sends_another_dtype", "append", {"output": {**OUTPUT, "dtype": "complex128", "data": [0.0] * 4}})
answering("sends_an_object_dtype", "append", {"output": {**OUTPUT, "dtype": "object", "data": [0.0] * 4}})
answering("misspells_a_field", "append", {"output": {**OUTPUT, "data": [0.0] * 4}, "wieghts": None})
answering("says_length_nan", "observe", {"length": "nan"})
answering("says_length_minus_one", "observe", {"length": -1})
answering("says_length_as_a_fraction", "observe", {"length": 1.0})
answering("says_length_as_text", "observe", {"length": "1"})
answering("says_length_true", "observe", {"length": True})
answering("says_storage_without_address", "observe", {"length": 1, "storage": [{"digest": "0"}]})
answering("says_storage_as_numbers", "observe", {"length": 1, "storage": [1, 2]})
answering("gives_a_handle_twice", "build_cache", {"handle": 1})
answering("gives_a_handle_as_text", "build_layer", {"handle": "layer"})
answering("answers_reset_with_a_result", "reset", {"length": 0})
answering("speaks_another_protocol", "hello", {"protocol": 2, "declaration": Driver.declaration})
answering(
    "claims_an_unknown_feature",
    "hello",
    {"protocol": 1, "declaration": {**Driver.declaration, "features": ["speed"]}},
)
answering(
    "claims_an_unknown_level", "hello", {"protocol": 1, "declaration": {"name": "x", "levels": ["universe"]}}
)
answering("claims_nothing", "hello", {})


@at_append
def overflows_to_infinity(request, result):
    data = b'{"dtype": "float64", "shape": [1, 1, 1], "data": [1e400]}'
    raw(b'{"seq": %d, "result": {"output": %s}}\n' % (request["seq"], data))


@at_append
def overflows_as_a_whole_number(request, result):
    data = b'{"dtype": "float64", "shape": [1, 1, 1], "data": [1%s]}' % (b"0" * 400)
    raw(b'{"seq": %d, "result": {"output": %s}}\n' % (request["seq"], data))


@at_append
def refuses_with_a_kind_of_its_own(request, result):
    send({"seq": request["seq"], "rejected": {"kind": "not_in_the_mood"}})


@at_append
def answers_with_an_error(request, result):
    send({"seq": request["seq"], "error": {"type": "OutOfCheese", "message": "redo from start"}})


@hostile
def lacks_a_feature_that_it_claims():
    class Claims(Driver):
        declaration = {**Driver.declaration, "features": ["full_prefix"]}  # noqa: RUF012

        def reply(self, request, result):
            if request["method"] == "full_prefix":
                send({"seq": request["seq"], "error": {"message": "not implemented"}})
            else:
                super().reply(request, result)

        def full_prefix(self, request):
            return None

    Claims().run()


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


# ---- pipes that lose bits


class Lossy(Driver):
    def read(self, number):
        return number

    def write(self, number):
        return number

    def echo(self, request):
        special = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
        read = [self.read(special.get(x, x)) for x in request["values"]["data"]]
        written = [self.write(x) for x in read]
        said = {"nan": "nan", "inf": "inf", "-inf": "-inf"}
        return {
            "values": {**request["values"], "data": [said.get(str(x), x) for x in written]},
            "bits": [struct.pack(">d", x).hex() for x in read],
        }


def lossy(name, *, read=None, write=None):
    kept = {key: staticmethod(value) for key, value in {"read": read, "write": write}.items() if value}
    ZOO[name] = lambda: type(name, (Lossy,), kept)().run()


def float32(number):
    try:
        return struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def multiplied(number):
    """Reads a decimal as a beginner's parser does: digits times a power of ten, rounded at every step."""
    if number != number or number in (float("inf"), float("-inf")):
        return number
    digits, _, exponent = f"{number!r}".lower().partition("e")
    whole, _, fraction = digits.lstrip("-").partition(".")
    value = 0.0
    for digit in whole + fraction:
        value = value * 10 + int(digit)
    power = int(exponent or 0) - len(fraction)
    for _ in range(abs(power)):
        value = value * 10 if power > 0 else value / 10
    return -value if digits.startswith("-") else value


lossy("reads_through_float32", read=float32)
lossy("writes_through_float32", write=float32)
lossy("writes_15_digits", write=lambda x: float(f"{x:.15g}"))
lossy("writes_16_digits", write=lambda x: float(f"{x:.16g}"))
lossy("rounds_wrongly_when_it_reads", read=multiplied)
lossy("loses_the_sign_of_zero", write=lambda x: 0.0 if x == 0 else x)
lossy("flushes_subnormals", read=lambda x: 0.0 * x if abs(x) < 2.0**-1022 else x)


@hostile
def echoes_1e400():
    class Overflowing(Lossy):
        def reply(self, request, result):
            if request["method"] == "echo":
                raw(
                    json.dumps({"seq": request["seq"], "result": result}).replace('"inf"', "1e400").encode()
                    + b"\n"
                )
            else:
                super().reply(request, result)

    Overflowing().run()


@hostile
def echoes_the_text_unread():
    class Parrot(Driver):
        def echo(self, request):
            return {"values": request["values"]}

    Parrot().run()


@hostile
def behaves():
    """The control: nothing is wrong with it but its numbers."""
    Driver().run()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("\n".join(sorted(ZOO)))
    else:
        ZOO[sys.argv[1]]()
