"""All benchmarks of the data plane, one after another, and the table of targets.

Each runs as a process of its own and leaves its figures in ``benchmarks/results``; the table is put together from
those, whether they were measured now or earlier. ``--only throughput --only latency`` runs just these.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from _harness import DOCUMENT, QUICK, RESULTS, progress
from _report import markdown_table, write_section

#: The benchmarks, in the order of the table.
NAMES = (
    "throughput",
    "flink",
    "rescale_gap",
    "latency",
    "queued_edges",
    "replica_pool",
    "replica_changes",
    "osg",
    "load_aware",
    "statistics_cost",
)
HERE = Path(__file__).resolve().parent


def run(name: str, quick: bool) -> bool:
    """Run one benchmark; return whether it went through."""
    progress(f"{name} ...")
    started_s = time.monotonic()
    done = subprocess.run([sys.executable, str(HERE / f"{name}.py"), *(["--quick"] if quick else [])])
    progress(f"{name}: {'done' if done.returncode == 0 else 'FAILED'} after {time.monotonic() - started_s:.0f} s")
    return done.returncode == 0


def found(results: Path) -> list[dict[str, Any]]:
    """Return the results that are there, in the order of the table."""
    files = [results / f"{name}.json" for name in NAMES]
    return [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]


def cells(line: dict[str, Any], quick: bool) -> list[str]:
    """Return a line of the table; short runs are marked."""
    verdict = {True: "yes", False: "**no**", None: "not measured"}[line["reached"]]
    measured = ""
    if line["ratio"] is not None:
        pairs = line["ratio"]["pairs"]
        measured = f"{line['median']:.2f} ({min(pairs):.2f} to {max(pairs):.2f}, {len(pairs)} pairs)"
    return [
        line["what"] + (" †" if quick else ""),
        line["against"],
        f"{line['sense']} {line['target']:g}",
        measured,
        verdict,
    ]


def assemble(results: Path, document: Path) -> str:
    """Put the table of targets together, write it into `document`, and return it."""
    parts = found(results)
    lines = [line for part in parts for line in part["lines"]]
    rows = [cells(line, part["quick"]) for part in parts for line in part["lines"]]
    table = markdown_table(["what", "against", "target", "measured", "reached"], rows)
    reached = sum(line["reached"] is True for line in lines)
    missed = [line["what"] for line in lines if line["reached"] is False]
    unmeasured = [line["what"] for line in lines if line["reached"] is None]
    verdict = [f"{reached} of {len(lines)} targets are reached."]
    if missed:
        verdict.append(f"Short of its target: {'; '.join(missed)}.")
    if any(part["quick"] for part in parts):
        verdict.append("† Short runs (`--quick --repeats 3`).")
    if unmeasured:
        verdict.append(f"Not measured here: {'; '.join(unmeasured)}.")
    machine = parts[0]["machine"] if parts else {}
    intro = (
        f"`python benchmarks/data_plane.py` on {machine.get('cores')} cores ({machine.get('processor')}), PySpark"
        f" {machine.get('pyspark')}. Ratios of what Foretide does to what it is compared with, alternatives taken in"
        " turn: the median, and the least and the greatest."
    )
    write_section(document, "data-plane", f"## The data plane\n\n{intro}\n\n{table}\n\n{' '.join(verdict)}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=NAMES, help="run this one; may be given again")
    parser.add_argument("--skip", action="append", choices=NAMES, default=[], help="leave this one out")
    parser.add_argument("--quick", action="store_true", help="short runs, kept in out/")
    parser.add_argument("--no-run", action="store_true", help="only put the table together")
    parser.add_argument("--results", type=Path, help="the folder of the results")
    parser.add_argument("--markdown", type=Path, help="the file with the section")
    options = parser.parse_args()
    names = [] if options.no_run else [name for name in options.only or NAMES if name not in options.skip]
    failed = [name for name in names if not run(name, options.quick)]
    results, document = (QUICK, QUICK / "benchmarks.md") if options.quick else (RESULTS, DOCUMENT)
    print(assemble(options.results or results, options.markdown or document))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
