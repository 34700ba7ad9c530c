"""Drivers that misbehave, one a name: `python hostile.py NAME`; without a name it lists them.

Each behaves well until its moment comes. Uses the standard library only and nothing of the kit.
"""

import sys

import hostile_lines
import hostile_lives
import hostile_lossy
import hostile_results
from driver import ZOO, Driver

FAMILIES = (hostile_lines, hostile_lives, hostile_lossy, hostile_results)
"""Each puts its drivers into ZOO."""

ZOO["behaves"] = lambda: Driver().run()

if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("\n".join(sorted(ZOO)))
    else:
        ZOO[sys.argv[1]]()
