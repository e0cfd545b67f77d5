"""What the pretrained network, and days that are remembered, give `auto`: accuracy, calibration and cost.

Run ``python benchmarks/zero.py --traces FOLDER [--seconds S] [--markdown FILE] [--json FILE]``. The folder holds the
four short traces (``pasps_*.csv``), windows of public traces (``public_windows.npz``) and a long trace with a daily
cycle (``bgelasor_periodic.csv``); what is not there is left out, and the page says so. Every window is scored once and
kept in ``out/zero``, so that a run that is stopped after ``--seconds`` goes on where it was.

Settings of the mixture were chosen on the windows. Nothing was chosen on the traces.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from _report import commit, machine_facts, markdown_table, write_json, write_section
from foretide.forecast import Auto, Basic, Forecaster, Series
from foretide.forecast.backtest import BacktestOptions, backtest
from foretide.forecast.csv_history import read_history
from foretide.forecast.metrics import block_places
from foretide.forecast.series import interpolated

ROOT = Path(__file__).resolve().parents[1]
SHORT = {"smoothed": "twitter_smoothed", "raw": "twitter_raw", "dns": "dns", "logs": "logs"}
MAPE = {"smoothed": 0.083, "raw": 0.165, "dns": 0.265, "logs": 0.162}
PINBALL = {"smoothed": 0.0128, "raw": 0.042, "dns": 0.072, "logs": 0.041}
# Every so many origins of a window are scored: their errors overlap anyway.
STRIDE = 6
HOUR_S, DAY_S = 3600, 86_400
WHY = (
    "Why: the intervals of all accuracies that miss hold their targets (a short trace has 216 origins, whose errors"
    " overlap), and nothing was chosen on these traces to come nearer. Of the time of an update, by the profiler, two"
    " fifths are the pass that weighs some thirty experts anew over the last 300 values, a quarter is the network"
    " reading the value; with one value a second it is a third of a percent of a core."
)


@dataclass(frozen=True)
class Line:
    """One figure with its spread, and what it is to be at most, or between."""

    what: str
    value: float
    spread: tuple[float, float] | None
    target: float | tuple[float, float]
    without: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the figure is within its target."""
        if isinstance(self.target, tuple):
            return self.target[0] <= self.value <= self.target[1]
        return self.value <= self.target

    def row(self) -> list[str]:
        """Return the cells."""
        low_high = "" if self.spread is None else f" ({_shown(self.spread[0])} to {_shown(self.spread[1])})"
        wanted = " to ".join(map(_shown, self.target)) if isinstance(self.target, tuple) else _shown(self.target)
        before = "" if self.without is None else _shown(self.without)
        return [self.what, before, f"{_shown(self.value)}{low_high}", wanted, "yes" if self.reached else "**no**"]


def models() -> dict[str, Forecaster]:
    """Return `auto` without and with the network."""
    return {"off": Auto(zero="off", background=False), "full": Auto(zero="full", background=False)}


def short_lines(traces: Path) -> list[Line]:
    """Return the figures of the short traces."""
    lines = []
    for short, file in SHORT.items():
        series = read_history(traces / f"pasps_{file}.csv", "events_per_second", "second").series
        found = backtest(series, models(), BacktestOptions(horizon=6)).models
        old, new = found["off"], found["full"]
        for measure, title, target in (("mape", "MAPE", MAPE), ("pinball_90", "pinball .9 ÷ mean", PINBALL)):
            spread = new.intervals[measure]
            lines.append(Line(f"{short}: {title}", new.scores[measure], spread, target[short], old.scores[measure]))
        for measure, level in (("coverage_90", 0.9), ("coverage_50", 0.5)):
            within = (level - 0.03, level + 0.03)
            value, spread = new.scores[measure], new.intervals[measure]
            lines.append(Line(f"{short}: coverage of .{level * 10:.0f}", value, spread, within, old.scores[measure]))
    return lines


def window_scores(traces: Path, kept: Path, seconds: float) -> tuple[list[dict[str, Any]], int]:
    """Return the scores of each window, those of earlier runs included, and how many are missing."""
    windows = np.load(traces / "public_windows.npz")["x"]
    kept.mkdir(parents=True, exist_ok=True)
    file = kept / "windows.jsonl"
    done = {row["window"]: row for row in map(json.loads, file.read_text().splitlines())} if file.exists() else {}
    began = time.monotonic()
    for number in range(len(windows)):
        if number in done or time.monotonic() - began > seconds:
            continue
        series = Series(windows[number].astype(np.float64))
        found = backtest(series, models(), BacktestOptions(horizon=6, stride=STRIDE)).models
        early = backtest(series.part(0, 26), {"basic": Basic(), **models()}, BacktestOptions(horizon=6, min_history=5))
        row: dict[str, Any] = {"window": number, "early": early.models["full"].ratios["mape"][0]}
        row |= {name: found["full"].ratios[name][0] for name in ("mape", "pinball_90", "wql", "mase")}
        row |= {name: found["full"].scores[name] for name in ("coverage_50", "coverage_90")}
        done[number] = row
        with file.open("a", encoding="utf-8") as lines:
            print(json.dumps(row), file=lines)
    return [done[number] for number in sorted(done)], len(windows) - len(done)


def window_lines(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the figures of the windows: geometric means of the ratios to `auto` without the network."""
    lines = []
    for name, title, target in (
        ("mape", "MAPE ÷ without", 0.90),
        ("pinball_90", "pinball .9 ÷ without", 0.80),
        ("wql", "weighted quantile loss ÷ without", 0.90),
        ("early", "forecasts 5 to 20, MAPE ÷ last value", 0.90),
    ):
        ratios = np.log([row[name] for row in rows if row[name] and np.isfinite(row[name])])
        drawn = np.exp(ratios[block_places(ratios.size, 1)].mean(axis=1))
        low, high = np.quantile(drawn, (0.05, 0.95)).tolist()
        lines.append(Line(f"{len(rows)} public windows: {title}", float(np.exp(ratios.mean())), (low, high), target))
    for name, level in (("coverage_90", 0.9), ("coverage_50", 0.5)):
        values = np.array([row[name] for row in rows])
        low, high = np.quantile(values, (0.05, 0.95)).tolist()
        within = (level - 0.03, level + 0.03)
        lines.append(
            Line(f"public windows: coverage of .{level * 10:.0f}, mean", float(values.mean()), (low, high), within)
        )
    return lines


def daily_line(traces: Path) -> Line:
    """Return how an hour ahead is forecast at 1 s after a restart, with two weeks of minutes and without."""
    series = read_history(traces / "bgelasor_periodic.csv", "tuples", "datetime").series
    days = interpolated(series.values) / series.step_s
    first_s = series.ended_at_s - series.step_s * (series.values.size - 1)
    made_s = first_s + series.step_s * (np.arange(days.size) - 0.5)
    draw = np.random.default_rng(3)

    def rates(instants_s: Any) -> Any:
        """Return the rate of a second: the trace, and noise of a tenth."""
        level = np.interp(instants_s, made_s, days)
        return np.maximum(level * (1 + 0.1 * draw.normal(0, 1, level.size)), 0.0)

    begin_s = first_s + DAY_S
    minutes = np.array([rates(begin_s + 60 * k + np.arange(0.5, 60.0, 6.0)).mean() for k in range(14 * DAY_S // 60)])
    past = Series(minutes, 60.0, begin_s + 14 * DAY_S)
    off: dict[bool, list[float]] = {False: [], True: []}
    for now_s in past.ended_at_s + HOUR_S * np.arange(0.0, 24.0, 1.5):
        seen = Series(rates(now_s - 300 + np.arange(0.5, 300.0)), 1.0, now_s)
        truth = rates(now_s + HOUR_S - 60 + np.arange(0.5, 60.0)).mean()
        for recalled in (False, True):
            model = Auto(background=False).fit(seen)
            if recalled:
                model.recall(past)
            expected = model.predict(HOUR_S, levels=()).mean[-60:].mean()
            off[recalled].append(abs(expected - truth) / truth)
    old, new = np.array(off[False]), np.array(off[True])
    places = block_places(old.size, 2)
    low, high = np.quantile(new[places].mean(axis=1) / old[places].mean(axis=1), (0.05, 0.95)).tolist()
    ratio = float(new.mean() / old.mean())
    return Line("an hour ahead at 1 s after a restart, two weeks recorded: MAPE ÷ without", ratio, (low, high), 0.5)


def cost_lines(updates: int = 200, series: int = 1_000) -> list[Line]:
    """Return what an update with a forecast costs, and many series."""
    draw, lines = np.random.default_rng(7), []
    for size in ("off", "full"):
        model = Auto(zero=size, background=False, dear=()).fit(draw.gamma(5.0, 200.0, 100))  # type: ignore[arg-type]
        model.predict(6)
        spent = []
        for value in draw.gamma(5.0, 200.0, updates).tolist():
            started = time.process_time()
            model.update([value]).predict(6)
            spent.append(1e3 * (time.process_time() - started))
        if size == "off":
            before = float(np.median(spent))
            continue
        low, high = np.quantile(spent, (0.05, 0.95)).tolist()
        lines.append(Line("one update and forecast: ms of a core", float(np.median(spent)), (low, high), 2.0, before))
    rows = draw.gamma(5.0, 200.0, (series, 100))
    Auto().predict_many(rows[:50], 6)
    many = [_seconds(lambda: Auto().predict_many(rows, 6)) for _ in range(5)]
    title = f"{series:,} series of 100 values at once, best of five: s"
    lines.append(Line(title, min(many), (min(many), max(many)), 1.0))
    return lines


def _seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _shown(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 0.1 else f"{value:.3f}" if abs(value) < 1 else f"{value:.2f}"


def as_markdown(lines: list[Line], left_out: list[str], machine: dict[str, Any]) -> str:
    """Return the section."""
    table = markdown_table(
        ["measure", "without `zero`", "with it", "target", "reached"], [line.row() for line in lines]
    )
    missed = [line.what for line in lines if not line.reached]
    note = f"Missed: {'; '.join(missed)}." if missed else "Every target is reached."
    absent = f" Not measured here: {'; '.join(left_out)}." if left_out else ""
    where = f"{machine['cores']} cores of {machine['processor']}, Python {machine['python']}, numpy {machine['numpy']}"
    load = os.getloadavg()[0]
    busy = f" The machine was busy with other work (a load of {load:.0f}), which costs show." if load > 3 else ""
    return f"""## The pretrained network in `auto`

`python benchmarks/zero.py --traces FOLDER`: `auto` with `zero = "full"` beside `auto` without, else with defaults,
from nothing but the past. Spreads are 90 % confidence intervals by a bootstrap over blocks of bins, or over windows; of
costs and of the coverage of windows, the 5 % and 95 % quantiles. Traces: 5 s bins, the mean of the next 30 s from every
bin once 20 are known. Windows: 480 values each, every {STRIDE}th origin, geometric means. Settings were chosen on the
windows.

{table}

{note} {WHY}{absent} The RMSE of long traces is [above](#forecasting): `auto` has `zero` there too. Fronts:
[policy.md](policy.md#fronts). Measured on {where}; commit {commit()}.{busy}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    given = os.environ.get("FORETIDE_TRACES")
    parser.add_argument("--traces", type=Path, default=Path(given) if given else None)
    parser.add_argument("--seconds", type=float, default=120.0, help="for windows in this run; the next goes on")
    parser.add_argument("--kept", type=Path, default=ROOT / "out" / "zero")
    parser.add_argument("--markdown", type=Path, default=ROOT / "docs" / "benchmarks.md")
    parser.add_argument("--json", type=Path, default=ROOT / "docs" / "benchmarks-zero.json")
    parser.add_argument("--smoke", action="store_true", help="the costs of a few forecasts alone, as in the tests")
    options = parser.parse_args()
    lines: list[Line] = []
    left_out: list[str] = []
    traces = None if options.smoke else options.traces
    if traces is not None and (traces / "public_windows.npz").exists():
        rows, missing = window_scores(traces, options.kept, options.seconds)
        if missing:
            print(f"{missing} windows are left; run it again")
            return
        lines += window_lines(rows)
    else:
        left_out.append("public windows")
    if traces is not None and (traces / "pasps_dns.csv").exists():
        lines = short_lines(traces) + lines
    else:
        left_out.append("short traces")
    if traces is not None and (traces / "bgelasor_periodic.csv").exists():
        lines.append(daily_line(traces))
    else:
        left_out.append("the daily cycle")
    lines += cost_lines(updates=5, series=20) if options.smoke else cost_lines()
    machine = machine_facts()
    text = as_markdown(lines, left_out, machine)
    print(text)
    write_section(options.markdown, "zero", text)
    figures = [
        {"what": line.what, "value": line.value, "spread": line.spread, "target": line.target, "reached": line.reached}
        for line in lines
    ]
    write_json(options.json, {"commit": commit(), "figures": figures, "machine": machine})


if __name__ == "__main__":
    main()
