"""Adapters over the right layer that cheat the gate, one way each, to be served by a process of their own."""

import os
import time
from dataclasses import replace

import numpy as np

from conformance.adapters.numpy_layer import NumpyLayerAdapter


class MutatesInputs(NumpyLayerAdapter):
    """Right numbers, and the caller's rows doubled behind its back."""

    def append(self, layer, cache, rows):
        step = super().append(layer, cache, rows)
        rows *= 2
        return step


class PatchesNumpy(NumpyLayerAdapter):
    """Wrong numbers, and a NumPy that finds no difference anywhere."""

    def append(self, layer, cache, rows):
        step = super().append(layer, cache, rows)
        np.array_equal = lambda *_, **__: True
        np.abs = np.absolute = np.fabs = lambda x, *_, **__: np.zeros_like(x)
        return replace(step, output=step.output + 1e-3)


class KnowsByHeart(NumpyLayerAdapter):
    """The outputs of the first trace that it has seen at each length, whatever it is asked."""

    learnt = {}  # noqa: RUF012 - shared by all of its caches, as a memory is

    def append(self, layer, cache, rows):
        step = super().append(layer, cache, rows)
        known = self.learnt.setdefault((cache.length, step.output.shape), step.output)
        return replace(step, output=known)


class ClaimsWhatItLacks(NumpyLayerAdapter):
    """It declares poison and has no such method."""

    poison = None


class LacksWhatItClaims(NumpyLayerAdapter):
    """It declares evidence and work and sends neither."""

    def append(self, layer, cache, rows):
        return super().append(layer, cache, rows).output


class DeclaresLess(NumpyLayerAdapter):
    """It has every feature and declares none."""

    def __init__(self):
        super().__init__()
        self.declaration = replace(self.declaration, features=frozenset())


class LiesAboutStorage(NumpyLayerAdapter):
    """It shows buffers that are copies, so their addresses never stay."""

    def observe(self, cache):
        seen = super().observe(cache)
        return replace(seen, storage=[buffer.copy() for buffer in seen.storage])


class CrashesAtFull(NumpyLayerAdapter):
    """Right, until a cache is full: then it takes its process with it."""

    def append(self, layer, cache, rows):
        if cache.is_full:
            os.abort()
        return super().append(layer, cache, rows)


class HangsAtFull(NumpyLayerAdapter):
    """Right, until a cache is full: then it never answers again."""

    def append(self, layer, cache, rows):
        if cache.is_full:
            time.sleep(60)
        return super().append(layer, cache, rows)
