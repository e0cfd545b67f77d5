"""What `foretide attach` is worth: a plain job on a cluster, with the most executors, attached, and scaled by Spark.

A standalone cluster of two workers with two cores each, in namespaces of their own (needs root), a Kafka topic at the
rates of the later half of a trace, and examples/plain_job.py, which has not a word of Foretide. Every round runs it
with all four executors and attached with one to four. After all of them, rounds of the first trace run with Spark's
dynamic allocation, which begins with four as the others do: the first one sweeps its idle time-out, and the others
have the setting with the least product of executor-seconds and p95. Executors and latencies are those of Spark's own
event log. `foretide advise` foretells from the log of the static run what the attached one saves. A run takes some
six minutes. What was measured is kept run by run, with its commit, in `benchmarks/results/attach.jsonl`: the same
command goes on where it was stopped, and writes the page of a trace when its five rounds of pairs are there. Ratios
are of one round, so rounds may come from several machines.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from _attached_runs import Load, Place, Run, load_turns, run_job
from _harness import (
    QUICK,
    RESULTS,
    ROOT,
    Measured,
    Options,
    Ratio,
    Table,
    keep_row,
    kept_rows,
    progress,
    report,
    rotated,
)
from _report import origin, provenance, targets_table, write_section
from foretide.kafka.broker import Broker
from standalone_cluster import standalone_cluster

TRACES = ("pasps_twitter_smoothed@50%-", "pasps_dns@50%-")
EXECUTORS = 4
#: The slots that the highest rate keeps busy, of those of the most executors: six tenths, as static-peak has it.
PEAK = 0.6 * EXECUTORS
STATIC, ATTACHED = "static", "attach"
# Seconds after which Spark releases an idle executor, from eager to its default, and after which it asks for more while
# tasks wait: its default, since more only makes it late. From five on, the period of batches, hardly one is ever idle.
DYNAMIC = tuple(f"dynamic {idle}/1" for idle in (1, 3, 5, 60))
KEPT, KEPT_QUICK = RESULTS / "attach.jsonl", QUICK / "attach.jsonl"
ROUNDS = 5
PAIR = (STATIC, ATTACHED)
COLUMNS = ("executor_s", "p50_s", "p95_s", "turns", "changes", "cpu_share", "memory_mb", "return_s")
GUIDE = ROOT / "docs" / "howto" / "attach.md"


def main() -> None:
    """Run all alternatives on all traces, in rounds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two minutes of one trace, to show that it works")
    parser.add_argument("--smoke", action="store_true", help="seconds on a cluster inside one process, as in the tests")
    parser.add_argument("--repeats", type=int, default=ROUNDS, help=f"rounds; the page is written from {ROUNDS} on")
    parser.add_argument("--parts", default=",".join(TRACES), help=f"of {', '.join(TRACES)}")
    parser.add_argument("--options", default="", help="further options of foretide attach")
    parser.add_argument("--no-run", action="store_true", help="only write the page from what is kept")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    options = Options.of(given, repeats=1 if given.quick or given.smoke else given.repeats)
    quick = options.quick
    kept = KEPT_QUICK if quick else KEPT
    if quick:
        kept.unlink(missing_ok=True)
    if given.no_run:
        finish(options, kept)
        return
    traces = given.parts.split(",")[: 1 if quick else None]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that the job ends then, too
    with place_for(options) as place:
        for number in range(options.repeats):
            for trace in traces:
                names = options.size(PAIR, quick=(*PAIR, DYNAMIC[1]), smoke=(ATTACHED,))
                run_round(place, load_of(trace, options), number, names, options, given.options.split(), kept)
        finish(options, kept)
        for number in range(0 if quick or TRACES[0] not in traces else options.repeats):
            names = dynamic(number, kept_rows(kept))
            run_round(place, load_of(TRACES[0], options), number, names, options, [], kept)
    if not quick:
        finish(options, kept)


def finish(options: Options, kept: Path) -> None:
    """Write the page of those traces of which all pairs are there; say how far the others are."""
    rows, whole = kept_rows(kept), []
    for trace in dict.fromkeys(row["trace"] for row in rows):
        pairs = [row for row in rows if row["trace"] == trace and row["name"] in PAIR]
        if options.quick or len(pairs) >= ROUNDS * len(PAIR):
            whole.append(trace)
        else:
            progress(f"{trace}: {len(pairs)} of {ROUNDS * len(PAIR)} runs are kept in {kept.relative_to(ROOT)}")
    if whole:
        write([row for row in rows if row["trace"] in whole], options)


def load_of(trace: str, options: Options) -> Load:
    """Return the input: ten minutes of a trace in five."""
    seconds = options.size(300.0, quick=75.0, smoke=20.0)
    return Load(trace, speed=options.size(2.0, 8.0, 8.0), seconds=seconds, peak=options.size(PEAK, PEAK, 0.6))


@contextmanager
def place_for(options: Options) -> Iterator[Place]:
    """Start the cluster and the broker; the shortest run does with a cluster inside one process."""
    with tempfile.TemporaryDirectory(prefix="foretide-", dir="/var/tmp", ignore_cleanup_errors=True) as folder:
        if options.smoke:
            yield Place("local-cluster[2,1,1024]", "127.0.0.1", None, Path(folder), 2)
            return
        with standalone_cluster(workers=2, cores=2, memory="2g") as cluster:
            with Broker(Path(folder) / "broker", port=0, heap_mb=384, host=cluster.address) as broker:
                yield Place(cluster.master, cluster.address, broker.servers, Path(folder), EXECUTORS)


def settings_of(name: str, executors: int) -> dict[str, str]:
    """Return Spark's settings of an alternative."""
    if not name.startswith("dynamic"):
        # An attached job begins as it would without: with all executors.
        return {"spark.executor.instances": str(executors), "spark.cores.max": str(executors)}
    idle, _, backlog = name.partition(" ")[2].partition("/")
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.initialExecutors": str(executors),
        "spark.dynamicAllocation.maxExecutors": str(executors),
        "spark.dynamicAllocation.executorIdleTimeout": f"{idle}s",
        "spark.dynamicAllocation.schedulerBacklogTimeout": f"{backlog}s",
    }


def run_round(
    place: Place,
    load: Load,
    number: int,
    names: Sequence[str],
    options: Options,
    more: Sequence[str],
    kept: Path,
) -> None:
    """Run every alternative once that is not kept, each round beginning with another one; advise on the static run."""
    done = {(row["trace"], row["round"], row["name"]) for row in kept_rows(kept)}
    for name in rotated(names, number):
        if (load.trace, number, name) in done:
            continue
        topic = re.sub(r"[^a-z0-9]+", "-", f"{load.trace}-{number}-{name}")
        attach = ["--executors", f"1:{place.executors}", *more] if name == ATTACHED else None
        found = run_job(place, load, topic, settings_of(name, place.executors), attach)
        made = origin()
        row = {
            "trace": load.trace,
            "round": number,
            "name": name,
            "load_turns": load_turns(load),
            **made,
            **found.row(),
        }
        if name == STATIC or options.smoke:
            row["foretold"] = foretold(found.log, place)
        keep_row(row, kept)
        progress(f"  {load.trace} {number + 1}/{options.repeats} {name}: {shown(found)}")


def dynamic(number: int, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the settings of Spark's dynamic allocation for a round: all of them first, then the best."""
    if number == 0:
        return DYNAMIC
    swept = [row for row in rows if (row["trace"], row["round"]) == (TRACES[0], 0) and row["name"] in DYNAMIC]
    return (min(swept, key=lambda row: row["executor_s"] * row["p95_s"])["name"],)


def foretold(log: str, place: Place) -> float | None:
    """Return the part of the executor-seconds of a run that `foretide advise` says would be saved, by its log."""
    command = [sys.executable, "-c", "from foretide.cli import main; main()", "advise", log]
    command += ["--executors", f"1:{place.executors}", "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        progress(f"  advise: {done.stderr.strip()[-300:]}")
        return None
    return float(json.loads(done.stdout)["saved"])


def shown(run: Run) -> str:
    """Return a run in one line."""
    return f"{run.executor_s:,.0f} executor-seconds, p95 {run.p95_s:.2f} s, {run.turns} turns, {run.rows:,} rows"


def targets(trace: str, rows: Sequence[Mapping[str, Any]]) -> list[Measured]:
    """Return the lines of the table of targets for one trace."""
    rounds: dict[int, dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        if row["trace"] == trace:
            rounds.setdefault(row["round"], {})[row["name"]] = row
    whole = [one for one in rounds.values() if STATIC in one and ATTACHED in one]

    def against(column: str, other: str) -> Ratio | None:
        pairs = [(one[ATTACHED][column], one[other][column]) for one in whole if other in one]
        found = tuple(ours / theirs for ours, theirs in pairs if ours is not None and theirs)
        return Ratio(found) if found else None

    def of(values: Sequence[float | None]) -> Ratio | None:
        found = tuple(value for value in values if value is not None and not math.isnan(value))
        return Ratio(found) if found else None

    ours = [one[ATTACHED] for one in whole]
    foretold_part = of(
        [
            one[STATIC]["foretold"] / saved
            for one in whole
            if one[STATIC].get("foretold") is not None
            and (saved := 1 - one[ATTACHED]["executor_s"] / one[STATIC]["executor_s"]) > 0
        ]
    )
    # The best setting, which all rounds have; the others are in the table of figures.
    others = [name for name in DYNAMIC if all(name in one for one in whole)]
    extra_cpu = of([100 * (one[ATTACHED]["cpu_share"] - one[STATIC]["cpu_share"]) for one in whole])
    extra_mb = of([one[ATTACHED]["memory_mb"] - one[STATIC]["memory_mb"] for one in whole])
    lines = [
        Measured(f"{trace}: executor-seconds", STATIC, "at most", 0.75, against("executor_s", STATIC)),
        Measured(f"{trace}: p95 latency", STATIC, "at most", 1.3, against("p95_s", STATIC)),
    ]
    for name in others:
        lines += [
            Measured(f"{trace}: executor-seconds", name, "at most", 1.0, against("executor_s", name)),
            Measured(f"{trace}: p95 latency", name, "at most", 1.0, against("p95_s", name)),
        ]
    return [
        *lines,
        Measured(
            f"{trace}: an executor wanted again is there after",
            "s",
            "at most",
            10.0,
            of([one["return_s"] for one in ours]),
        ),
        Measured(
            f"{trace}: changes of direction",
            "turns of the load",
            "at most",
            1.3,
            of([one["turns"] / one["load_turns"] for one in ours]),
        ),
        Measured(f"{trace}: saved as foretold", "as measured", "at least", 0.9, foretold_part),
        Measured(f"{trace}: saved as foretold", "as measured", "at most", 1.1, foretold_part),
        Measured(f"{trace}: CPU of the attachment", "% of a core", "at most", 1.0, extra_cpu),
        Measured(f"{trace}: memory of the attachment", "MB", "at most", 150.0, extra_mb),
    ]


def write(rows: Sequence[Mapping[str, Any]], options: Options) -> None:
    """Write the tables as JSON and as a section of the page, and after a full run the targets into the guide."""
    lines = [line for trace in dict.fromkeys(row["trace"] for row in rows) for line in targets(trace, rows)]
    intro = (
        "examples/plain_job.py on a standalone cluster of two workers with two cores each, from Kafka; ratios of the"
        " attached run to another one of the same round (least to greatest). The highest rate keeps six tenths of four"
        " executors busy; a batch every five seconds. `dynamic i/b` is Spark's dynamic allocation with an idle time-out"
        " of i and a backlog time-out of b seconds: all settings ran once, and the one with the least product of"
        f" executor-seconds and p95 in further rounds. {provenance(rows)}"
    )
    details = Table(
        "Figures of alternatives, medians over rounds:", ["trace", "alternative", "runs", *COLUMNS], summary(rows)
    )
    report(
        "attach",
        "Attached jobs",
        lines,
        {"rows": list(rows)},
        options,
        intro=intro,
        tables=[details],
        packages=["pyspark"],
    )
    if not options.quick:
        link = "All of it, with the command that made it: [benchmarks.md](../benchmarks.md#attached-jobs)."
        write_section(GUIDE, "attach", f"{targets_table(lines)}\n\n{intro} {link}")


def summary(rows: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """Return the figures of every alternative on every trace, each the median over rounds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["name"]), []).append(row)
    found = []
    for (trace, name), runs in groups.items():
        known = [[run[column] for run in runs if run[column] is not None] for column in COLUMNS]
        found.append([trace, name, str(len(runs)), *(f"{median(values):.4g}" if values else "–" for values in known)])
    return found


if __name__ == "__main__":
    main()
