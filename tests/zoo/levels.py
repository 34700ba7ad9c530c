"""Python adapters that answer at every level: one that notes its calls, one that keeps the rules."""

import numpy as np

from conformance.adapter import FEATURES, Declaration, Precision
from conformance.rejections import Rejected
from conformance.values import Observation


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
