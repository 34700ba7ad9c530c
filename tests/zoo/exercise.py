"""A short life with an adapter, and a look at what it leaves behind."""

from pathlib import Path

import numpy as np

from conformance.values import LayerConfig, LayerParameters, RopeConfig

HOSTILE = Path(__file__).with_name("hostile.py")
ADAPTERS = Path(__file__).with_name("adapters.py")
LEVELS = Path(__file__).with_name("levels.py")
CONFIG = LayerConfig(4, 2, 2, 2, RopeConfig(100.0, "adjacent", 8))


def parameters(width=4):
    return LayerParameters(*(np.eye(width) * scale for scale in (1.0, 0.5, 0.25, 2.0)))


def rows(seed=1.0):
    return np.full((1, 1, 4), seed)


def live(adapter, capacity=4):
    """Build, append, look, reset, look: raises whatever comes of it."""
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 1, capacity)
    for step in range(2):
        adapter.append(layer, cache, rows(step + 1.0))
    adapter.observe(cache)
    if "full_prefix" in adapter.declaration.features:
        adapter.full_prefix(layer, np.ones((1, 2, 4)))
    adapter.reset(cache)
    return adapter.observe(cache)


def marked(text):
    """Processes that carry `text` in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if text.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found
