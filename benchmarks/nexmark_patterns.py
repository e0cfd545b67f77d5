"""Queries of Nexmark under the load patterns of Delft's comparison of autoscalers: which policy's front covers most.

What an event costs in each operator, and what becomes of it, is measured on Spark, at the rate that keeps seven tenths
of the cores busy. The rest is simulated, in batches as on Spark, under stress: each policy at every setting of its own
knob, from five seeds. A front is measured by the part of the plane of slots and p95 that it covers (`foretide compare
--front --help`); the ratio is that of `foretide` to the best of the others with the same seed. What Spark measured and
the runs are kept in `out/benchmarks/nexmark_patterns*`: the same command goes on where it was stopped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _harness import QUICK, Measured, Options, Ratio, Table, keep_row, kept_rows, parse_options, progress, report
from _streams import open_session
from foretide.commands.running.request import default_master
from foretide.control.policies import parse_policies
from foretide.sim import MicroBatch, SimulationSettings
from foretide.sim.compare import Scenario, plain
from foretide.sim.fronts.front import Box, covered
from foretide.sim.fronts.kept import KeptRows
from foretide.sim.fronts.study import Study, plan_study
from foretide.sim.fronts.sweep import run_trials
from foretide.sim.stress import Stress
from foretide.traces import RateTrace, made_traces
from foretide.traces.made import made_trace
from nexmark_steered import build, costs, informed

# As there: a join of two streams, and a count by session.
QUERIES = ("q3", "q11")
PATTERNS = tuple(name for name in made_traces() if name.startswith("delft:"))
OURS = "foretide"
POLICIES = (OURS, "ds2", "threshold", "flink", "pasps")
TD_S = 5.0
KEPT = QUICK / "nexmark_patterns.jsonl"


def known_costs(names: Sequence[str], options: Options, kept: Path) -> dict[str, dict[str, Any]]:
    """Return what events cost in each operator of each query, as far as it was not measured before by Spark."""
    found = {row["query"]: row for row in kept_rows(kept)}
    missing = [name for name in names if name not in found]
    if not missing:
        return found
    spark = open_session(default_master(build(missing[0], 1.0)))
    try:
        for name in missing:
            seconds = options.size(20.0, quick=8.0, smoke=1.0)
            found[name] = costs(spark, name, seconds, looks=options.size(2, quick=2, smoke=1))
            keep_row(found[name], kept)
            progress(f"  {name}: {found[name]['peak_rate']:,.0f} events/s keep seven tenths of the cores busy")
    finally:
        spark.stop()
    return found


def scenario(name: str, pattern: str, known: Mapping[str, Any], part: float) -> Scenario:
    """Return a query under a pattern whose highest rate needs eight slots, or a part of it."""
    trace = made_trace(pattern)
    # On two cores the measured rate needs two slots at most; policies differ where there is something to choose.
    rates = trace.rates * (known["peak_rate"] * 8 / (os.cpu_count() or 1)) / trace.peak_rate
    whole = RateTrace(f"{name} {pattern}", trace.bin_s, rates[: max(24, int(rates.size * part))])
    settings = SimulationSettings(micro_batch=MicroBatch(fixed_s=0.2, trigger_s=0.5))
    return plain(whole, informed(build(name, known["peak_rate"]), known), TD_S, settings=settings, stress=Stress())


def hypervolumes(study: Study, rows: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, float]]]:
    """Return what every policy covers, seed by seed, for each input."""
    found: dict[str, list[dict[str, float]]] = {}
    for one, box in zip(study.scenarios, study.boxes, strict=True):
        assert isinstance(one.trace, RateTrace)
        # A policy is labelled with its forecaster; here all have the same.
        named = [{**row, "policy": row["policy"].partition(":")[0]} for row in rows if row["trace"] == one.trace.name]
        own = [row for row in named if row["policy"] in POLICIES]
        seeds = sorted({row["seed"] for row in own})
        found[one.trace.name] = [
            {
                policy: _covered(box, [row for row in own if (row["policy"], row["seed"]) == (policy, seed)])
                for policy in dict.fromkeys(row["policy"] for row in own)
            }
            for seed in seeds
        ]
    return found


def _covered(box: Box, rows: Sequence[Mapping[str, Any]]) -> float:
    points = [
        (row["cost"], row["latency_p95_ms"])
        for row in rows
        if row["latency_p95_ms"] is not None and row["processed"] >= box.least_processed
    ]
    return covered(np.array(points, dtype=np.float64).reshape(-1, 2), box)


def _won(line: Measured) -> list[bool]:
    assert line.ratio is not None
    return [pair >= 1.0 for pair in line.ratio.pairs]


def main() -> None:
    options = parse_options(__doc__)
    queries = options.size(QUERIES, quick=QUERIES[:1], smoke=QUERIES[:1])
    patterns = options.size(PATTERNS, quick=PATTERNS[:2], smoke=PATTERNS[:1])
    kept = KEPT.with_suffix(".quick.jsonl") if options.quick else KEPT
    runs = kept.with_suffix(".runs.jsonl")
    if options.quick:
        for path in (kept, runs):
            path.unlink(missing_ok=True)
    known = known_costs(queries, options, kept)
    part = options.size(1.0, quick=0.25, smoke=0.1)
    scenarios = [scenario(name, pattern, known[name], part) for name in queries for pattern in patterns]
    policies = parse_policies(",".join(POLICIES[: options.size(5, quick=5, smoke=2)]), "auto")
    study = plan_study(scenarios, policies, "p95", options.repeats)
    progress(f"nexmark under patterns: {len(study.trials)} runs in the simulator")
    runs.parent.mkdir(parents=True, exist_ok=True)
    rows = run_trials(study.trials, os.cpu_count() or 1, kept=KeptRows(runs, {"costs": known}))
    found = hypervolumes(study, rows)
    lines, table = [], []
    for name, seeds in found.items():
        pairs = tuple(one[OURS] / max(max(one[other] for other in one if other != OURS), 1e-9) for one in seeds)
        lines.append(Measured(name, "best of the others", "at least", 1.0, Ratio(pairs)))
        table.append([name, *(f"{np.median([one.get(policy, np.nan) for one in seeds]):.3f}" for policy in POLICIES)])
    won = sum(bool(line.reached) for line in lines)
    intro = (
        f"Hypervolume of slots and p95, `{OURS}` ÷ the best of {', '.join(POLICIES[1:])}; in the simulator, with costs "
        f"measured on Spark. By the worse quartile it is the greatest on {won} of {len(lines)} pairs of query and "
        "pattern. The last line counts, seed by seed, on how many."
    )
    greatest = tuple(float(sum(ratios)) for ratios in zip(*(_won(line) for line in lines), strict=True))
    what = f"pairs of query and pattern on which `{OURS}` is the greatest"
    lines.append(Measured(what, f"of {len(lines)}", "at least", 0.8 * len(lines), Ratio(greatest)))
    tables = [Table("Hypervolume, median over the seeds:", ("query and pattern", *POLICIES), table)]
    details = {"costs": known, "hypervolumes": found}
    report("nexmark_patterns", "Nexmark under load patterns", lines, details, options, intro=intro, tables=tables)


if __name__ == "__main__":
    main()
