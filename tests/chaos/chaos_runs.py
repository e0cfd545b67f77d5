"""Lets things go wrong by chance, again and again, and compares what comes out with what went in.

Each run has a seed: what goes wrong in it, and when, follows from that, as far as processes keep time. A run that does
not survive is told with its seed, and the last lines of its driver; ``--seed SEED --runs 1`` tries it again. All that
its drivers said is kept in ``out/chaos``.

Runs are kept one by one: the same command goes on where it was stopped, and writes the record of all runs into
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]
sys.path.append(str(ROOT / "benchmarks"))

from faults import strike  # noqa: E402 - found by the path above
from scene import BrokenError, Scene  # noqa: E402

from _harness import keep_row, kept_rows  # noqa: E402
from _report import commit, markdown_table, write_section  # noqa: E402

# In batches with files on a disk or in an object store, and live to Kafka or PostgreSQL.
KINDS = ("disk", "s3", "live", "live-postgres")
LOGS = ROOT / "out" / "chaos"
KEPT = ROOT / "benchmarks" / "results" / "chaos.jsonl"
PAGE = ROOT / "docs" / "reliability.md"


def one_run(seed: int, faults: int, kind: str) -> dict[str, Any]:
    """Let so many things go wrong in a run; return what they were, and whether it survived."""
    numbers, struck = random.Random(seed), Counter[str]()
    root = Path(tempfile.mkdtemp(prefix="foretide-chaos-"))
    began_s = time.monotonic()
    row: dict[str, Any] = {"seed": seed, "kind": kind}
    try:
        with Scene(root, seed, kind) as scene:
            scene.await_results()
            for number in range(faults):
                name = strike(scene, numbers)
                struck[name] += 1
                print(f"  {seed} {number + 1}/{faults} {name}", file=sys.stderr, flush=True)
                scene.check()
                time.sleep(numbers.uniform(0.2, 2.0))
            row |= scene.finish()
    except BrokenError as error:
        row["broken"] = in_short(str(error))
        (LOGS / str(seed)).mkdir(parents=True, exist_ok=True)
        for log in [*root.glob("driver-*.log"), *root.glob("controller-*.log")]:
            shutil.copy(log, LOGS / str(seed))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {**row, "faults": dict(struck), "seconds": round(time.monotonic() - began_s, 1)}


def left(seeds: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return the seeds whose runs have not been survived yet."""
    survived = {row["seed"] for row in rows if "broken" not in row}
    return [seed for seed in seeds if seed not in survived]


def record(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what went wrong in all runs, and what became of them; one that was made again does not hide the first."""
    broken = [row for row in rows if "broken" in row]
    struck = {kind: Counter[str]() for kind in KINDS}
    for row in rows:
        struck[row["kind"]].update(row["faults"])
    names = sorted({name for counts in struck.values() for name in counts})
    table = [[name, *(str(struck[kind][name] or "") for kind in KINDS)] for name in names]
    table.append(["all", *(str(struck[kind].total()) for kind in KINDS)])
    faults, events = sum(one.total() for one in struck.values()), sum(row.get("events", 0) for row in rows)
    outcome = f"{faults:,} faults in {len(rows)} runs with {events:,} events; {len(rows) - len(broken)} runs survived"
    survived = {row["seed"]: row["commit"] for row in rows if "broken" not in row}
    lost = "nothing was lost and nothing came twice"
    if broken:
        lost = "; ".join(
            f"seed {row['seed']} ({row['kind']}, commit {row['commit']}): {row['broken']}"
            + (f", survived when made again at {survived[row['seed']]}" if row["seed"] in survived else "")
            for row in broken
        )
    seeds, commits = (sorted({str(row[name]) for row in rows}) for name in ("seed", "commit"))
    source = f"`make chaos`, seeds {', '.join(sorted(seeds, key=int))}, commit {', '.join(commits)}."
    return f"{outcome}: {lost}.\n\n{markdown_table(['what went wrong', *KINDS], table)}\n\n{source}"


def in_short(broken: str) -> str:
    """Return what ended a run, without all that its driver said before."""
    first, *rest = broken.strip().splitlines()
    return f"{first.partition(':')[0]}: {rest[-1]}" if rest else first


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--faults", type=int, default=50, help="in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next ones count on")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what runs, one kind after the other")
    parser.add_argument("--json", type=Path, help="add a line for each run to this file, and nothing to the record")
    given = parser.parse_args()
    kinds, kept, broken = given.kinds.split(","), given.json or KEPT, 0
    seeds = range(given.seed, given.seed + given.runs)
    for seed in left(seeds, kept_rows(kept)):
        row = {**one_run(seed, given.faults, kinds[(seed - given.seed) % len(kinds)]), "commit": commit()}
        keep_row(row, kept)
        print(json.dumps(row), flush=True)
        broken += "broken" in row
        if given.json is None:
            write_section(PAGE, "chaos", record(kept_rows(kept)))
    sys.exit(f"{broken} of {given.runs} runs did not survive" if broken else 0)


if __name__ == "__main__":
    main()
