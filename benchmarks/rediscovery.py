"""How many killers search finds again from the public interface alone, and how soon.

    python benchmarks/rediscovery.py --budget 60 --seed 20261129 --write docs/rediscovery.md

Every killer is driven as an unknown implementation; nothing is shrunk. Two processes at a time. The killers
made from forge's decoder are left out: it breaks a default profile by itself (docs/systems/forge.md), so that
finding something there would prove nothing.
"""

from __future__ import annotations

import argparse
import datetime
import random
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from conformance.commands.progress import Progress
from conformance.killers import killers
from conformance.search import search

GOAL, SOON = 0.9, 3.0


def drive(job: tuple[str, float, int]) -> tuple[str, float | None, int]:
    """Seconds until a killer was found, None where it was not; and the programs played."""
    name, budget, seed = job
    killer = next(k for k in killers() if k.id == name)
    begun = time.monotonic()
    outcome = search(killer.make(), budget=budget, seed=seed, shrink=False)
    return name, None if outcome.found is None else time.monotonic() - begun, outcome.played


def main() -> int:
    """Drive, print, write; 1 where fewer than nine in ten were found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=20261129)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--list", type=Path, help="write the ids found within three seconds, one a line")
    options = parser.parse_args()
    names = [k.id for k in killers() if not k.id.startswith("forge_")]
    if options.sample:
        names = random.Random(options.seed).sample(names, options.sample)
    found = []
    jobs = [(name, options.budget, options.seed) for name in names]
    with ProcessPoolExecutor(2) as pool, Progress(sys.stderr, what="killers") as progress:
        for result in pool.map(drive, jobs):
            found.append(result)
            progress.show(len(found), len(names), result[0])
    times = [seconds for _, seconds, _ in found if seconds is not None]
    missed = [(name, played) for name, seconds, played in found if seconds is None]
    lines = [
        "# Rediscovery",
        "",
        f"Written by `benchmarks/rediscovery.py` on {datetime.date.today()}, seed {options.seed}, "
        f"{options.budget:.0f} s each, two at a time.",
        "",
        f"- found again: {len(times)} of {len(found)} killers ({100 * len(times) / len(found):.1f} %); those "
        "made from forge's decoder, which is not conformant by itself, are left out",
        f"- seconds until found: median {statistics.median(times):.2f}, "
        f"nine in ten within {sorted(times)[int(0.9 * len(times))]:.1f}",
        "",
        "Not found (programs played):",
        "",
        *(f"- `{name}` ({played})" for name, played in missed),
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    if options.write:
        options.write.write_text(text)
    if options.list:
        soon = sorted(name for name, seconds, _ in found if seconds is not None and seconds < SOON)
        options.list.write_text("\n".join(soon) + "\n")
    return 0 if len(times) >= GOAL * len(found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
