"""A paged cache in the manner of PagedAttention (Kwon et al. 2023): blocks, block tables, copy on write.

`BlockPool` owns the physical blocks, `PagedCache` the block tables of one cache; `PagedLayerCache` binds
such a cache to a layer, and `append` is its checked step.
"""

from reference_impl.paged.cache import PagedCache
from reference_impl.paged.layer import PagedLayerCache, append, attend_blocks
from reference_impl.paged.pool import BlockPool

__all__ = ["BlockPool", "PagedCache", "PagedLayerCache", "append", "attend_blocks"]
