"""A driver that keeps every rule of the protocol, and ways to make it misbehave at one moment."""

import json
import os
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
