"""A run on Spark for a terminal: a live panel, or plain lines where the output is no terminal, and the report."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from foretide.commands.running.failure_view import ShownFailures, failures_view
from foretide.events import COUNTED
from foretide.spark.driver.run import ControlStatus, Progress, RunReport
from foretide.spark.steering.steered_run import SteeredRun

__all__ = ["ProgressView", "comparison_view", "report_view", "steered_view"]

_PLAIN_EVERY_S = 5.0


class ProgressView:
    """Shows how a run stands: redrawn in place on a terminal, a line every five seconds elsewhere.

    Parameters
    ----------
    console : Console
        Where to.
    title : str
        What runs.
    """

    def __init__(self, console: Console, title: str) -> None:
        self._console, self._title = console, title
        self._live = Live(console=console, refresh_per_second=4, transient=True) if console.is_terminal else None
        self._shown_s = -math.inf
        self._note = "Ctrl-C stops it gracefully"
        self._failures = ShownFailures(console)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        self._failures.__enter__()
        self.say("starting Spark")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._failures.__exit__(kind, error, trace)
        if self._live is not None:
            self._live.stop()

    def retitle(self, title: str) -> None:
        """Go on with another run."""
        self._title, self._shown_s = title, -math.inf

    def say(self, words: str) -> None:
        """Show what is going on while there is nothing to measure."""
        if self._live is not None:
            self._live.update(Spinner("dots", Text(f"{self._title}: {words}")))
        else:
            self._print(f"{self._title}: {words}")

    def show(self, progress: Progress) -> None:
        """Show how the run stands."""
        if self._live is not None:
            self._live.update(_panel(progress, self._title, self._note))
        elif time.monotonic() - self._shown_s >= _PLAIN_EVERY_S:
            self._shown_s = time.monotonic()
            self._print(_line(progress))

    def _print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)


def report_view(report: RunReport) -> RenderableType:
    """Return a report for a terminal; 80 columns are enough."""
    parts: list[RenderableType] = [_summary(report), Text(), _operators(report), Text(), _latency(report.latency)]
    parts += [
        Text.assemble(("state  ", "dim"), (id, "bold cyan"), f"  {size.keys:,} keys, {size.bytes / 1e6:.1f} MB")
        for id, size in report.states.items()
    ]
    if report.failures:
        parts.append(failures_view(report.failures))
    if report.letters_left_out:
        words = f"{report.letters_left_out:,} of them are counted, but not in the log: too many failed at once"
        parts.append(Text(words, style="yellow"))
    parts += [Text(str(drop), style="yellow") for drop in report.drops]
    if not report.drained:
        words = "not drained in time: what is left inside goes on at the next start in the same --path"
        parts.append(Text(words, style="yellow"))
    return Group(*parts)


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _seconds(value: float | None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _replicas(replicas: Mapping[str, int]) -> str:
    return " ".join(f"{operator}={count}" for operator, count in replicas.items())


def _line(progress: Progress) -> str:
    return (
        f"{_clock(progress.elapsed_s)}  in {progress.input_rate:,.0f}/s  backlog {progress.backlog:,}"
        f"  batches {progress.batches}  p50 {_seconds(progress.p50_s)}  p95 {_seconds(progress.p95_s)}"
        f"  {_replicas(progress.replicas)}{_control_line(progress.control)}"
    )


def _control_line(status: ControlStatus | None) -> str:
    if status is None:
        return ""
    expected = "" if math.isnan(status.expected_rate) else f"  expected {status.expected_rate:,.0f}/s"
    decision = f"  {status.policy}: {status.decision}" if status.decision else ""
    executors = f"  executors {status.executors}" if status.executors else ""
    promise = f"  {status.promise}" if status.promise else ""
    return expected + executors + decision + promise


def _panel(progress: Progress, title: str, note: str) -> Panel:
    table = Table.grid(padding=(0, 3))
    for _ in range(4):
        table.add_column()
    facts = (
        ("input", f"{progress.input_rate:,.0f} events/s"),
        ("backlog", f"{progress.backlog:,} rows"),
        ("latency p50", _seconds(progress.p50_s)),
        ("arrived", f"{progress.arrived:,} events"),
        ("batches", f"{progress.batches:,}"),
        ("latency p95", _seconds(progress.p95_s)),
    )
    for row in (facts[:3], facts[3:]):
        table.add_row(*(Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in row))
    slots = Text("  ").join(
        Text.assemble((f"{operator} ", "dim"), ("■" * count, "cyan"), (f" {count}", "bold"))
        for operator, count in progress.replicas.items()
    )
    parts: list[RenderableType] = [table, Text(), slots]
    if progress.control is not None:
        parts += [Text(), _control(progress.control)]
    return Panel(
        Group(*parts),
        title=Text.assemble(" ", (title, "bold cyan"), f"  {_clock(progress.elapsed_s)} "),
        title_align="left",
        subtitle=Text(f" {note} ", style="dim"),
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="cyan",
        padding=(1, 2),
    )


def _control(status: ControlStatus) -> Text:
    rate = "–" if math.isnan(status.expected_rate) else f"{status.expected_rate:,.0f} events/s"
    parts = [("expected ", "dim"), (rate, "bold"), ("   last decision ", "dim"), (status.decision or "–", "bold")]
    if status.executors:
        parts += [("   executors ", "dim"), (status.executors, "bold")]
    if status.promise:
        parts += [("   promise ", "dim"), (status.promise, "bold")]
    return Text.assemble(*parts, (f"   {status.policy}", "dim"))


def steered_view(run: SteeredRun) -> RenderableType:
    """Return how control did, for a terminal: the metrics of SPEC P8, and what went wrong."""
    parts: list[RenderableType] = [Text(), comparison_view([run.row("")])]
    if run.slo is not None:
        parts += [Text(), Text(f"{run.slo}", style="bold")]
    # What failed, and what was dropped, is in the report already.
    for event in [one for one in run.events if one.severity != "info" and one.kind not in COUNTED][-5:]:
        parts.append(Text(f"{event.kind}: {event.message}", style="yellow"))
    return Group(*parts)


_USED = (
    ("saved", "saved", ".1%"),
    ("slot_seconds", "slot·s", ",.0f"),
    ("latency_mean_ms", "mean ms", ",.0f"),
    ("latency_p95_ms", "p95 ms", ",.0f"),
    ("latency_p99_ms", "p99 ms", ",.0f"),
    ("failed", "failed", ",d"),
    ("lost", "lost", ",d"),
    ("duplicated", "twice", ",d"),
)
_FORESEEN = (
    ("processed", "processed", ".1%"),
    ("degradation", "degradation", ".3f"),
    ("error_input", "error of input", ".3f"),
    ("error_replica", "of replicas", ".3f"),
    ("changes", "changes", ",d"),
)
_BEGAN = (
    ("first_plan_s", "first plan s", ".1f"),
    ("cold_p95_ms", "p95 ms, first 30 s", ",.0f"),
    ("warm_p95_ms", "after", ",.0f"),
    ("overridden", "plans that guards changed", ".1%"),
)


def comparison_view(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """Return the metrics of runs as three tables that fit 80 columns, a line for each policy."""
    return Group(_metrics(rows, _USED), Text(), _metrics(rows, _FORESEEN), Text(), _metrics(rows, _BEGAN))


def _metrics(rows: Sequence[Mapping[str, Any]], columns: Sequence[tuple[str, str, str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("policy", style="bold cyan", no_wrap=True, min_width=12)
    for _, title, _ in columns:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        cells = [(row.get(name), shape) for name, _, shape in columns]
        table.add_row(str(row["policy"]), *("–" if value is None else format(value, shape) for value, shape in cells))
    return table


def _summary(report: RunReport) -> Text:
    rate = report.arrived / report.measured_s if report.measured_s else 0.0
    waiting = f", {report.waiting:,} not admitted" if report.waiting else ""
    came = f"{report.arrived:,} events came in {report.measured_s:.1f} s ({rate:,.0f}/s){waiting}"
    held = f"\nlive: {', '.join(report.live)}; its tasks held their slots all the time" if report.live else ""
    return Text.assemble(
        (report.topology, "bold"),
        (f"  on {report.master}: {report.ending}\n", "dim"),
        f"{came}; {report.batches} batches",
        (held, "dim"),
    )


def _operators(report: RunReport) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True, header_style="bold")
    table.add_column("operator", style="bold cyan", overflow="fold", min_width=8)
    for name in ("r", "rows in", "rows out", "rows/s", "busy", "per event", "used", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    for id, part in report.operators.items():
        table.add_row(
            id,
            str(part.replicas),
            f"{part.rows_in:,}",
            f"{part.rows_out:,}",
            f"{part.rows_per_s:,.0f}",
            f"{part.busy_s:.1f} s",
            f"{part.execution_ms * 1000:.3g} µs" if part.execution_ms < 1 else f"{part.execution_ms:.3g} ms",
            f"{part.utilisation:.1%}",
            f"{part.failed:,}",
        )
    return table


def _latency(latency: Mapping[str, float]) -> Text:
    parts: list[tuple[str, str]] = [("latency  ", "dim")]
    for name in ("p50", "p95", "p99", "mean"):
        parts += [(f"{name} ", "dim"), (f"{_seconds(latency[name])}  ", "bold")]
    return Text.assemble(*parts, (f"({latency['count']:,.0f} rows)", "dim"))
