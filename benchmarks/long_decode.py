"""What it costs to check a long decode, as a multiple of one full-prefix pass of the same length.

    python benchmarks/long_decode.py

By causality one pass holds what every row of a decode must give, so checking n rows must cost a few passes
and never n. Measured for a decode of the NumPy layer, D=512, H=8, and compared, in the same run, with

* one full-prefix pass of that layer, the uncached path that it offers itself;
* one pass of the kit, which is faster, because it keeps neither evidence nor errors.

Counted are expected values, their bounds, and the comparison of every row; beside them stands what the
player adds, which copies what goes in and what comes out. The adapter's own time is taken off, and the making
of rows and weights is no part of it. Times are CPU times of one BLAS thread, each the best of some repeats;
memory is the peak of what NumPy and Python allocate, in arrays of n * D numbers.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy starts its BLAS
sys.path.insert(0, str(Path(__file__).parents[1]))

from conformance.adapters.naming import resolve  # noqa: E402
from conformance.budget import layer_pass  # noqa: E402
from conformance.judge import judge  # noqa: E402
from conformance.player import play  # noqa: E402
from conformance.scenarios.long import decode_of, long_rows  # noqa: E402
from conformance.scenarios.material import LayerRows, layer_config  # noqa: E402
from conformance.trace.model import Trace  # noqa: E402

HEADS, HEAD_WIDTH = 8, 64
GOAL = 3.0


class Timed:
    """An adapter that counts the CPU seconds spent inside it."""

    def __init__(self, adapter: Any) -> None:
        self.adapter, self.declaration, self.seconds = adapter, adapter.declaration, 0.0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.adapter, name)

        def timed(*operands: Any, **options: Any) -> Any:
            began = time.process_time()
            try:
                return method(*operands, **options)
            finally:
                self.seconds += time.process_time() - began

        setattr(self, name, timed)
        return timed


@dataclass
class Cost:
    """Best seconds of each part of a check."""

    full_prefix: float = float("inf")
    kit_pass: float = float("inf")
    expected: float = float("inf")
    player: float = float("inf")
    judge: float = float("inf")
    decode: float = float("inf")

    @property
    def checking(self) -> float:
        """Expected values, bounds and comparison."""
        return self.expected + self.judge


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def material(adapter: Any, count: int) -> LayerRows:
    """Fresh rows, so that nothing is remembered from the run before."""
    config = layer_config(HEADS, None, HEAD_WIDTH, base=10000.0, positions=count)
    rows = long_rows(adapter.declaration, count, config=config)
    assert isinstance(rows, LayerRows)
    return rows


def measure(adapter: Any, count: int, repeats: int) -> Cost:
    """Every part in turn, `repeats` times."""
    cost, rows = Cost(), material(adapter, count)
    layer = adapter.build_layer(rows.config, rows.parameters)
    for _ in range(repeats):
        own = seconds(lambda: adapter.full_prefix(layer, rows.rows))
        cost.full_prefix = min(cost.full_prefix, own)
        kit = seconds(lambda: layer_pass(rows.config, rows.parameters, rows.rows, dense=False))
        cost.kit_pass = min(cost.kit_pass, kit)
        _check(adapter, replace(rows), cost)
    return cost


def _check(adapter: Any, rows: LayerRows, cost: Cost) -> None:
    began = time.process_time()
    trace = decode_of(rows)
    made = time.process_time()
    timed = Timed(adapter)
    playthrough = play(trace, timed)
    played = time.process_time()
    checks = judge(playthrough, adapter.declaration)
    judged = time.process_time()
    assert len(checks) > len(trace.steps)
    assert all(check.status == "pass" for check in checks)
    cost.expected = min(cost.expected, made - began)
    cost.player = min(cost.player, played - made - timed.seconds)
    cost.judge = min(cost.judge, judged - played)
    cost.decode = min(cost.decode, timed.seconds)


def peak(adapter: Any, count: int) -> int:
    """Bytes at the peak of a whole check, beyond what the rows and weights take."""
    rows = material(adapter, count)
    tracemalloc.start()
    try:
        trace: Trace = decode_of(rows)
        judge(play(trace, adapter), adapter.declaration)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def main() -> int:
    """Print the ratios; exit 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[256, 1024, 4096], help="lengths of the decode"
    )
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each length (default 5)")
    options = parser.parse_args()

    adapter = resolve("numpy")
    width, missed = HEADS * HEAD_WIDTH, False
    print(f"checking a decode, D={width}, H={HEADS}, float64, one BLAS thread, in full-prefix passes")
    heads = ("of the layer", "of the kit", "expected", "compared", "player", "decode", "memory")
    print(" " * 8 + "".join(f"{head:>13}" for head in heads))
    for count in options.rows:
        cost = measure(adapter, count, options.repeats)
        own = cost.checking / cost.full_prefix
        parts = (cost.expected, cost.judge, cost.player, cost.decode)
        ratios = (own, cost.checking / cost.kit_pass, *(part / cost.full_prefix for part in parts))
        memory = peak(adapter, count) / (count * width * 8)
        print(f"n={count:<6}" + "".join(f"{ratio:13.2f}" for ratio in ratios) + f"{memory:10.1f} nD")
        missed = missed or own > GOAL
    print(f"goal: at most {GOAL:.0f} passes of the layer; the parts are in such passes too")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
