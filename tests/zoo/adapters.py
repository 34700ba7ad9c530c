"""Python adapters that misbehave, one factory each, to be served by a process of their own."""

import ctypes
import os
import sys
import time

import numpy as np

from conformance.adapter import FEATURES, Declaration, Precision
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


class Everything:
    """Every method of every level and feature: notes its calls, and answers with the simplest value."""

    declaration = Declaration(
        name="everything",
        version="2",
        levels=("store", "attention", "layer", "decoder"),
        dtypes=("float64", "float32"),
        features=frozenset(FEATURES),
        precision=Precision(storage="float32"),
        deterministic=False,
        keys="unrotated",
        heads="tiled",
        rows_per_append="any",
        capacity="growing",
        prefill_logits="last",
    )

    def __init__(self):
        self.calls = []

    def _note(self, name, *operands, **named):
        shown = [repr(x.tolist()) if isinstance(x, np.ndarray) else repr(x) for x in operands]
        self.calls.append(f"{name}({', '.join(shown + [f'{k}={v!r}' for k, v in named.items()])})")

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def method(*operands, **named):
            self._note(name, *operands, **named)
            if name.startswith(("build", "open", "fork", "rewire")):
                return f"{name} {len(self.calls)}"
            return None

        return method

    def append(self, *operands):
        self._note("append", *operands)
        if isinstance(operands[1], int):
            return None if operands[1] else (operands[2] + 1, operands[3] + 1)
        return operands[-1] * 2

    def prefill(self, *operands):
        self._note("prefill", *operands)
        return np.float32([[[1.5, -0.0]]])

    def decode(self, *operands):
        self._note("decode", *operands)
        return np.float32([[[0.5]]])

    def full_prefix(self, *operands):
        self._note("full_prefix", *operands)
        return np.ones((1, 1, 2))

    def snapshot(self, *operands):
        self._note("snapshot", *operands)
        return np.ones((1, 1, 1, 2)), np.zeros((1, 1, 1, 2))

    def observe(self, *operands):
        taken, self.calls = self.calls, []
        extra = {
            "calls": taken,
            "table": np.arange(3),
            "nested": {"blocks": (1, 2)},
            "share": np.float64(0.5),
        }
        return Observation(len(taken), extra=extra)


everything = Everything


class Rows:
    """Rows of one layer, as `Lawful` keeps them at every level."""

    def __init__(self, shape, capacity, owner=None):
        self.keys = np.zeros(shape)
        self.capacity, self.owner = capacity, owner
        self.revision = owner["revision"] if owner else 0


class Lawful:
    """Numbers of no meaning, but every rule of the protocol kept at every level."""

    declaration = Declaration(
        name="lawful",
        levels=("layer", "attention", "store", "decoder"),
        features=frozenset(FEATURES) - {"evidence", "work", "storage", "paged"},
    )

    def build_layer(self, config, parameters):
        return {"revision": 0, "config": config}

    def build_model(self, config, parameters):
        return {"revision": 0, "config": config.layer, "vocabulary": config.vocabulary}

    def build_cache(self, source, batch_size, capacity):
        owner = source if isinstance(source, dict) else None
        return Rows((batch_size, 2, 0, 2), capacity, owner)

    open = build_cache

    def build_store(self, config, batch_size, capacity):
        return [Rows((batch_size, config.kv_heads, 0, 2), capacity) for _ in range(config.layers)]

    def append(self, *operands):
        if isinstance(operands[0], list):
            store, layer, keys, _ = operands
            return self._grow(store[layer], keys)
        cache, rows = (operands[1], operands[2]) if isinstance(operands[0], dict) else operands[:2]
        if isinstance(operands[0], dict) and operands[0] is not cache.owner:
            raise Rejected("cache_layer_mismatch")
        if cache.owner and cache.owner["revision"] != cache.revision:
            raise Rejected("cache_layer_revision_mismatch", parameter=1, expected=0, found=1)
        if rows.shape[0] != cache.keys.shape[0]:
            raise Rejected("input_batch_mismatch", expected=cache.keys.shape[0], found=rows.shape[0])
        if not np.isfinite(rows).all():
            raise Rejected("non_finite", value=float("nan"))
        self._grow(cache, rows.reshape(rows.shape[0], 2, 1, 2))
        return rows * 1.0

    def _grow(self, cache, rows):
        if cache.capacity is not None and cache.keys.shape[2] + rows.shape[2] > cache.capacity:
            raise Rejected("full", expected=cache.capacity)
        cache.keys = np.concatenate([cache.keys, rows], axis=2)

    def prefill(self, session, tokens):
        if session.keys.shape[2]:
            raise Rejected("prefill_not_empty")
        self._grow(session, np.ones((tokens.shape[0], 2, tokens.shape[1], 2)))
        return np.ones((*tokens.shape, session.owner["vocabulary"]))

    def decode(self, session, tokens):
        if session.revision != session.owner["revision"]:
            raise Rejected("stale_parameters")
        return np.ones((tokens.shape[0], 1, session.owner["vocabulary"]))

    def full_prefix(self, source, rows):
        return np.ones((*rows.shape[:2], source.get("vocabulary", rows.shape[-1])))

    def observe(self, cache, layer=None):
        rows = cache[layer] if isinstance(cache, list) else cache
        return Observation(rows.keys.shape[2], rows.capacity, rows.keys, rows.keys)

    def snapshot(self, cache, layer=None):
        seen = self.observe(cache, layer)
        return seen.keys, seen.values

    def truncate(self, cache, length):
        for rows in cache if isinstance(cache, list) else [cache]:
            rows.keys = rows.keys[:, :, :length]

    def reset(self, cache):
        self.truncate(cache, 0)

    def fork(self, cache):
        return cache

    def poison(self, cache, value):
        return None

    def reorder(self, cache, lanes):
        return None

    def close(self, session):
        return None

    def rewire(self, layer, *, config=None, fresh=()):
        return dict(layer)

    def update_parameters(self, layer, parameters):
        layer["revision"] += 1


lawful = Lawful
