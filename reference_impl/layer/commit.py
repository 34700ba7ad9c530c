"""The commit of prepared steps: a stack of caches is committed all together or not at all."""

from __future__ import annotations

from collections.abc import Iterable

from reference_impl.layer.cache import LayerCache
from reference_impl.layer.ticket import Ticket
from reference_impl.layer_errors import TicketMismatchError


def commit(cache: LayerCache, ticket: Ticket) -> None:
    """Write the rows of one ticket into its cache. Raises TicketMismatchError, and then writes nothing."""
    _refuse_mismatch(0, cache, ticket)
    ticket.used = True
    cache._write(ticket)


def commit_all(pairs: Iterable[tuple[LayerCache, Ticket]]) -> None:
    """Commit several tickets, each to its cache; every one is tested before the first row is written.

    Raises TicketMismatchError for the first ticket that does not match, and then writes nothing.
    """
    listed = list(pairs)
    seen: set[int] = set()
    for index, (cache, ticket) in enumerate(listed):
        _refuse_mismatch(index, cache, ticket)
        if id(cache) in seen:
            # After the first write the second ticket would no longer match, too late to refuse it.
            raise TicketMismatchError(index, "an earlier ticket of this commit goes to the same cache")
        seen.add(id(cache))
    for cache, ticket in listed:
        commit(cache, ticket)


def _refuse_mismatch(index: int, cache: LayerCache, ticket: Ticket) -> None:
    if ticket.used:
        raise TicketMismatchError(index, "it has been used")
    if not ticket.matches(cache):
        raise TicketMismatchError(index, "length or storage of the cache has changed")
