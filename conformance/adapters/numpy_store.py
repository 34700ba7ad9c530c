"""The embedded stores: forge's growing one and one of fixed capacity. Level store."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from conformance.adapter import Declaration
from conformance.adapters.numpy_layer import rejecting
from conformance.values import Observation, StoreConfig
from reference_impl.row_checks import RowShape
from reference_impl.store import FixedStore, GrowingStore

Store = FixedStore | GrowingStore


class NumpyStoreAdapter:
    """One of the two stores behind the adapter of its level; `growing` says which."""

    def __init__(self, *, growing: bool) -> None:
        self.growing = growing
        features = {"truncate", "fork", "reorder", "snapshot"} | (set() if growing else {"storage"})
        self.declaration = Declaration(
            name="growing NumPy store" if growing else "fixed NumPy store",
            levels=("store",),
            features=frozenset(features),
            rows_per_append="any",
            capacity="growing" if growing else "exact",
        )

    def build_store(self, config: StoreConfig, batch_size: int, capacity: int | None = None) -> Store:
        """An empty store; the growing one needs no capacity."""
        shape = RowShape(batch_size, config.kv_heads, config.key_width, config.value_width)
        with rejecting():
            if self.growing or capacity is None:
                return GrowingStore(config.layers, shape)
            return FixedStore(config.layers, shape, capacity)

    def append(self, store: Store, layer: int, keys: NDArray[Any], values: NDArray[Any]) -> Any:
        """The rows behind those of the layer; the growing store hands the whole prefix back."""
        with rejecting():
            return store.append(layer, keys, values)

    def observe(self, store: Store, layer: int) -> Observation:
        """One layer; an empty slot shows no arrays."""
        pair = store.get(layer)
        keys, values = pair if pair else (None, None)
        if isinstance(store, FixedStore):
            return Observation(store.length(layer), store.capacity, keys, values, store.storage)
        return Observation(store.length(layer), None, keys, values)

    def snapshot(self, store: Store) -> tuple[NDArray[Any], NDArray[Any]]:
        """Copies of the rows of layer 0."""
        pair = store.get(0)
        if pair is None:
            raise LookupError("layer 0 holds nothing, so there is nothing to copy")
        return pair[0].copy(), pair[1].copy()

    def reset(self, store: Store) -> None:
        """Empty every layer."""
        store.reset()

    def truncate(self, store: Store, length: int) -> None:
        """Keep the first `length` rows."""
        with rejecting():
            store.truncate(length)

    def fork(self, store: Store) -> Store:
        """Another store with the same rows."""
        return store.fork()

    def reorder(self, store: Store, lanes: list[int]) -> None:
        """Lane i takes what lane lanes[i] held."""
        with rejecting():
            store.reorder(lanes)


def numpy_store() -> NumpyStoreAdapter:
    """The built-in adapter `numpy-store`: fixed capacity."""
    return NumpyStoreAdapter(growing=False)


def forge_store() -> NumpyStoreAdapter:
    """The built-in adapter `forge-store`: one growing slot per layer."""
    return NumpyStoreAdapter(growing=True)
