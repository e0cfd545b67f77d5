"""All benchmarks one after another, and what stands first in their page: which targets are reached and which are not.

Each runs as a process of its own and leaves its figures in ``benchmarks/results``. One is not run again if neither the
package, the examples nor its own code has changed since, so the same command goes on where it was stopped. Those that
take longest run with ``--long`` only; of these, those that take hours go on where they were stopped, too.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _harness import DOCUMENT, QUICK, RESULTS, progress
from _report import Measured, broken_rules, is_current, write_section

#: The benchmarks of the page, in its order.
NAMES = (
    "throughput",
    "flink",
    "latency",
    "queued_edges",
    "edge_logs",
    "log_port",
    "kafka",
    "replica_pool",
    "replica_changes",
    "nexmark_throughput",
    "keyed_skew",
    "keyed_executors",
    "osg",
    "worker_sockets",
    "statistics_cost",
    "service",
    "run_store",
    "planning",
    "grouping",
    "simulator",
    "following",
    "recovery",
)
#: Those that take from a quarter of an hour to some hours; without them it is all done within two hours.
LONG = (
    "rescale_gap",
    "keyed_state",
    "load_aware",
    "scale",
    "scale_downs",
    "keyed_flink",
    "live",
    "live_steered",
    "nexmark_steered",
    "nexmark_patterns",
    "closed_loop",
    "fronts",
    "attach",
    "health",
    "field",
)
HERE = Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    known = (*NAMES, *LONG)
    parser.add_argument("--only", action="append", choices=known, help="run this one; may be given again")
    parser.add_argument("--skip", action="append", choices=known, default=[], help="leave this one out")
    parser.add_argument("--long", action="store_true", help=f"also run what takes longest: {', '.join(LONG)}")
    parser.add_argument("--again", action="store_true", help="run also what was measured with the present code")
    parser.add_argument("--quick", action="store_true", help="short runs, kept in out/")
    parser.add_argument("--no-run", action="store_true", help="only put the overview together")
    parser.add_argument("--results", type=Path, help="the folder of the results")
    parser.add_argument("--markdown", type=Path, help="the page")
    given = parser.parse_args()
    results = given.results or (QUICK if given.quick else RESULTS)
    document = given.markdown or (QUICK / "benchmarks.md" if given.quick else DOCUMENT)
    wanted = given.only or (known if given.long else NAMES)
    names = [] if given.no_run else [name for name in wanted if name not in given.skip]
    done = set() if given.again else {one["name"] for one in found(results) if is_current(one)}
    failed = [name for name in names if name not in done and not run(name, given.quick)]
    text = overview(found(results))
    write_section(document, "overview", text)
    print(text)
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def run(name: str, quick: bool) -> bool:
    """Run one benchmark; return whether it went through."""
    progress(f"{name} ...")
    started_s = time.monotonic()
    done = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *(["--quick"] if quick else [])])
    progress(f"{name}: {'done' if done.returncode == 0 else 'FAILED'} after {time.monotonic() - started_s:.0f} s")
    return done.returncode == 0


def found(results: Path) -> list[dict[str, Any]]:
    """Return the results that are there, in the order of the page."""
    files = [results / f"{name}.json" for name in (*NAMES, *LONG)]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def overview(results: list[dict[str, Any]]) -> str:
    """Return what stands first in the page: targets that are missed, with how they were, and what is not measured."""
    kept = [one for one in results if not broken_rules(one)]
    lines = [(one, Measured.from_json(line)) for one in kept for line in one["lines"]]
    known = [(one, line) for one, line in lines if line.reached is not None]
    missed = [(one, line) for one, line in known if not line.reached]
    absent = sorted({*NAMES, *LONG} - {one["name"] for one in kept})
    parts = [
        "A target counts as reached if the worse quartile of its pairs reaches it. Every section ends with the command"
        f" that made it. {len(known) - len(missed)} of {len(known)} targets are reached."
    ]
    if missed:
        parts.append(
            "Missed:\n\n"
            + "\n".join(
                f"- [{one['title']}](#{_anchor(one['title'])}): {line.what}"
                f"{f', against {line.against}' if line.against else ''}: {line.ratio}, to be {line.sense}"
                f" {line.target:g}"
                for one, line in missed
            )
        )
    if absent:
        parts.append(f"Not measured yet by these rules: {', '.join(f'`benchmarks/{name}.py`' for name in absent)}.")
    return "\n\n".join(parts)


def _anchor(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    main()
