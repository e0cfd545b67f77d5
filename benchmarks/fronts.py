"""Fronts of policies and the promise, in the simulator under stress: what `foretide compare` finds, with its spread.

On the later halves of four recorded traces and on ten made-up inputs, none of which took part in the choice of prices,
each policy is run at many settings of its own knob, with five seeds. What counts is the part of the plane of cost and
p95 that its points cover. Then `foretide` promises a p95 on batches, on five inputs. Runs are kept in
`out/benchmarks/fronts.jsonl`: an hour and more on two cores, and the same command goes on where it was stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from _harness import QUICK, Measured, Options, Ratio, Table, parse_options, report
from foretide.sim.fronts.front import Box, covered

RECORDED = ("pasps_twitter_smoothed", "pasps_twitter_raw", "pasps_dns", "pasps_logs")
INPUTS = (*(f"{name}@50%-" for name in RECORDED), "made:*")
OURS, CLAIRVOYANT = "foretide:auto", "clairvoyant"
POLICIES = ("foretide", "pasps", "pasps:basic", "ds2", "threshold", "static")
PROMISE = "p95<1200ms"
# Ours is to cover no less than so much of what the best of the others does.
LEAST = 0.98


def main() -> None:
    """Run both commands, and report what they found."""
    options = parse_options(__doc__, repeats=5)
    inputs = options.size(INPUTS, quick=("pasps_dns@50%-",), smoke=("pasps_dns@-120",))
    policies = options.size(POLICIES, quick=("foretide", "ds2", "static"), smoke=("foretide", "static"))
    common = ["--td", "5", "--stress", "--seeds", str(options.repeats)]
    kept = [] if options.quick else ["--keep", str(QUICK / "fronts.jsonl")]
    fronts = compare(["--front", "--traces", ",".join(inputs), "--policies", ",".join(policies), *common, *kept])
    traces = ",".join(inputs if options.quick else (*RECORDED, "made:on-off"))
    batches = ["--set", "sim.micro_batch.fixed_s=0.2", "--set", "sim.micro_batch.trigger_s=0.5"]
    promised = compare(["--traces", traces, "--policies", "foretide", *common, "--slo", PROMISE, *batches])
    found = {trace["trace"]: covers(trace, fronts["rows"]) for trace in fronts["traces"]}
    lines = [front_line(trace["trace"], found[trace["trace"]], trace) for trace in fronts["traces"]]
    write(options, [*lines, *promise_lines(promised["rows"])], fronts["traces"], found)


def compare(arguments: Sequence[str]) -> dict[str, Any]:
    """Return what a call of `foretide compare` writes as JSON."""
    with tempfile.TemporaryDirectory(prefix="foretide-") as folder:
        file = Path(folder) / "found.json"
        command = [sys.executable, "-c", "from foretide.cli import main; main()", "compare", *arguments]
        subprocess.run([*command, "--json", str(file)], check=True, stdout=subprocess.DEVNULL)
        loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return loaded


def covers(trace: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Return what each policy covers on an input, by seed."""
    box, found = Box(**trace["box"]), dict[str, list[float]]()
    own = [row for row in rows if row["trace"] == trace["trace"] and row["latency_p95_ms"] is not None]
    counted = [row for row in own if row["processed"] >= box.least_processed]
    seeds = sorted({row["seed"] for row in own})
    for policy in [*(one["policy"] for one in trace["policies"]), CLAIRVOYANT]:
        points = [
            [[row["cost"], row["latency_p95_ms"]] for row in counted if (row["policy"], row["seed"]) == (policy, seed)]
            for seed in seeds
        ]
        found[policy] = [covered(np.array(each, dtype=np.float64).reshape(-1, 2), box) for each in points]
    return found


def front_line(name: str, found: Mapping[str, Sequence[float]], trace: Mapping[str, Any]) -> Measured:
    """Return ours ÷ the best other, which is the one whose mean points cover most; a ratio for each seed."""
    others = {one["policy"]: one["hypervolume"] for one in trace["policies"] if one["policy"] != OURS}
    best = max(others, key=others.__getitem__)
    pairs = zip(found[OURS], found[best], strict=True)
    ratio = Ratio(tuple(ours / theirs if theirs else np.inf for ours, theirs in pairs))
    return Measured(f"{name}: front covers", best, "at least", LEAST, ratio)


def promise_lines(rows: Sequence[Mapping[str, Any]]) -> list[Measured]:
    """Return how often the promise was kept, and at what price."""
    lines = []
    for trace in dict.fromkeys(row["trace"] for row in rows):
        own = [row for row in rows if row["trace"] == trace]
        kept = Ratio(tuple(row["slo"]["kept"] / row["slo"]["intervals"] for row in own))
        lines.append(Measured(f"{trace}: {PROMISE} kept", "intervals", "at least", 0.95, kept))
        known = tuple(row["over_clairvoyant"] for row in own if row["over_clairvoyant"] is not None)
        price = Ratio(known) if known else None
        lines.append(Measured(f"{trace}: slot-seconds for it", CLAIRVOYANT, "at most", 1.25, price))
    return lines


def write(
    options: Options,
    lines: Sequence[Measured],
    traces: Sequence[Mapping[str, Any]],
    found: Mapping[str, Mapping[str, Sequence[float]]],
) -> None:
    """Report the targets, and what every policy covers on every input."""
    policies = list(next(iter(found.values())))
    rows = []
    for trace in traces:
        means = {one["policy"]: one["hypervolume"] for one in (*trace["policies"], trace["clairvoyant"])}
        most = max(value for policy, value in means.items() if policy != CLAIRVOYANT)
        spreads = {
            policy: np.std(values, ddof=1) if len(values) > 1 else 0.0
            for policy, values in found[trace["trace"]].items()
        }
        cells = [f"{means[policy]:.3f} ± {spreads[policy]:.3f}" for policy in policies]
        rows.append(
            [
                trace["trace"],
                *(
                    f"**{cell}**" if means[policy] == most else cell
                    for policy, cell in zip(policies, cells, strict=True)
                ),
            ]
        )
    wins = sum(max(one["policies"], key=lambda policy: policy["hypervolume"])["policy"] == OURS for one in traces)
    intro = (
        "`foretide compare --front`, replicas of operators under stress: what a front covers ÷ what the best other one"
        f" does, a ratio for each seed. Ours is the greatest on {wins} of {len(traces)} inputs. Then `--slo {PROMISE}`"
        " on batches: the share of intervals in which it was kept, and slot-seconds ÷ those of a plan that knew the"
        " input and kept it in every interval. Why others cover more where they do: [policy.md](policy.md#fronts)."
    )
    covering = Table(
        "What fronts cover: of the means of points, ± the standard deviation over seeds.", ["input", *policies], rows
    )
    details = {"wins": wins, "inputs": len(traces), "covers": {name: dict(one) for name, one in found.items()}}
    report("fronts", "Fronts under stress", lines, details, options, intro=intro, tables=[covering], packages=["numba"])


if __name__ == "__main__":
    main()
