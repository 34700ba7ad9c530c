"""How near a decode of the NumPy layer comes to what memory allows, and how far it is from recomputing.

    python benchmarks/decode.py

Decodes rows one by one with every finite check on and no evidence, and compares, in the same run:

* with the physical limit: the time to read the four weight matrices and the retained keys and values once per
  step. Two readers are timed, sums of squares and matrix-vector products, and the faster one is the limit;
* with plain recomputation: the full-prefix pass of every length, sampled.

Readers and steps take turns block by block, and each block counts with its best repeat, so that other
processes on the machine disturb both alike. Times are CPU times of one BLAS thread.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy starts its BLAS
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np  # noqa: E402

from reference_impl.layer import (  # noqa: E402
    PARAMETER_NAMES,
    Layer,
    LayerCache,
    LayerConfig,
    RopeConfig,
    append,
)

MODEL_WIDTH, HEADS = 512, 8
BLOCK = 32
GOAL = 1.3


class Decode:
    """One layer, its cache and the rows of a sequence; each method does the work of steps [start, stop)."""

    def __init__(self, rows: int) -> None:
        random = np.random.default_rng(37)
        rope = RopeConfig(base=10000.0, pairing="adjacent", max_positions=rows)
        config = LayerConfig(MODEL_WIDTH, HEADS, HEADS, MODEL_WIDTH // HEADS, rope)
        scale = MODEL_WIDTH**-0.5
        weights = {name: random.standard_normal(config.shape_of(name)) * scale for name in PARAMETER_NAMES}
        self.layer = Layer.build(config, **weights)
        self.cache = LayerCache(self.layer, 1, rows)
        self.rows = random.standard_normal((1, rows, MODEL_WIDTH))
        self.query = random.standard_normal((1, HEADS, 1, config.head_width))
        self.weight = random.random((1, HEADS, 1, rows))

    def steps(self, start: int, stop: int) -> None:
        """The steps themselves."""
        for t in range(start, stop):
            append(self.layer, self.cache, self.rows[:, t : t + 1], evidence=False)

    def read_by_squares(self, start: int, stop: int) -> None:
        """What each step has to read, by sums of squares."""
        matrices = [node.value for node in self.layer.nodes]
        lanes = [*self.cache.key_storage[0], *self.cache.value_storage[0]]
        for t in range(start, stop):
            for matrix in matrices:
                np.vdot(matrix, matrix)
            for lane in lanes:
                prefix = lane[:t]
                np.vdot(prefix, prefix)

    def read_by_products(self, start: int, stop: int) -> None:
        """What each step has to read, by the products of a matrix and a vector."""
        matrices = [node.value for node in self.layer.nodes]
        keys, values = self.cache.key_storage.swapaxes(-1, -2), self.cache.value_storage
        row = self.rows[0, :1]
        for t in range(start, stop):
            for matrix in matrices:
                np.matmul(row, matrix)
            if t:
                np.matmul(self.query, keys[..., :t])
                np.matmul(self.weight[..., :t], values[:, :, :t])

    def recompute(self, length: int) -> None:
        """The outputs of a prefix from nothing: what a decoder without a cache does for each new row."""
        self.layer.full_prefix(self.rows[:, :length])


def seconds(work: Callable[[], None]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def measure(decode: Decode, rows: int, repeats: int) -> dict[str, np.ndarray]:
    """Best seconds per block, by name of the work."""
    kinds = {
        "steps": decode.steps,
        "squares": decode.read_by_squares,
        "products": decode.read_by_products,
    }
    blocks = range(0, rows, BLOCK)
    best = {name: np.full(len(blocks), np.inf) for name in kinds}
    for _ in range(repeats):
        decode.cache.reset()
        for index, start in enumerate(blocks):
            stop = min(start + BLOCK, rows)
            for name, work in kinds.items():
                best[name][index] = min(best[name][index], seconds(lambda: work(start, stop)))  # noqa: B023
    return best


def main() -> int:
    """Print the ratios; exit 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1024, help="rows to decode (default 1024)")
    parser.add_argument("--repeats", type=int, default=8, help="repeats of the decode (default 8)")
    options = parser.parse_args()

    decode = Decode(options.rows)
    best = measure(decode, options.rows, options.repeats)
    steps = best["steps"].sum()
    limit = np.minimum(best["squares"], best["products"]).sum()
    lengths = np.unique(np.linspace(1, options.rows, 9, dtype=int))
    recomputed = np.interp(
        np.arange(1, options.rows + 1),
        lengths,
        [min(seconds(lambda: decode.recompute(int(n))) for _ in range(2)) for n in lengths],  # noqa: B023
    ).sum()

    print(f"decode of {options.rows} rows, D={MODEL_WIDTH}, H={HEADS}, float64, one BLAS thread")
    print(f"  step                       {steps / options.rows * 1e6:10.1f} us")
    for name in ("squares", "products"):
        print(f"  read once, {name:<8}        {best[name].sum() / options.rows * 1e6:10.1f} us")
    print(f"  step / physical limit      {steps / limit:10.3f}     goal: at most {GOAL}")
    print(f"  recomputation / step       {recomputed / steps:10.1f}")
    return 0 if steps <= GOAL * limit else 1


if __name__ == "__main__":
    sys.exit(main())
