"""The decode benchmark runs, does the work that it names, and judges its ratio."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "decode.py"


def test_the_benchmark_prints_its_ratios_and_exits_by_its_goal() -> None:
    done = subprocess.run(
        [sys.executable, str(BENCHMARK), "--rows", "40", "--repeats", "1"],
        capture_output=True, text=True, check=False, env={**os.environ, "PYTHONWARNINGS": "error"},
    )  # fmt: skip
    assert done.stderr == ""
    figures = {line[:28].strip(): float(line[28:].split()[0]) for line in done.stdout.splitlines()[1:]}
    assert set(figures) == {
        "step", "read once, squares", "read once, products", "step / physical limit", "recomputation / step",
    }  # fmt: skip
    fastest = min(figures["read once, squares"], figures["read once, products"])
    assert abs(figures["step / physical limit"] - figures["step"] / fastest) < 0.2
    if abs(figures["step / physical limit"] - 1.3) > 0.001:  # as printed, it may have been rounded
        assert done.returncode == (0 if figures["step / physical limit"] <= 1.3 else 1)
