"""A session: caches and a model held together, the parameters locked for as long as it is open."""

from __future__ import annotations

from types import TracebackType

from numpy.typing import ArrayLike

from reference_impl.decoder import step
from reference_impl.decoder.cache import DecoderCache, DecoderWork
from reference_impl.decoder.errors import SessionClosedError
from reference_impl.decoder.model import DecoderModel
from reference_impl.layer.memory import Array


class DecoderSession:
    """Prefill once, then decode; `reset` to begin again; `close` to give the parameters free.

    Opening checks the binding of the caches: ModelMismatchError, ConfigurationMismatchError,
    StaleParametersError, LayerMismatchError. Several sessions may be open on a model; while any is, the
    parameters cannot be updated. Every call on a closed session but `close` raises SessionClosedError; its
    cache stays, and can be opened again as long as the model is what it was. A context manager.
    Source: System 3.
    """

    def __init__(self, model: DecoderModel, cache: DecoderCache) -> None:
        cache.check_binding(model)
        cache.check_layers()
        self.model, self.cache = model, cache
        self._is_open = True
        model.sessions.count += 1

    @classmethod
    def open(cls, model: DecoderModel, batch_size: int, capacity: int) -> DecoderSession:
        """A session with empty caches of its own. Raises the refusals of `LayerCache`."""
        return cls(model, DecoderCache(model, batch_size, capacity))

    @property
    def is_open(self) -> bool:
        """False once `close` has been called."""
        return self._is_open

    @property
    def length(self) -> int:
        """n, the rows that each lane of every layer holds."""
        return self.cache.length

    @property
    def work(self) -> DecoderWork:
        """Work since the session's caches were built or reset."""
        return self.cache.work

    def prefill(self, prompt: ArrayLike) -> Array:
        """Take a prompt [B,T] into the empty session; logits [B,T,V]. Refusals: see `step.prefill`."""
        self._require_open()
        return step.prefill(self.model, self.cache, prompt)

    def decode(self, tokens: ArrayLike) -> Array:
        """Take one token per lane, tokens [B]; logits [B,1,V]. Refusals: see `step.decode`."""
        self._require_open()
        return step.decode(self.model, self.cache, tokens)

    def reset(self) -> None:
        """Zero length, phase and work counts; storage, stored numbers and binding stay."""
        self._require_open()
        self.cache.reset()

    def close(self) -> None:
        """Give the session up; closing twice is harmless."""
        if self._is_open:
            self._is_open = False
            self.model.sessions.count -= 1

    def _require_open(self) -> None:
        if not self._is_open:
            raise SessionClosedError

    def __enter__(self) -> DecoderSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
