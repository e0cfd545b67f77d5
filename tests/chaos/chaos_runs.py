"""Lets things go wrong by chance, again and again, and compares what comes out with what went in.

Each run has a seed: what goes wrong in it, and when, follows from that, as far as processes keep time. A run that does
not survive is told with its seed, and the last lines of its driver; ``--seed SEED --runs 1`` tries it again.
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
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from faults import strike  # noqa: E402 - found by the path above
from scene import BrokenError, Scene  # noqa: E402

# In batches with files on a disk or in an object store, and live to Kafka or PostgreSQL.
KINDS = ("disk", "s3", "live", "live-postgres")


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
        row["broken"] = str(error)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {**row, "faults": dict(struck), "seconds": round(time.monotonic() - began_s, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--faults", type=int, default=50, help="in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next ones count on")
    parser.add_argument("--kinds", default=",".join(KINDS), help="what runs, one kind after the other")
    parser.add_argument("--json", type=Path, default=Path("out/chaos.jsonl"), help="a line is added for each run")
    given = parser.parse_args()
    kinds, broken = given.kinds.split(","), 0
    given.json.parent.mkdir(parents=True, exist_ok=True)
    for number in range(given.runs):
        row = one_run(given.seed + number, given.faults, kinds[number % len(kinds)])
        with given.json.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)
        broken += "broken" in row
    sys.exit(f"{broken} of {given.runs} runs did not survive" if broken else 0)


if __name__ == "__main__":
    main()
