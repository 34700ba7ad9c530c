"""Implementations in any language over a pipe, and Python ones in a process of their own.

`WireAdapter` is an adapter that is a program; `serve` is the program's side for a Python adapter;
`isolated` is both together. The protocol is described in docs/wire-protocol.md.
"""

from conformance.wire.client import WireAdapter, isolated
from conformance.wire.errors import DriverError, LossyPipeError, WireError
from conformance.wire.serve import serve
from conformance.wire.tokens import StorageToken

__all__ = ["DriverError", "LossyPipeError", "StorageToken", "WireAdapter", "WireError", "isolated", "serve"]
