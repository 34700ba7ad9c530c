"""Other orders of summation, and other places for the scale."""

from __future__ import annotations

import numpy as np

from conformance.killers.controls.model import control
from conformance.killers.open_layer import OpenLayerAdapter
from conformance.killers.open_state import Array, Work


@control("features_backwards", says="scores sum their features from the last to the first")
class _FeaturesBackwards(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        keys, query = self.grouped_keys(work), work.stages["rotated_query"]
        total = np.zeros((*query.shape[:3], keys.shape[2]))
        for feature in reversed(range(query.shape[3])):
            total = total + query[..., feature, None] * keys[:, :, None, :, feature]
        return total * self.scale(work)


@control("positions_backwards", says="values are mixed from the newest position to the oldest")
class _PositionsBackwards(OpenLayerAdapter):
    def heads(self, work: Work) -> Array:
        values, weights = self.grouped_values(work), work.stages["weights"]
        total = np.zeros((*weights.shape[:3], values.shape[3]))
        for position in reversed(range(values.shape[2])):
            total = total + weights[..., position, None] * values[:, :, position, None]
        return total


@control("pairwise", says="values are mixed by sums of sums")
class _Pairwise(OpenLayerAdapter):
    def heads(self, work: Work) -> Array:
        terms = work.stages["weights"][..., None] * self.grouped_values(work)[:, :, None]
        return self._summed(terms)

    def _summed(self, terms: Array) -> Array:
        if terms.shape[3] == 1:
            return terms[..., 0, :]
        half = terms.shape[3] // 2
        return self._summed(terms[..., :half, :]) + self._summed(terms[..., half:, :])


@control("projection_row_by_row", says="projections are summed feature by feature, with no matrix product")
class _RowByRow(OpenLayerAdapter):
    def project(self, work: Work, name: str) -> Array:
        weight = work.layer.nodes[name].value
        total = np.zeros((*work.rows.shape[:2], weight.shape[1]))
        for feature in range(weight.shape[0]):
            total = total + work.rows[..., feature, None] * weight[feature]
        return total


@control("scale_on_query", says="the scale is applied to the query before the product")
class _ScaleOnQuery(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        return (work.stages["rotated_query"] * self.scale(work)) @ self.grouped_keys(work).swapaxes(-1, -2)


@control("scale_on_keys", says="the scale is applied to the keys before the product")
class _ScaleOnKeys(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        return work.stages["rotated_query"] @ (self.grouped_keys(work) * self.scale(work)).swapaxes(-1, -2)


@control("scale_split", says="the root of the scale is applied to query and keys")
class _ScaleSplit(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        root = np.sqrt(self.scale(work))
        return (work.stages["rotated_query"] * root) @ (self.grouped_keys(work) * root).swapaxes(-1, -2)


@control("divided_by_root", says="scores are divided by the root of the head width")
class _Divided(OpenLayerAdapter):
    def scores(self, work: Work) -> Array:
        made = work.stages["rotated_query"] @ self.grouped_keys(work).swapaxes(-1, -2)
        return made / np.sqrt(work.layer.config.head_width)
