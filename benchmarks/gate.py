"""What the gate costs over what it checks: CPU time of the kit over that of the adapter.

    python benchmarks/gate.py

Holds the NumPy layer against `strict`, with every trace that is played by default, in a fresh process a
repeat. Counted apart: importing what a check needs; making the traces (golden files read and verified,
expected values and bounds computed); playing them without the adapter's own time; judging; and the verdict.
The whole process is what `kv-conformance check` costs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy starts its BLAS
ROOT = str(Path(__file__).parents[1])
PARTS = ("import", "traces", "player", "judge", "verdict", "adapter", "process")
GOAL_SECONDS = 2.0


def one_gate() -> dict[str, float]:
    """CPU seconds of every part of one gate, in this process, which must be a fresh one."""
    sys.path.insert(0, ROOT)
    begun = time.process_time()
    from benchmarks.long_decode import Timed  # noqa: PLC0415 - its imports are what is timed
    from conformance.adapters.naming import resolve  # noqa: PLC0415
    from conformance.judge import judge  # noqa: PLC0415
    from conformance.player import play  # noqa: PLC0415
    from conformance.suite import digest, traces  # noqa: PLC0415
    from conformance.verdict import verdict  # noqa: PLC0415

    adapter = Timed(resolve("numpy"))
    imported = time.process_time()
    suite = list(traces(adapter.declaration, seed=1))
    made = time.process_time()
    checks: list[Any] = []
    played = judged = 0.0
    for trace in suite:
        start = time.process_time()
        playthrough = play(trace, adapter)
        middle = time.process_time()
        checks += judge(playthrough, adapter.declaration)
        played, judged = played + middle - start, judged + time.process_time() - middle
    last = time.process_time()
    reached = verdict(["strict"], adapter.declaration, checks)
    digest(suite)
    ended = time.process_time()
    assert reached.text == "conformant", reached
    return {
        "import": imported - begun,
        "traces": made - imported,
        "player": played - adapter.seconds,
        "judge": judged,
        "verdict": ended - last,
        "adapter": adapter.seconds,
        "process": ended,
    }


def main() -> int:
    """Print the ratios; exit 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes (default 5)")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one_gate()))
        return 0

    best = dict.fromkeys(PARTS, float("inf"))
    for _ in range(options.repeats):
        command = [sys.executable, __file__, "--one"]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        best = {name: min(best[name], found[name]) for name in PARTS}
    own = sum(best[name] for name in ("traces", "player", "judge", "verdict"))
    print("the strict gate on the NumPy layer, CPU time, in times of the adapter's own")
    for name in ("traces", "player", "judge", "verdict"):
        print(f"  {name:<20} {best[name] / best['adapter']:6.2f}")
    print(f"  the gate             {own / best['adapter']:6.2f}")
    print(f"  import, apart        {best['import'] / best['adapter']:6.2f}")
    print(f"the whole process: {best['process']:.2f} s of CPU     goal: under {GOAL_SECONDS:.0f} s")
    return 0 if best["process"] < GOAL_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
