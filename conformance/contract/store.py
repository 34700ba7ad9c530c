"""What a store of rows must keep, beside the rules that it shares with every cache."""

from __future__ import annotations

from conformance.contract.model import Requirement

SLOTS = "forge, the cache: one slot per layer, an entry holds every token so far"


def _keep(name: str, sentence: str, look: str, *, needs: frozenset[str] = frozenset()) -> Requirement:
    return Requirement(
        id=f"KEEP-{name}",
        sentence=sentence,
        levels=("store",),
        profiles=("store",),
        needs=needs,
        where_observable=bool(needs),
        source=SLOTS,
        look=look,
    )


REQUIREMENTS = (
    _keep(
        "PREFIX",
        "The whole prefix of a layer MUST come back bit for bit as its rows went in, in their order, each in "
        "its lane and head.",
        "axes exchanged on the way in or out, keys given back as values, a row written one slot off",
    ),
    _keep(
        "LAYERS",
        "An append to one layer MUST leave every other layer as it is; each layer has a length of its own.",
        "layers keyed by the wrong index, one length for all layers, two layers in one buffer",
    ),
    _keep("EMPTY", "A layer that holds nothing MUST read as length 0.", "a slot that starts with a row"),
    _keep(
        "GROWTH",
        "Old rows MUST stay bit for bit across every growth of the storage.",
        "buffers grown by reshaping the flat bytes",
    ),
    _keep(
        "RESET",
        "A reset MUST empty every layer, and nothing of what was there comes back.",
        "only layer 0 emptied, lengths kept",
    ),
    _keep(
        "HANDED-OUT",
        "Writing over what the store handed out MUST change nothing in the store.",
        "a snapshot that is a view of the buffer",
        needs=frozenset({"snapshot"}),
    ),
)
