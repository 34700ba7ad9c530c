"""Every benchmark in turn, each in a process of its own; what they measure stands at the top of each.

    python benchmarks/all.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = ("decode", "gate", "long_decode", "wire")


def main() -> int:
    """Run them all; 1 where any goal is missed."""
    missed = []
    for name in BENCHMARKS:
        print(f"\n== {name}", flush=True)
        done = subprocess.run([sys.executable, Path(__file__).with_name(f"{name}.py")], check=False)
        if done.returncode:
            missed.append(name)
    print(f"\nmissed: {', '.join(missed)}" if missed else "\nevery goal is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
