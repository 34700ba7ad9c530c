"""Softmax by blocks, online, and normalised late."""

from __future__ import annotations

import numpy as np

from conformance.killers.controls.model import control
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Work

BLOCK = 2


def online(scores: Array, values: Array) -> Array:
    """Flash attention: one pass over blocks of positions with a running maximum and a running sum.

    scores [B,H,T,n], minus infinity where masked; values [B,H,n,d]; returns [B,H,T,d].
    """
    top = np.full((*scores.shape[:3], 1), -np.inf)
    total, mixed = np.zeros_like(top), np.zeros((*scores.shape[:3], values.shape[-1]))
    for start in range(0, scores.shape[-1], BLOCK):
        block = scores[..., start : start + BLOCK]
        raised = np.maximum(top, block.max(axis=-1, keepdims=True))
        shrink = np.exp(np.where(np.isfinite(top), top - raised, -np.inf))
        grown = np.exp(np.where(np.isfinite(block), block - raised, -np.inf))
        total = total * shrink + grown.sum(axis=-1, keepdims=True)
        mixed = mixed * shrink + grown @ values[:, :, start : start + BLOCK]
        top = raised
    return mixed / total


@control("online_softmax", says="one pass over blocks of positions, in the manner of flash attention")
class _Online(OpenLayerAdapter):
    def heads(self, work: Work) -> Array:
        return online(self.masked(work), self.grouped_values(work))


@control("blocked_softmax", says="maximum, sum and mixture are each taken block by block")
class _Blocked(OpenLayerAdapter):
    def weights(self, work: Work) -> Array:
        masked = self.masked(work)
        starts = range(0, masked.shape[-1], BLOCK)
        top = np.max([masked[..., at : at + BLOCK].max(axis=-1) for at in starts], axis=0)[..., None]
        grown = np.exp(masked - top)
        total = sum(grown[..., at : at + BLOCK].sum(axis=-1, keepdims=True) for at in starts)
        return grown / total

    def heads(self, work: Work) -> Array:
        weights, values = work.stages["weights"], self.grouped_values(work)
        parts = [
            weights[..., at : at + BLOCK] @ values[:, :, at : at + BLOCK]
            for at in range(0, values.shape[2], BLOCK)
        ]
        return np.sum(parts, axis=0)


@control("normalised_late", says="the mixture is divided by the sum of the exponentials at the end")
class _NormalisedLate(OpenLayerAdapter):
    def heads(self, work: Work) -> Array:
        grown = self.exponentials(work)
        return (grown @ self.grouped_values(work)) / grown.sum(axis=-1, keepdims=True)


@control("base_two", says="exponentials are powers of two of rescaled scores")
class _BaseTwo(OpenLayerAdapter):
    def exponentials(self, work: Work) -> Array:
        masked = self.masked(work)
        return np.exp2((masked - masked.max(axis=-1, keepdims=True)) * np.log2(np.e))


@control(
    "newest_row_apart", says="the score of the newest row is added to those of the retained rows at the end"
)
class _NewestApart(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        config, query = work.layer.config, work.stages["rotated_query"]
        retained = query @ self.grouped(config, self.retained_keys(work)).swapaxes(-1, -2)
        newest = query @ self.grouped(config, work.stages["rotated_key"]).swapaxes(-1, -2)
        return np.concatenate([retained, newest], axis=-1) * self.scale(work)
