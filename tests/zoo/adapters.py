"""Python adapters that misbehave, one factory each, to be served by a process of their own."""

import ctypes
import os
import sys
import time

import numpy as np

from conformance.adapter import Declaration
from conformance.rejections import Rejected
from conformance.values import Observation, Step


class Cache:
    def __init__(self, batch_size, capacity):
        self.storage = [np.zeros((batch_size, 2, capacity, 2)) for _ in range(2)]
        self.length = 0


class Behaving:
    """An adapter that keeps the rules; its numbers are its input's."""

    declaration = Declaration(
        name="served", features=frozenset({"storage"}), rejections={LookupError: "full"}
    )

    def build_layer(self, config, parameters):
        return parameters

    def build_cache(self, layer, batch_size, capacity):
        return Cache(batch_size, capacity)

    def append(self, layer, cache, rows):
        if cache.length == cache.storage[0].shape[2]:
            raise IndexError("no slot is left")
        for buffer in cache.storage:
            buffer[:, :, cache.length] = rows.reshape(-1, 2, 2)
        cache.length += 1
        return self.step(cache, rows)

    def step(self, cache, rows):
        return Step(output=rows * 2, key=rows.reshape(-1, 2, 1, 2).copy(), length=cache.length)

    def observe(self, cache):
        keys, values = (buffer[:, :, : cache.length] for buffer in cache.storage)
        return Observation(cache.length, cache.storage[0].shape[2], keys, values, cache.storage)

    def reset(self, cache):
        cache.length = 0


class UnreadableError(Exception):
    def __str__(self):
        raise RuntimeError("no text for you")


def at_step(mischief):
    """An adapter whose second append does `mischief(adapter, cache, rows)`."""

    class AtStep(Behaving):
        def step(self, cache, rows):
            changed = mischief(self, cache, rows) if cache.length == 2 else None
            return super().step(cache, rows) if changed is None else changed

    AtStep.mischief = staticmethod(mischief)
    return AtStep


def raising(error):
    def mischief(*_):
        raise error

    return at_step(mischief)


behaving = Behaving
raises_keyboard_interrupt = raising(KeyboardInterrupt())
raises_system_exit = raising(SystemExit(4))
raises_memory_error = raising(MemoryError("all gone"))
raises_generator_exit = raising(GeneratorExit())
raises_without_text = raising(UnreadableError())
raises_a_kind_of_its_own = raising(Rejected("full", "enough", expected=(1, 2), found=float("nan")))


@at_step
def recurses(adapter, cache, rows):
    def deeper(n):
        return deeper(n + 1) + 1

    deeper(0)


@at_step
def aborts(*_):
    os.abort()


@at_step
def exits_for_good(*_):
    os._exit(5)


@at_step
def reads_address_zero(*_):
    ctypes.string_at(0)


@at_step
def spins(*_):
    while True:
        pass


@at_step
def sleeps(*_):
    time.sleep(60)


@at_step
def eats_memory(*_):
    hoard = []
    while True:
        hoard.append(np.empty(2**24))


@at_step
def closes_every_file(*_):
    os.closerange(0, 64)


@at_step
def prints(adapter, cache, rows):
    print("loss 0.25")
    os.write(1, b"straight to the descriptor\n")
    os.system("echo from a child process")


@at_step
def reads_stdin(*_):
    assert sys.stdin.read() == ""
    assert os.read(0, 10) == b""


@at_step
def mutates_its_input(adapter, cache, rows):
    rows *= 3


@at_step
def keeps_its_input(adapter, cache, rows):
    cache.storage[0] = rows.reshape(1, 2, 1, 2)
    cache.length = 1


@at_step
def hands_out_its_storage(adapter, cache, rows):
    return Step(output=rows * 2, key=cache.storage[0][:, :, :1])


@at_step
def returns_a_list(adapter, cache, rows):
    return rows.tolist()


@at_step
def returns_text(adapter, cache, rows):
    return np.array(["zero"])


@at_step
def returns_objects(adapter, cache, rows):
    return np.array([object()])


@at_step
def patches_numpy(adapter, cache, rows):
    def broken(*_, **__):
        raise ValueError("numpy is not what it was")

    for name in ("asarray", "array", "isfinite"):
        setattr(np, name, broken)


@at_step
def says_length_nan(adapter, cache, rows):
    cache.length = float("nan")
    return rows


@at_step
def says_length_minus_one(adapter, cache, rows):
    cache.length = -1
    return rows


@at_step
def warns(adapter, cache, rows):
    np.zeros(1) / np.zeros(1)


class Sleeper(Cache):
    def __del__(self):
        time.sleep(60)


class SleepsWhenDropped(Behaving):
    def build_cache(self, layer, batch_size, capacity):
        return Sleeper(batch_size, capacity)


sleeps_when_dropped = SleepsWhenDropped


def factory_raises():
    raise OSError("no licence found")


def factory_exits():
    sys.exit("no licence found")


class Undeclared:
    pass


undeclared = Undeclared


class LacksReset(Behaving):
    reset = None


lacks_reset = LacksReset

GENTLE = {
    name: made.mischief
    for name, made in list(globals().items())
    if name.startswith(("raises_", "returns_", "says_", "recurses", "reads_stdin"))
    and hasattr(made, "mischief")
}
"""Mischief that leaves the process standing, so that one process serves for all of it."""


class Menagerie(Behaving):
    """The capacity of a cache says which mischief its second append does: 10 for the first of GENTLE."""

    def step(self, cache, rows):
        index = cache.storage[0].shape[2] - 10
        mischief = list(GENTLE.values())[index]
        changed = mischief(self, cache, rows) if cache.length == 2 else None
        return super().step(cache, rows) if changed is None else changed


menagerie = Menagerie
