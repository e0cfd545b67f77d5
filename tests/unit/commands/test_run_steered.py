"""What `foretide run` shows of a steered run, and the errors that come before Spark is started."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.running.run_view import ProgressView, comparison_view, steered_view
from foretide.control.score import RunScore
from foretide.events import Event
from foretide.latency import LatencyHistogram
from foretide.records import Measurement
from foretide.report import to_html
from foretide.report.runs import steered_record
from foretide.spark.driver.audit import Audit
from foretide.spark.driver.run import ControlStatus, Progress, RunReport
from foretide.spark.steering.samples import Sample
from foretide.spark.steering.steered_run import SteeredRun
from foretide.topology import flow
from foretide.transport.dead_letters import Failure

APP = "twitter-classification"
PROGRESS = Progress(65.0, 1000, 56, 789.0, 7, {"a": 2}, 0.25, math.nan)
ROW = {
    "policy": "static-peak",
    "trace": "t",
    "td": 3.0,
    "saved": 0.4312,
    "slot_seconds": 1_234_567.8,
    "latency_mean_ms": 12_345.6,
    "latency_p95_ms": None,
    "latency_p99_ms": 99_999.0,
    "processed": 1.0,
    "degradation": 0.1234,
    "error_input": None,
    "error_replica": 0.2,
    "changes": 1_234,
    "lost": 0,
    "duplicated": None,
    "failed": 1_234,
}
FAILED = (Failure("a", "AttributeError", "no asign", '{"id": 1}', "job.py:7: rows.asign(n=1)", 2),)


def console() -> Console:
    return Console(width=80, force_terminal=False, color_system=None, legacy_windows=False)


def steered() -> SteeredRun:
    job = flow("line")
    job.source("in").operator("a")
    topology = job.build()
    latency = LatencyHistogram()
    latency.add([0.5], [10])
    measurement = Measurement(
        layout=topology.layout,
        ended_at_s=101.0,
        duration_s=1.0,
        arrived=np.array([10.0]),
        passed=np.array([10.0]),
        processed=np.array([10.0]),
        queued=np.zeros(1),
        busy_s=np.array([0.1]),
        replicas=np.array([2]),
    )
    report = RunReport("line", "local[4]", "all input is through", True, 1.0, 1, 10, 0, {}, {"mean": math.nan}, FAILED)
    return SteeredRun(
        report=report,
        policy="foretide",
        forecaster="auto",
        td_s=3.0,
        score=RunScore(
            saved=0.5,
            r_over=4.0,
            slot_seconds=2.0,
            latency_mean_ms=500.0,
            latency_p95_ms=500.0,
            latency_p99_ms=math.nan,
            processed=1.0,
            degradation=0.0,
            error_input=math.nan,
            error_replica=0.1,
            changes=0,
        ),
        audit=Audit(10, 0, 0),
        samples=(Sample(measurement, {}, latency, 2),),
        decisions=(),
        events=(
            Event(1.0, "plan.applied", "a 1 → 2"),
            Event(1.5, "operator.failed", str(FAILED[0]), "warning"),
            Event(2.0, "store.locked", "it is locked", "error"),
        ),
        topology=topology,
    )


class TestViews:
    def test_a_comparison_fits_eighty_columns(self) -> None:
        screen = console()
        with screen.capture() as capture:
            screen.print(comparison_view([ROW, {**ROW, "policy": "foretide"}]))
        text = capture.get()
        assert max(map(len, text.splitlines())) <= 80
        for words in ("static-peak", "43.1%", "1,234,568", "12,346", "–", "0.123", "1,234"):
            assert words in text

    def test_what_went_wrong_is_said_below_the_metrics(self) -> None:
        screen = console()
        with screen.capture() as capture:
            screen.print(steered_view(steered()))
        text = capture.get()
        assert "store.locked: it is locked" in text
        assert "plan.applied" not in text
        assert "operator.failed" not in text, "the report lists it, with its final count"

    def test_the_line_of_progress_tells_forecast_and_decision(self) -> None:
        from dataclasses import replace

        screen = console()
        status = ControlStatus("foretide", 812.4, "a 2 → 3", "2 of 3, 3 requested")
        with screen.capture() as capture, ProgressView(screen, "line") as view:
            view.show(replace(PROGRESS, control=status))
        assert "a=2  expected 812/s  executors 2 of 3, 3 requested  foretide: a 2 → 3" in capture.get()

    def test_the_row_and_the_report_have_no_nan(self) -> None:
        body = json.loads(json.dumps(steered().to_dict("t"), allow_nan=False))
        assert body["control"]["latency_p99_ms"] is None
        assert (body["control"]["lost"], body["control"]["trace"]) == (0, "t")
        assert body["warnings"][1:] == ["store.locked: it is locked"]
        assert (body["control"]["failed"], body["dead_letters"]) == (2, 2)
        assert body["failures"] == [FAILED[0].to_json()]

    def test_the_page_holds_the_metrics(self) -> None:
        record = steered_record(steered(), "t")
        assert record.at_s.tolist() == [1.0]
        assert record.throughput_per_s.tolist() == [10.0]
        page = to_html(record)
        for words in ("line on local[4]", "slot-seconds", "duplicated", "store.locked", "rows.asign(n=1)", "2 events"):
            assert words in page


class TestCommand:
    @pytest.fixture
    def runner(self) -> CliRunner:
        return CliRunner()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ([APP, "--policy", "foretied"], "did you mean 'foretide'"),
            ([APP, "--policy", "pasps:lrr"], "did you mean 'lr'"),
            ([APP, "--policy", "pasps,ds2"], "--compare takes several"),
            ([APP, "--forecaster", "lrr"], "lrr"),
            ([APP, "--td", "0"], "td_s"),
            ([APP, "--compare", "static-peak,nobody"], "nobody"),
            ([APP, "--compare", " "], "'--compare': expected at least one policy"),
            ([APP, "--compare", "pasps", "--path", "x"], "every policy starts afresh"),
            ([APP, "--health", "idrn"], "did you mean 'idrnn'"),
            ([APP, "--executors", "many"], "the fewest and the most, such as 1:4"),
            ([APP, "--policy", "none", "--html", "x.html"], "a run that is steered"),
            (["no-such-app"], "no-such-app"),
        ],
    )
    def test_errors_are_one_message(self, runner: CliRunner, arguments: list[str], message: str) -> None:
        result = runner.invoke(app, ["run", *arguments])
        assert result.exit_code == 2, result.output
        assert message in result.stderr
        assert "Traceback" not in result.output

    def test_a_profile_is_stored_where_run_looks_for_it(
        self, runner: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FORETIDE_STORE", str(tmp_path / "runs.db"))
        result = runner.invoke(app, ["profile", APP, "--events", "20", "--set", "lookup_ms=0"])
        assert result.exit_code == 0, result.output
        found = json.loads((tmp_path / "profiles" / f"{APP}.profile.json").read_text())
        assert set(found["operators"]) == {"sentiment", "author", "store"}
        assert "per event" in result.stdout
