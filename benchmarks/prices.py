"""The prices of the default policy, chosen on inputs that no other figure is reported on.

Every price is tried below and above its default, all else as it is, on ten made-up inputs of another seed than those of
reports and on the former halves of the recorded traces, under stress. What counts is the hypervolume of the policy's
front over patience, as a ratio to that with the defaults on the same input. A default stays unless another value covers
1 % more in the geometric mean. What was tried is kept in `out/benchmarks/prices.jsonl`, and the same command goes on.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from _harness import QUICK, RESULTS, keep_row, kept_rows, progress
from _report import markdown_table, write_json
from foretide.control.policies import Policy
from foretide.plan.planners.foretide import Foretide
from foretide.sim.compare import Scenario, calibrated
from foretide.sim.fronts.front import covered
from foretide.sim.fronts.study import box_of
from foretide.sim.fronts.sweep import run_trials, trials_of
from foretide.sim.settings import MicroBatch
from foretide.sim.stress import Stress
from foretide.traces import load_trace, made_traces

RECORDED = ("pasps_twitter_smoothed", "pasps_twitter_raw", "pasps_dns", "pasps_logs")
INPUTS = (*(f"{name}@-50%" for name in RECORDED), *(f"{name}:1" for name in made_traces()))
# Where replicas belong to operators, and where slots are shared by batches as on Spark.
PLANES = {"replicas": None, "batches": MicroBatch(fixed_s=0.2)}
TRIED = {"lateness": (0.1, 0.5), "persistence": (0.4, 0.85), "margin": (0.05, 0.2)}
# With batches the other two have no part in a decision.
COUNTS = {"replicas": tuple(TRIED), "batches": ("persistence",)}
PATIENCE = (0.1, 0.2, 0.4, 0.7, 1.2, 2.0, 4.0)
DEFAULTS: dict[str, float] = {}
KEPT = QUICK / "prices.jsonl"


def main() -> None:
    """Try every price on every input, and print the ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="one price on a minute of one input, as in the tests")
    parser.add_argument("--planes", default=",".join(PLANES), help=f"of {', '.join(PLANES)}")
    parser.add_argument("--inputs", default=",".join(INPUTS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, default=RESULTS / "prices.json")
    given = parser.parse_args()
    kept = KEPT.with_suffix(".smoke.jsonl") if given.smoke else KEPT
    if given.smoke:
        kept.unlink(missing_ok=True)
    inputs = ["pasps_dns@-120"] if given.smoke else given.inputs.split(",")
    for plane in given.planes.split(","):
        tried = [DEFAULTS, *({price: value} for price in COUNTS[plane] for value in TRIED[price])]
        for prices in tried[: 2 if given.smoke else None]:
            for name in inputs:
                measure(name, plane, prices, given.jobs, kept)
    write(kept_rows(kept), given.json)


def measure(name: str, plane: str, prices: dict[str, float], jobs: int, kept: Path) -> None:
    """Find what the policy covers with these prices on one input, unless that is known."""
    key = {"input": name, "plane": plane, "prices": prices}
    if any({field: row[field] for field in key} == key for row in kept_rows(kept)):
        return
    scenario = calibrated(load_trace(name), 5.0, stress=Stress())
    batches = PLANES[plane]
    if batches is not None:
        scenario = replace(scenario, settings=scenario.settings.model_copy(update={"micro_batch": batches}))
    row = {**key, "hypervolume": hypervolume(scenario, prices, jobs)}
    keep_row(row, kept)
    progress(f"  {plane:<9} {name:<32} {told(prices):<18} {row['hypervolume']:.4f}")


def hypervolume(scenario: Scenario, prices: dict[str, float], jobs: int) -> float:
    """Return what the policy's front over patience covers."""
    box, policy = box_of(scenario), Policy("foretide", "auto", planner_settings=prices)
    rows = run_trials(trials_of(scenario, [policy], 1, {"foretide": {"patience": PATIENCE}}), jobs)
    enough = [row for row in rows if row["latency_p95_ms"] is not None and row["processed"] >= box.least_processed]
    return covered(np.array([[row["cost"], row["latency_p95_ms"]] for row in enough]).reshape(-1, 2), box)


def told(prices: dict[str, float]) -> str:
    """Return prices as text."""
    return " ".join(f"{price} {value:g}" for price, value in prices.items()) or "defaults"


def write(rows: list[dict[str, Any]], path: Path) -> None:
    """Print the geometric means of ratios to the defaults, their range, and n; and write them."""
    base = {(row["input"], row["plane"]): row["hypervolume"] for row in rows if not row["prices"]}
    ratios: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        ratio = row["hypervolume"] / base[row["input"], row["plane"]]
        ratios.setdefault((row["plane"], told(row["prices"])), []).append(ratio)
    lines = [
        [
            plane,
            prices,
            f"{np.exp(np.mean(np.log(found))):.4f}",
            f"{min(found):.3f} to {max(found):.3f}",
            str(len(found)),
        ]
        for (plane, prices), found in ratios.items()
    ]
    print(markdown_table(["data plane", "prices", "hypervolume ÷ defaults", "range", "inputs"], lines))
    shown = {price: Foretide.model_fields[price].default for price in ("patience", *TRIED)}
    body = {"name": "prices", "defaults": shown, "inputs": list(INPUTS), "rows": rows}
    write_json(path, body)


if __name__ == "__main__":
    main()
