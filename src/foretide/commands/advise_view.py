"""Advice for a terminal: its progress, and tables of what was paid and what would have been."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from foretide.advise.advice import Advice, Late
from foretide.commands.terminal import ProgressView, plain_table
from foretide.eventlogs.files import EventLog

__all__ = ["AdviseView", "advice_view"]


class AdviseView(ProgressView):
    """A progress bar over all logs: half of each is reading, half is trying.

    Parameters
    ----------
    console : Console
        The console.
    logs : sequence of EventLog
        What is read.
    """

    def __init__(self, console: Console, logs: Sequence[EventLog]) -> None:
        super().__init__(console, counted=False)
        self._logs = logs
        self._task = self._bar.add_task("reading", total=float(len(logs)))

    def reading(self, number: int) -> Callable[[int], None]:
        """Return what shows how far a log is read."""
        log, size = self._logs[number], max(1, self._logs[number].size)

        def show(done: int) -> None:
            words = f"{log.name}: {done / 2**20:,.0f} of {size / 2**20:,.0f} MB"
            self._bar.update(self._task, completed=number + 0.5 * min(1.0, done / size), description=words)

        return show

    def trying(self, number: int) -> Callable[[float, float], None]:
        """Return what shows how far the policy is."""

        def show(done_s: float, total_s: float) -> None:
            words = f"{self._logs[number].name}: {done_s:,.0f} of {total_s:,.0f} s"
            self._bar.update(self._task, completed=number + 0.5 + 0.5 * done_s / total_s, description=words)

        return show

    def skip(self, why: str) -> None:
        """Tell why a log is left out."""
        self._console.print(Text(f"left out: {why}", style="yellow"))


def advice_view(found: Sequence[Advice]) -> RenderableType:
    """Return everything about all logs, and their sum if there are several."""
    parts: list[RenderableType] = []
    for advice in found:
        parts += [_title(advice), Text(), _table(advice), *_notes(advice), Text()]
    if len(found) > 1:
        paid_s, foretold_s = sum(one.paid_s for one in found), sum(one.foretold_s for one in found)
        saved = 1 - foretold_s / paid_s if paid_s else 0.0
        words = f"{paid_s:,.0f} executor-seconds were paid, {foretold_s:,.0f} would have been: {_saved(saved)}"
        parts.append(Text.assemble((f"all {len(found)} applications: ", "bold"), words))
    return Group(*parts)


def _title(advice: Advice) -> Text:
    found, bounds = advice.application, advice.executors
    return Text.assemble(
        (f"{found.name or found.log}", "bold"),
        (f"  {found.id}, Spark {found.spark}, {advice.seconds:,.0f} s of streaming\n", "dim"),
        f"{advice.paid_s:,.0f} executor-seconds were paid, {advice.foretold_s:,.0f} would have been: ",
        (_saved(advice.saved), "bold green" if advice.saved > 0 else "bold yellow"),
        f", with {bounds.minimum} to {bounds.maximum} executors of {found.cores} cores that take "
        f"{advice.lead_s:.0f} s to come",
    )


def _saved(part: float) -> str:
    return f"{part:.0%} saved" if part >= 0 else f"{-part:.0%} more"


def _table(advice: Advice) -> RenderableType:
    table = plain_table(" ", ("then", "foretold"))
    table.add_column("what it is", style="dim")
    seconds = max(advice.seconds, 1e-9)
    table.add_row("executor-seconds", f"{advice.paid_s:,.0f}", f"{advice.foretold_s:,.0f}", "while queries ran")
    means = (advice.paid_s / seconds, advice.foretold_s / seconds)
    table.add_row("executors", *(f"{mean:.2f}" for mean in means), "on average")
    table.add_row("changes", "", f"{advice.run.changes}", f"{advice.run.turns} of them the other way than the last")
    table.add_row(
        "latency p50", *_pair(advice.then.p50_s, advice.foretold.p50_s), "from a row's coming to its batch's end"
    )
    table.add_row("latency p95", *_pair(advice.then.p95_s, advice.foretold.p95_s), _trust(advice))
    for query in advice.queries if len(advice.queries) > 1 else ():
        table.add_row(
            f"  {query.model.name} p95", *_pair(query.then.p95_s, query.foretold.p95_s), f"{query.rows:,} rows"
        )
    for query in advice.queries:
        model = query.model
        trigger = f", a trigger every {model.trigger_s:g} s" if model.trigger_s else ""
        of_rows = f"{1000 * model.row_s:.3g} ms a row"
        cold = f", {model.cold_s:.1f} s more for an executor that comes" if model.cold_s >= 0.05 else ""
        words = f"{model.start_s:.2f} s and {model.batch_s:.2f} s of a core a batch, {of_rows}{cold}{trigger}"
        table.add_row(f"  {model.name}", f"{query.batches:,} batches", "", words)
    return table


def _pair(then_s: float, foretold_s: float) -> tuple[str, str]:
    return _seconds(then_s), _seconds(foretold_s)


def _seconds(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f} s" if value < 100 else f"{value:,.0f} s"


def _trust(advice: Advice) -> str:
    checked: Late = advice.checked
    return f"for what really ran, the model says {_seconds(checked.p95_s)}"


def _notes(advice: Advice) -> list[Text]:
    return [Text(f"{advice.application.log}: {note}", style="yellow") for note in advice.notes]
