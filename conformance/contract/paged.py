"""What a cache in blocks must keep, so that its history cannot be told from a contiguous one."""

from __future__ import annotations

from conformance.contract.model import Requirement

KWON = "Kwon et al. 2023, section 4: logical blocks on non-contiguous physical memory"


def _paged(name: str, sentence: str, look: str = "") -> Requirement:
    return Requirement(
        id=f"PAGED-{name}",
        sentence=sentence,
        levels=("layer",),
        profiles=("paged",),
        needs=frozenset({"paged"}),
        source=KWON,
        look=look,
    )


REQUIREMENTS = (
    _paged(
        "EDGES",
        "Rows and outputs MUST be the exact ones at every length from 1 to beyond two blocks, whatever the "
        "block size, from 1 to more than the capacity.",
        "a new block taken one row late or early, the last block read whole, pool order for table order",
    ),
    _paged(
        "TABLE",
        "After every append each lane's block table MUST name exactly ceil(n / block size) blocks, and no "
        "block may stand in two tables unless a fork or a reorder shares it.",
        "a table that is not trimmed, a block handed out twice",
    ),
    _paged(
        "POOL",
        "The free blocks and those that tables name MUST make up the pool; after every cache is reset the "
        "pool is whole again.",
        "blocks lost by a refused append, a truncation or a copy on write",
    ),
    _paged(
        "REUSE",
        "A block that comes back and is handed to another sequence MUST leak nothing of what it held.",
        "a partial block read whole, a freed table still in use",
    ),
    _paged(
        "SHARE",
        "A fork MUST share the blocks of its origin, and a write into a shared block MUST be seen by its "
        "writer "
        "alone, also inside a block.",
        "no copy on write, or a copy of every block",
    ),
    _paged(
        "EXHAUSTED",
        "An append that needs more blocks than are free MUST be refused as blocks_exhausted with no block "
        "taken and no row written, and MUST work once blocks have come back.",
        "blocks of the first lane taken before the second lane was refused",
    ),
    _paged("ZERO-BLOCK", "A block size of 0 MUST be refused as zero_block_size."),
)
