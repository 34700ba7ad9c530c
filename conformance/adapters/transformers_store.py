"""The cache classes of transformers: `DynamicCache`, which grows, and `StaticCache`, of fixed size.

The library's objects are driven by the library's methods, `update`, `get_seq_length`, `crop`,
`reorder_cache` and `reset`; the adapter only says what their exceptions mean. Extra: `transformers`.
"""

from __future__ import annotations

import copy
from typing import Any

from conformance.adapter import Declaration
from conformance.errors import AdapterError
from conformance.rejections import Rejected
from conformance.values import Observation, StoreConfig

FEATURES = ("truncate", "fork", "reorder")


class TransformersStoreAdapter:
    """Level store; `static` says which of the two classes."""

    def __init__(self, *, static: bool) -> None:
        """Raises AdapterError where torch or transformers is missing."""
        try:
            import torch  # noqa: PLC0415 - an extra
            import transformers  # noqa: PLC0415 - an extra
        except ImportError as error:
            name = "transformers-static" if static else "transformers-dynamic"
            raise AdapterError(
                f"the adapter {name!r} needs torch and transformers ({error}); install them with "
                f"pip install 'kv-conformance[transformers]'"
            ) from error
        self.torch: Any = torch
        self.library: Any = transformers
        self.static = static
        self.declaration = Declaration(
            name=f"transformers {'StaticCache' if static else 'DynamicCache'}",
            version=str(transformers.__version__),
            levels=("store",),
            features=frozenset(FEATURES),
            rows_per_append="any",
            capacity="exact" if static else "growing",
        )

    def build_store(self, config: StoreConfig, batch_size: int, capacity: int | None = None) -> Any:  # noqa: ARG002
        """A cache without rows; the library learns batch size, heads and widths from the first of them."""
        if not self.static:
            return self.library.DynamicCache()
        shape = self.library.PreTrainedConfig(num_hidden_layers=config.layers)
        return self.library.StaticCache(config=shape, max_cache_len=capacity)

    def append(self, store: Any, layer: int, keys: Any, values: Any) -> tuple[Any, Any]:
        """What `update` hands back; of a static cache, which hands back all slots, the used ones."""
        try:
            shown = store.update(self.torch.from_numpy(keys), self.torch.from_numpy(values), layer)
        except IndexError as error:
            raise Rejected("full", str(error)) from error
        used = int(store.get_seq_length(layer))
        return shown[0][:, :, :used], shown[1][:, :, :used]

    def observe(self, store: Any, layer: int) -> Observation:
        """One layer; buffers are there from the first update on."""
        used = int(store.get_seq_length(layer))
        held = store.layers[layer] if layer < len(store.layers) else None
        if held is None or held.keys is None:
            return Observation(used)
        capacity = held.get_max_length() if self.static else None
        return Observation(used, capacity, held.keys[:, :, :used], held.values[:, :, :used])

    def reset(self, store: Any) -> None:
        """The library's own reset."""
        store.reset()

    def truncate(self, store: Any, length: int) -> None:
        """`crop`, which takes the number of rows to remove as a negative number."""
        try:
            store.crop(length - int(store.get_seq_length(0)))
        except (ValueError, RuntimeError) as error:
            raise Rejected("invalid_length", str(error)) from error

    def fork(self, store: Any) -> Any:
        """A deep copy, as the library's guide makes one of a prompt that is used again."""
        return copy.deepcopy(store)

    def reorder(self, store: Any, lanes: list[int]) -> None:
        """`reorder_cache`, as beam search calls it."""
        try:
            store.reorder_cache(self.torch.tensor(lanes))
        except IndexError as error:
            raise Rejected("lane_out_of_range", str(error)) from error


def transformers_dynamic() -> TransformersStoreAdapter:
    """The built-in adapter `transformers-dynamic`."""
    return TransformersStoreAdapter(static=False)


def transformers_static() -> TransformersStoreAdapter:
    """The built-in adapter `transformers-static`."""
    return TransformersStoreAdapter(static=True)
