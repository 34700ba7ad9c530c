"""Refusals of the decoder session, in the order in which a call checks them.

The order is ours: the source lists the rules and not their order. `full` is the layer's `CacheFullError`.
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.layer_errors import CacheError, InputRankError


@dataclass(eq=False, repr=False)
class SessionClosedError(CacheError):
    """A closed session was used."""

    kind = "session_closed"
    text = "the session is closed; open another one on the model"


class TokensRankError(InputRankError):
    """The tokens do not have the axes of the call."""

    text = "prefill takes tokens [B,T] and decode takes tokens [B]; got {rank} axes"


@dataclass(eq=False, repr=False)
class EmptyPromptError(CacheError):
    """A prompt without tokens."""

    kind = "empty_prompt"
    text = "prefill needs a prompt of at least one token"


@dataclass(eq=False, repr=False)
class PromptExceedsCapacityError(CacheError):
    """A prompt longer than the caches."""

    kind = "prompt_exceeds_capacity"
    text = "{tokens} tokens do not fit into {capacity} rows; shorten the prompt or open a larger session"
    tokens: int
    capacity: int


@dataclass(eq=False, repr=False)
class TokenOutOfVocabularyError(CacheError):
    """Something that is not a token; index is its flat row-major place among the tokens of the call."""

    kind = "token_out_of_vocabulary"
    text = "token {index} of the call is {token}; tokens are the integers from 0 to {vocabulary} - 1"
    index: int
    token: float
    vocabulary: int


@dataclass(eq=False, repr=False)
class PrefillNotEmptyError(CacheError):
    """A prefill into a session that holds rows."""

    kind = "prefill_not_empty"
    text = "prefill needs an empty session and this one holds {length} rows; decode, or reset first"
    length: int


@dataclass(eq=False, repr=False)
class PrefillRequiredError(CacheError):
    """A decode without a completed prefill since the session was opened or reset."""

    kind = "prefill_required"
    text = "decode needs a completed prefill; give the prompt to prefill first"


@dataclass(eq=False, repr=False)
class ModelMismatchError(CacheError):
    """The caches belong to another model: it has other parameter nodes, whatever its numbers."""

    kind = "model_mismatch"
    text = "parameter {name} is another node than the caches were built for; open a new session on this model"
    name: str


@dataclass(eq=False, repr=False)
class ConfigurationMismatchError(CacheError):
    """The model has the same parameter nodes and another configuration."""

    kind = "configuration_mismatch"
    text = "the caches were built under {cache}, the model now has {model}; open a new session"
    cache: object
    model: object


@dataclass(eq=False, repr=False)
class StaleParametersError(CacheError):
    """A parameter was updated after the caches were built; parameter is its index in the model's order."""

    kind = "stale_parameters"
    text = (
        "parameter {parameter} ({name}) stood at revision {cache} when the caches were built and stands at "
        "{model}; the stored rows come from old weights, so open a new session"
    )
    parameter: int
    name: str
    cache: int
    model: int


@dataclass(eq=False, repr=False)
class LayerMismatchError(CacheError):
    """The caches of two blocks differ in length, batch size or capacity; layer is the first that differs."""

    kind = "layer_mismatch"
    text = "{figure} is {first} in layer 0 and {found} in layer {layer}; reset the session or open a new one"
    layer: int
    figure: str
    first: int
    found: int


@dataclass(eq=False, repr=False)
class ParametersLockedError(CacheError):
    """An update of parameters that open sessions depend on."""

    kind = "parameters_locked"
    text = "{sessions} open sessions depend on these parameters; close them before an update"
    sessions: int
