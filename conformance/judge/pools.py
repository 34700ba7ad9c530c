"""Rules about block tables and pools, from what `Observation.extra` shows of a paged cache.

extra holds `block_size`, `block_tables` (for each lane the physical blocks in logical order), `free_blocks`
and `pool_blocks` (counts).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from conformance.judge.findings import Check
from conformance.judge.rules import Sight
from conformance.player.records import CacheView
from conformance.trace.expect import Custom

SHOWN = ("block_size", "block_tables", "free_blocks", "pool_blocks")


def _views(sight: Sight, wanted: Custom) -> list[CacheView] | Check:
    """The latest view of every named cache, or the check that says what is missing."""
    found = []
    for name in wanted.arguments["caches"]:
        view = _latest(sight, name)
        if view is None:
            return sight.check(wanted.requirement, "unobserved", f"{name} was not observed")
        missing = [part for part in SHOWN if part not in view.extra]
        if missing:
            text = f"paged is declared, but Observation.extra has no {', '.join(missing)}"
            return sight.check(wanted.requirement, "error", text)
        found.append(view)
    return found


def _latest(sight: Sight, name: str) -> CacheView | None:
    """What was last seen of a cache, up to this step."""
    for record in reversed(sight.playthrough.records[: sight.record.index + 1]):
        if name in record.after:
            return record.after[name]
    return None


def block_tables(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """Each lane names the blocks that its rows need; no block is named twice unless shared."""
    views = _views(sight, wanted)
    if isinstance(views, Check):
        yield views
        return
    for name, view in zip(wanted.arguments["caches"], views, strict=True):
        needed = -(-view.length // view.extra["block_size"])
        counts = [len(table) for table in view.extra["block_tables"]]
        if any(count != needed for count in counts):
            message = (
                f"the block tables of {name} name {counts} blocks for {view.length} rows, expected {needed}"
            )
            yield sight.check(wanted.requirement, "fail", message)
            return
    named = Counter(b for view in views for table in view.extra["block_tables"] for b in table)
    doubled = sorted(block for block, times in named.items() if times > 1)
    if doubled and not wanted.arguments["shared"]:
        yield sight.check(wanted.requirement, "fail", f"blocks {doubled} stand in more than one table")
    else:
        yield sight.check(wanted.requirement, "pass")


def pool_adds_up(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """Free blocks and named ones make up the pool."""
    views = _views(sight, wanted)
    if isinstance(views, Check):
        yield views
        return
    latest = _latest(sight, sight.record.operation.target) or views[-1]
    free, pool = latest.extra["free_blocks"], latest.extra["pool_blocks"]
    named = {block for view in views for table in view.extra["block_tables"] for block in table}
    ok = free + len(named) == pool
    message = "" if ok else f"{free} free and {len(named)} named blocks in a pool of {pool}"
    yield sight.check(wanted.requirement, "pass" if ok else "fail", message)


def free_blocks(sight: Sight, wanted: Custom) -> Iterator[Check]:
    """How many blocks are free."""
    view = _latest(sight, wanted.arguments["cache"])
    if view is None or "free_blocks" not in view.extra:
        yield sight.check(wanted.requirement, "error", "paged is declared, but free_blocks is not shown")
        return
    free, expected = view.extra["free_blocks"], wanted.arguments["free"]
    message = "" if free == expected else f"{free} blocks are free, expected {expected}"
    yield sight.check(wanted.requirement, "fail" if message else "pass", message)


POOL_RULES = {rule.__name__: rule for rule in (block_tables, pool_adds_up, free_blocks)}
