"""What the pipe costs: the strict gate on a served NumPy layer over the same gate in process.

    python benchmarks/wire.py

Both judge the same implementation by the same traces. Counted is the CPU time of this process and of the
served one, from spawning it to its end; what the served process needs to start (its interpreter, NumPy, hello
and bye) is measured by itself and taken off. Each figure is the best of some repeats in one run.
"""

from __future__ import annotations

import argparse
import os
import resource
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_variable] = "1"  # before NumPy starts its BLAS, here and in the served process
ROOT = str(Path(__file__).parents[1])
sys.path.insert(0, ROOT)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH"))))

from conformance import check  # noqa: E402
from conformance.wire import WireAdapter  # noqa: E402

SERVED = f"{shlex.quote(sys.executable)} -m conformance wire serve numpy"
GOAL = 3.0


def cpu() -> tuple[float, float]:
    """CPU seconds of this process, and of every one that it has waited for."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime


def spent(work: Callable[[], None]) -> tuple[float, float]:
    """CPU seconds of one call, here and in processes that it has ended."""
    before = cpu()
    work()
    after = cpu()
    return after[0] - before[0], after[1] - before[1]


def in_process() -> None:
    """The gate as it is without a pipe."""
    _conformant("numpy")


def over_the_pipe() -> None:
    """The same gate on the served layer."""
    _conformant(f"cmd:{SERVED}")


def start() -> None:
    """A served process that is greeted and sent away."""
    adapter = WireAdapter(SERVED)
    assert adapter.declaration.name == "numpy"
    adapter.close_process()


def _conformant(adapter: str) -> None:
    report = check(adapter, "strict", seed=1)
    assert report.verdict.text == "conformant", report.verdict


def main() -> int:
    """Print the ratios; exit 1 when the goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="repeats of each (default 5)")
    options = parser.parse_args()

    in_process()  # what is imported once is no part of either
    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.repeats):
        for work in (in_process, over_the_pipe, start):
            found = spent(work)
            name = work.__name__
            best[name] = min(best.get(name, found), found, key=sum)
    here, there = best["over_the_pipe"]
    base, begun = sum(best["in_process"]), sum(best["start"])
    ratio = (here + there - begun) / base
    print("the strict gate on the NumPy layer, CPU time, in gates in process")
    print(f"  in process              {1.0:6.2f}")
    print(f"  over the pipe           {(here + there) / base:6.2f}")
    print(f"    this process          {here / base:6.2f}")
    print(f"    the served one        {there / base:6.2f}     of that, its start {begun / base:.2f}")
    print(f"  over the pipe, started  {ratio:6.2f}     goal: at most {GOAL:.0f}")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
