"""Every request of every level and feature, from the client's method to the adapter's and back."""

import math
import sys

import numpy as np
import pytest

from conformance.adapter import FEATURES
from conformance.values import AttentionConfig, DecoderConfig, RopeConfig, Step, StoreConfig
from conformance.wire import isolated
from tests.zoo.exercise import CONFIG, LEVELS, parameters
from tests.zoo.levels import Everything

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="drivers need a POSIX system")


@pytest.fixture(scope="module", params=["decimal", "bits"])
def adapter(request):
    with isolated(f"{LEVELS}:everything", numbers=request.param) as everything:
        yield everything


def calls(adapter, target, *layer):
    return list(adapter.observe(target, *layer).extra["calls"])


def test_the_declaration_travels_whole(adapter):
    assert adapter.declaration == Everything.declaration
    assert adapter.declaration.features == frozenset(FEATURES)


def test_layer(adapter):
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, np.int64(2), 4)
    step = adapter.append(layer, cache, np.array([[[1e-320, -0.0, 0.1, np.nan]]]))
    assert isinstance(step, Step)
    assert step.output.tobytes() == np.array([[[2e-320, -0.0, 0.2, np.nan]]]).tobytes()
    adapter.reset(cache)
    said = calls(adapter, cache)
    assert said[0].startswith(f"build_layer({CONFIG!r}, LayerParameters(query=array([[1., 0.,")
    assert said[1:] == [
        "build_cache('build_layer 1', 2, 4)",
        "append('build_layer 1', 'build_cache 2', [[[1e-320, -0.0, 0.1, nan]]])",
        "reset('build_cache 2')",
    ]


def test_attention(adapter):
    cache = adapter.build_cache(AttentionConfig(4, 2, 3, 5), 1, 8)
    query, key, value = (np.full((1, 1, 1, 1), n) for n in (1.0, np.inf, -np.inf))
    assert adapter.append(cache, query, key, value).output[0, 0, 0, 0] == -np.inf
    built, appended = calls(adapter, cache)
    assert built == f"build_cache({AttentionConfig(4, 2, 3, 5)!r}, 1, 8)"
    assert appended == "append('build_cache 1', [[[[1.0]]]], [[[[inf]]]], [[[[-inf]]]])"


def test_store(adapter):
    store = adapter.build_store(StoreConfig(2, 1, 1, 1), 1)
    keys, values = np.ones((1, 1, 1, 1), np.float32), np.zeros((1, 1, 1, 1), np.float32)
    prefix = adapter.append(store, 0, keys, values)
    assert [array.dtype for array in prefix] == [np.float32] * 2
    assert [float(array[0, 0, 0, 0]) for array in prefix] == [2.0, 1.0]
    assert adapter.append(store, 1, keys, values) is None
    adapter.build_store(StoreConfig(2, 1, 1, 1), 1, 3)
    said = calls(adapter, store, 1)
    assert said[0] == f"build_store({StoreConfig(2, 1, 1, 1)!r}, 1, None)"
    assert said[1] == "append('build_store 1', 0, [[[[1.0]]]], [[[[0.0]]]])"
    assert said[3].endswith(", 1, 3)")


def test_decoder(adapter):
    config = DecoderConfig(5, 2, CONFIG, 6, 1e-5, "learned", False, True)
    model = adapter.build_model(config, {"head.weight": np.eye(2)})
    session = adapter.open(model, 1, 8)
    logits = adapter.prefill(session, np.array([[1, 2]]))
    assert logits.dtype == np.float32
    assert logits.tobytes() == np.float32([[[1.5, -0.0]]]).tobytes()
    adapter.decode(session, np.array([3], dtype=np.int32))
    adapter.close(session)
    assert adapter.full_prefix(model, np.array([[1, 2, 3]])).shape == (1, 1, 2)
    said = calls(adapter, session, 0)
    assert said[0] == f"build_model({config!r}, {{'head.weight': array([[1., 0.],\n       [0., 1.]])}})"
    assert said[1:] == [
        "open('build_model 1', 1, 8)",
        "prefill('open 2', [[1, 2]])",
        "decode('open 2', [3])",
        "close('open 2')",
        "full_prefix('build_model 1', [[1, 2, 3]])",
    ]


def test_features(adapter):
    layer = adapter.build_layer(CONFIG, parameters())
    cache = adapter.build_cache(layer, 1, 4)
    calls(adapter, cache)
    fork = adapter.fork(cache)
    other = adapter.rewire(layer, fresh=("key", "value"))
    config = type(CONFIG)(4, 1, 1, 4, RopeConfig(math.nextafter(100.0, 200.0), "half", 8))
    adapter.rewire(other, config=config)
    adapter.build_paged(layer, 1, 4, block_size=2, blocks=3)
    adapter.build_paged(layer, 1, 4, block_size=2, blocks=3, shared_with=cache)
    adapter.truncate(fork, 0)
    adapter.reorder(cache, [0, 0])
    adapter.poison(cache, float("nan"))
    adapter.update_parameters(layer, {"key": np.ones((1, 1))})
    adapter.overwrite_row(cache, 1, 6, np.array([0.5]))
    assert adapter.full_prefix(layer, np.ones((1, 1, 1))).shape == (1, 1, 2)
    keys, values = adapter.snapshot(cache)
    assert (keys.sum(), values.sum()) == (2.0, 0.0)
    assert calls(adapter, cache) == [
        "fork('build_cache 2')",
        "rewire('build_layer 1', config=None, fresh=('key', 'value'))",
        f"rewire('rewire 2', config={config!r}, fresh=())",
        "build_paged('build_layer 1', 1, 4, block_size=2, blocks=3, shared_with=None)",
        "build_paged('build_layer 1', 1, 4, block_size=2, blocks=3, shared_with='build_cache 2')",
        "truncate('fork 1', 0)",
        "reorder('build_cache 2', [0, 0])",
        "poison('build_cache 2', nan)",
        "update_parameters('build_layer 1', {'key': array([[1.]])})",
        "overwrite_row('build_cache 2', 1, 6, [0.5])",
        "full_prefix('build_layer 1', [[[1.0]]])",
        "snapshot('build_cache 2')",
    ]


def test_extra_travels_with_its_arrays(adapter):
    store = adapter.build_store(StoreConfig(1, 1, 1, 1), 1)
    extra = adapter.observe(store, 0).extra
    assert extra["table"].tolist() == [0, 1, 2]
    assert extra["nested"] == {"blocks": (1, 2)}
