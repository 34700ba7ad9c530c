"""Hostile drivers that lose bits on the way, and parrots."""

import json
import struct

from driver import ZOO, Driver, hostile, raw


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
