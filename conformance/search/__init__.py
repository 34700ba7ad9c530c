"""Search: traces that hypothesis makes, against any adapter; what fails is shrunk and can be saved."""

from conformance.search.run import Found, Outcome, search

__all__ = ["Found", "Outcome", "search"]
