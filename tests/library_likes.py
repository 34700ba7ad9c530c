"""What real libraries do, in a few lines of NumPy each, and what the tests of them share."""

from __future__ import annotations

import numpy as np

from conformance import AttentionConfig, Declaration, Observation, Step, check
from conformance.suite import traces


def for_each_query_head(heads, rows, *, tiled):
    """Key/value heads as the query heads read them: h // (H/G), or, tiled, h mod G."""
    group = heads // rows.shape[1]
    return np.tile(rows, (1, group, 1, 1)) if tiled else rows.repeat(group, axis=1)


def attend(query, keys, values, *, tiled=False, evidence=None):
    """Causal attention, aligned at the last row."""
    keys, values = (for_each_query_head(query.shape[1], part, tiled=tiled) for part in (keys, values))
    scores = query @ keys.swapaxes(2, 3) / np.sqrt(query.dtype.type(query.shape[3]))
    old = keys.shape[2] - query.shape[2]
    unseen = np.arange(keys.shape[2])[None, :] > np.arange(old, keys.shape[2])[:, None]
    scores = np.where(unseen, query.dtype.type(-np.inf), scores)
    weights = np.exp(scores - scores.max(axis=3, keepdims=True))
    weights /= weights.sum(axis=3, keepdims=True)
    if evidence is not None:
        evidence["weights"] = weights
    return weights @ values


class Growing:
    """As most library caches: new rows are joined to the old ones, there is no capacity and no refusal."""

    declaration = Declaration(name="growing", levels=("attention",), capacity="growing")
    tiled = False

    def build_cache(self, config: AttentionConfig, batch_size, capacity):
        dtype = self.declaration.dtypes[0]
        return {
            "keys": np.zeros((batch_size, config.kv_heads, 0, config.key_width), dtype),
            "values": np.zeros((batch_size, config.kv_heads, 0, config.value_width), dtype),
        }

    def append(self, cache, query, key, value):
        cache["keys"] = np.concatenate([cache["keys"], key], axis=2)
        cache["values"] = np.concatenate([cache["values"], value], axis=2)
        return attend(query, cache["keys"], cache["values"], tiled=self.tiled)

    def observe(self, cache):
        return Observation(cache["keys"].shape[2], None, cache["keys"], cache["values"])

    def reset(self, cache):
        cache["keys"], cache["values"] = (part[:, :, :0] for part in (cache["keys"], cache["values"]))


def declaring(kind, **claims):
    """An adapter of that class whose declaration claims something else."""
    base = {name: getattr(kind.declaration, name) for name in ("name", "levels", "capacity", "features")}
    return type(kind.__name__, (kind,), {"declaration": Declaration(**(base | claims))})()


class GrowingLayer:
    """A layer as libraries write it: halves of a head are rotated, and nothing else can be configured."""

    declaration = Declaration(
        name="growing layer", levels=("layer",), capacity="growing", features=frozenset({"chunks", "gqa"})
    )
    tiled = False

    def build_layer(self, config, parameters):
        if config.rope.pairing != "half":
            raise NotImplementedError("only halves are rotated here")
        return config, {name: np.array(part) for name, part in vars(parameters).items()}

    def build_cache(self, layer, batch_size, capacity):
        shape = (batch_size, layer[0].kv_heads, 0, layer[0].head_width)
        return {"keys": np.zeros(shape), "values": np.zeros(shape)}

    def append(self, layer, cache, rows):
        config, weights = layer
        lanes, count, _ = rows.shape
        if not count:
            return rows
        query, key, value = (
            (rows @ weights[name]).reshape(lanes, count, -1, config.head_width).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        positions = np.arange(count) + cache["keys"].shape[2]
        turned = self.rotated(query, positions, config), self.rotated(key, positions, config)
        for name, new in (("keys", turned[1]), ("values", value)):
            cache[name] = np.concatenate([cache[name], new], axis=2)
        seen = {"query": query, "key": key, "value": value, "rotated_query": turned[0]}
        heads = attend(turned[0], cache["keys"], cache["values"], tiled=self.tiled, evidence=seen)
        merged = heads.transpose(0, 2, 1, 3).reshape(lanes, count, -1)
        output = merged @ weights["output"]
        if "evidence" not in self.declaration.features:
            return output
        return Step(output, rotated_key=turned[1], heads=heads, merged=merged, **seen)

    def rotated(self, rows, positions, config):
        half = config.head_width // 2
        angles = np.outer(positions, config.rope.base ** (-2.0 * np.arange(half) / config.head_width))
        left, right = rows[..., :half], rows[..., half:]
        return np.concatenate(
            [left * np.cos(angles) - right * np.sin(angles), left * np.sin(angles) + right * np.cos(angles)],
            axis=3,
        )

    observe, reset = Growing.observe, Growing.reset


class Adjacent(GrowingLayer):
    """Rotates the other pairs."""

    def rotated(self, rows, positions, config):
        mixed = rows.reshape(*rows.shape[:-1], -1, 2).swapaxes(-1, -2).reshape(rows.shape)
        turned = super().rotated(mixed, positions, config)
        return turned.reshape(*rows.shape[:-1], 2, -1).swapaxes(-1, -2).reshape(rows.shape)


class OneEarly(GrowingLayer):
    def rotated(self, rows, positions, config):
        return super().rotated(rows, np.maximum(positions - 1, 0), config)


class Slots:
    """forge's store to the letter, with nothing but the required methods."""

    declaration = Declaration(name="slots", levels=("store",), capacity="growing", rows_per_append="any")

    def build_store(self, config, batch_size, capacity=None):
        return [None] * config.layers

    def append(self, store, layer, keys, values):
        pair = (keys.copy(), values.copy())
        old = store[layer]
        store[layer] = pair if old is None else tuple(map(self.joined, old, pair))

    def joined(self, old, new):
        return np.concatenate([old, new], axis=2)

    def observe(self, store, layer):
        held = store[layer]
        return Observation(0) if held is None else Observation(held[0].shape[2], None, *held)

    def reset(self, store):
        store[:] = [None] * len(store)


def failed(adapter, part):
    """What fails under any profile on the traces that have `part` in their names."""
    only = [trace for trace in traces(adapter.declaration) if part in trace.id]
    return {c.requirement for c in check(adapter, only=only, diagnose=False).checks if c.status == "fail"}


def standings(report):
    return {r.requirement.id: (r.standing, r.reason) for p in report.verdict.profiles for r in p.results}
