from __future__ import annotations

import io
import json
import math
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.running.launch import StopSwitch
from foretide.commands.running.limits import queue_settings
from foretide.commands.running.run_view import ProgressView, report_view
from foretide.errors import ConfigError
from foretide.spark.batches.drops import Drop
from foretide.spark.batches.failures import FAILURE_LOGGER
from foretide.spark.batches.states import StateSize
from foretide.spark.driver.run import OperatorReport, Progress, RunReport
from foretide.spark.session.shipping import modules_beside, ship_modules
from foretide.topology import Topology, flow, load_topology
from foretide.traces import TraceError
from foretide.traces.replacement import TraceOverrides, parse_replicas, with_replicas, with_trace_options
from foretide.transport.dead_letters import Failure

ROOT = Path(__file__).parents[3]
WORDCOUNT = ROOT / "examples" / "wordcount.py"
PROGRESS = Progress(65.0, 1234, 56, 789.4, 7, {"split": 2, "count": 3}, 0.25, math.nan)
REPORT = RunReport(
    "words",
    "local[2]",
    "time is up",
    drained=False,
    measured_s=10.0,
    batches=12,
    arrived=1_000_000,
    waiting=20,
    operators={"split": OperatorReport(2, 1_000_000, 4_000_000, 100_000.0, 15.0, 0.015, 0.75, 3)},
    latency={"count": 4_000_000, "mean": 0.5, "p50": 0.25, "p95": 1.5, "p99": math.nan},
    failures=(
        Failure("split", "KeyError", "'word'", '{"id": 7}', "job.py:7: row['word']", 2),
        Failure("split", "ValueError", "no", '{"id": 9}', "", 1),
    ),
)


def mixed() -> Topology:
    job = flow("mixed")
    job.source("replayed", "trace", trace="pasps_dns", rateScale=0.5, seed=4).into("count")
    job.source("files", "files", path="in", speed=3).into("count")
    job.operator("count", replicas=(2, 8))
    return job.build()


def options_of(topology: Topology, source: str) -> dict[str, Any]:
    [found] = [dict(each.connector.options) for each in topology.sources if each.id == source]
    return found


class TestLimits:
    @pytest.mark.parametrize(
        ("bounds", "timeouts"),
        [(["0"], []), (["ten"], []), (["1.5"], []), ([], ["-1"]), ([], ["a -> b="]), ([], ["inf"])],
    )
    def test_what_is_no_number_above_0_is_refused(self, bounds: list[str], timeouts: list[str]) -> None:
        with pytest.raises(ConfigError, match=r"'--(queue-bound|timeout)': expected .* or QUEUE=NUMBER for one, got"):
            queue_settings(bounds, timeouts)

    def test_none_are_the_default(self) -> None:
        assert queue_settings([], []) == {}

    def test_what_was_dropped_is_in_the_report(self) -> None:
        drop = Drop("lines", "timeout_s", 30, 7, ("split",))
        shown = Console(width=200, file=io.StringIO())
        shown.print(report_view(replace(REPORT, drops=(drop,))))
        assert isinstance(shown.file, io.StringIO) and str(drop) in shown.file.getvalue()
        assert replace(REPORT, drops=(drop,)).to_dict()["dropped"] == 7

    def test_the_report_tells_what_is_kept_by_key(self) -> None:
        report = replace(REPORT, states={"count": StateSize(12_345, 2_500_000)})
        shown = Console(width=80, record=True, file=io.StringIO())
        shown.print(report_view(report))
        assert "state  count  12,345 keys, 2.5 MB" in shown.export_text()
        assert report.to_dict()["states"] == {"count": {"keys": 12_345, "bytes": 2_500_000}}


class TestReplicas:
    @pytest.mark.parametrize(
        ("text", "expected"), [(None, {}), ("", {}), ("a=1", {"a": 1}), (" a = 1 , b=12,", {"a": 1, "b": 12})]
    )
    def test_text_becomes_numbers(self, text: str | None, expected: dict[str, int]) -> None:
        assert parse_replicas(text) == expected

    @pytest.mark.parametrize("text", ["split", "split=", "=2", "split=two", "split=-1", "split=1.5", "split:2"])
    def test_what_is_not_a_list_of_numbers_is_refused(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"'--replicas': expected operator=number, such as 'split=2,count=3'"):
            parse_replicas(text)

    def test_an_operator_is_given_once(self) -> None:
        with pytest.raises(ConfigError, match="expected 'a' once, got twice"):
            parse_replicas("a=1,a=2")

    def test_only_the_operators_named_change(self) -> None:
        topology = with_replicas(load_topology(WORDCOUNT), {"count": 5})
        assert topology.initial_replicas.tolist() == [1, 5]

    @pytest.mark.parametrize("count", [0, 1, 9])
    def test_bounds_hold(self, count: int) -> None:
        with pytest.raises(ConfigError, match=rf"operator 'count'.* between 2 and 8 replicas, got {count}"):
            with_replicas(mixed(), {"count": count})

    def test_an_unknown_operator_is_named_with_those_there_are(self) -> None:
        with pytest.raises(ConfigError, match="expected an operator among count, got 'cuont'"):
            with_replicas(mixed(), {"cuont": 2})


class TestTraceOptions:
    def test_only_traces_change_and_either_spelling_is_replaced(self) -> None:
        topology = with_trace_options(
            mixed(), TraceOverrides(trace="pasps_logs", speed=20, rate_scale=0.1, payload="logs")
        )
        assert options_of(topology, "replayed") == {
            "trace": "pasps_logs",
            "speed": 20,
            "rate_scale": 0.1,
            "payload": "logs",
            "seed": 4,
        }
        assert options_of(topology, "files") == {"path": "in", "speed": 3}

    def test_nothing_given_changes_nothing(self) -> None:
        assert with_trace_options(mixed(), TraceOverrides()) == mixed()

    def test_a_file_becomes_absolute_since_readers_run_elsewhere(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "my.csv").write_text("second,events_per_second\n0,1\n1,1\n")
        monkeypatch.chdir(tmp_path)
        topology = with_trace_options(mixed(), TraceOverrides(trace="my.csv"))
        assert options_of(topology, "replayed")["trace"] == str(tmp_path / "my.csv")

    @pytest.mark.parametrize(
        ("overrides", "flag"),
        [(TraceOverrides(trace="pasps_dns"), "--trace"), (TraceOverrides(rate_scale=2), "--rate-scale")],
    )
    def test_a_topology_without_a_trace_takes_none(self, overrides: TraceOverrides, flag: str) -> None:
        job = flow("none")
        job.source("files", "files").operator("count")
        with pytest.raises(
            ConfigError, match=f"'{flag}': expected a source of kind 'trace', got 'files' of kind 'files'"
        ):
            with_trace_options(job.build(), overrides)

    def test_values_are_checked_before_spark_starts(self) -> None:
        with pytest.raises(ConfigError, match=r"source 'replayed': option speed.: expected a positive number"):
            with_trace_options(mixed(), TraceOverrides(speed=0))
        with pytest.raises(ConfigError, match="'payload': expected one of"):
            with_trace_options(mixed(), TraceOverrides(payload="wrods"))
        with pytest.raises(TraceError, match="nowhere"):
            with_trace_options(mixed(), TraceOverrides(trace="nowhere"))


class TestCommand:
    """Errors that come before Spark is started: these tests need no Java."""

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--replicas", "count=99"], "between 1 and 8 replicas, got 99"),
            (["--trace", "nowhere"], "trace 'nowhere'"),
            (["--minutes", "0"], "'--minutes': expected a positive number"),
            (["--live"], "which has no transactions with offsets in them"),
            (["--engine", "live=['liness']"], "did you mean 'lines'?"),
            (["--engine", "batch_taget_s=1"], "did you mean 'batch_target_s'?"),
            (["--engine", "batch_target_s"], "'--engine': expected NAME=VALUE"),
            (["--engine", "batch_target_s=-1"], "'engine.batch_target_s': expected greater than 0"),
            (["--conf", "executor.cores=2"], "'--conf': expected a setting of Spark's, spark.KEY=VALUE"),
            (["--conf", "spark.master=yarn"], "'--conf': expected settings without an option of their own"),
        ],
    )
    def test_errors_are_one_message(self, runner: CliRunner, arguments: list[str], message: str) -> None:
        result = runner.invoke(app, ["run", str(WORDCOUNT), *arguments])
        assert result.exit_code == 2
        assert message in result.stderr
        assert "Traceback" not in result.output

    def test_without_a_directory_a_cluster_gets_only_what_needs_none(self, runner: CliRunner, tmp_path: Path) -> None:
        job = tmp_path / "job.toml"
        job.write_text(
            'name = "j"\n[[sources]]\nid = "in"\n[[operators]]\nid = "a"\nfunction = "builtins:dict"\n'
            'inputs = [{from = "in", queued = true}]\n'
        )
        result = runner.invoke(app, ["run", str(job), "--master", "spark://host:7077"])
        assert result.exit_code == 2
        assert "'--path': expected a directory that the executors see as well" in result.stderr
        assert "files are needed by: queued edge 'in -> a', got none" in result.stderr

    def test_help_teaches_with_an_example(self, runner: CliRunner) -> None:
        told = runner.invoke(app, ["run", "--help"]).stdout
        assert "Example: foretide run" in told
        assert "exit status is 0 if all events went through, 4 if some failed" in " ".join(told.split())


class TestView:
    def console(self, terminal: bool) -> Console:
        return Console(width=80, force_terminal=terminal, color_system=None, legacy_windows=False)

    def test_lines_where_there_is_no_terminal(self) -> None:
        console = self.console(terminal=False)
        with console.capture() as capture, ProgressView(console, "words") as view:
            view.show(PROGRESS)
            view.show(PROGRESS)
        lines = capture.get().splitlines()
        line = "01:05  in 789/s  backlog 56  batches 7  p50 250 ms  p95 –  split=2 count=3"
        assert lines == ["words: starting Spark", line]

    def test_a_panel_on_a_terminal(self) -> None:
        console = self.console(terminal=True)
        with console.capture() as capture, ProgressView(console, "words") as view:
            view.show(PROGRESS)
        text = capture.get()
        assert all(
            words in text for words in ("789 events/s", "56 rows", "latency p50 250 ms", "split ■■ 2", "count ■■■ 3")
        )

    @pytest.mark.parametrize("terminal", [True, False])
    def test_a_failure_is_shown_as_it_happens_once(
        self, terminal: bool, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        console = self.console(terminal=terminal)
        with console.capture() as capture, ProgressView(console, "words") as view:
            view.show(PROGRESS)
            FAILURE_LOGGER.warning("%s", REPORT.failures[0], extra={"failure": REPORT.failures[0]})
            view.show(PROGRESS)
        text = capture.get()
        for words in ("split failed: KeyError: 'word'", "job.py:7: row['word']", 'event {"id": 7}'):
            assert text.count(words) == 1
        assert not caplog.records and not capsys.readouterr().err, "logging has nothing to add"
        FAILURE_LOGGER.warning("%s", REPORT.failures[0], extra={"failure": REPORT.failures[0]})
        assert len(caplog.records) == 1, "without a view, logging tells"

    def test_the_report_fits_eighty_columns_and_says_what_is_wrong(self) -> None:
        console = self.console(terminal=False)
        with console.capture() as capture:
            console.print(report_view(REPORT))
        text = capture.get()
        assert max(map(len, text.splitlines())) <= 80
        for words in (
            "4,000,000",
            "100,000",
            "15 µs",
            "75.0%",
            "p50 250 ms",
            "p99 –",
            "3 events failed",
            "2  split  KeyError: 'word' at job.py:7: row['word']",
            "1  split  ValueError: no",
            "not drained",
        ):
            assert words in text

    def test_the_report_as_json_has_no_nan(self) -> None:
        found = json.loads(json.dumps(REPORT.to_dict(), allow_nan=False))
        assert found["latency"]["p99"] is None
        assert found["operators"]["split"]["rows_in"] == 1_000_000
        assert found["dead_letters"] == 3
        assert [(each["operator"], each["error"], each["count"]) for each in found["failures"]] == [
            ("split", "KeyError", 2),
            ("split", "ValueError", 1),
        ]


def test_the_first_interrupt_asks_and_the_second_one_insists() -> None:
    view = ProgressView(Console(force_terminal=False, quiet=True), "words")
    before = signal.getsignal(signal.SIGINT)
    with StopSwitch.installed(view) as switch:
        assert not switch.stopping()
        signal.raise_signal(signal.SIGINT)
        assert switch.stopping()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


class TestModulesBeside:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "job.py").write_text("import helper, json\n\ndef f():\n    from late import x\n")
        (tmp_path / "helper.py").write_text("import package.deep\nimport job\n")
        (tmp_path / "late.py").write_text("x = 1\n")
        (tmp_path / "unused.py").write_text("")
        (tmp_path / "package").mkdir()
        (tmp_path / "package" / "__init__.py").write_text("")
        (tmp_path / "package" / "deep.py").write_text("from . import other\nimport third\n")
        (tmp_path / "third.py").write_text("")
        return tmp_path

    def test_imports_are_followed_also_inside_functions_and_packages(self, folder: Path) -> None:
        found = [path.name for path in modules_beside(folder / "job.py")]
        assert found == ["helper.py", "late.py", "package", "third.py"]

    def test_those_of_a_named_topology_are_sent(self, folder: Path) -> None:
        sent: list[str] = []
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(addPyFile=sent.append))
        (folder / "jobs.py").write_text("import late\n")
        job = flow("jobs")
        job.source("in").operator("a")
        ship_modules(spark, folder / "jobs.py:hourly", job.build())
        assert sent == [str(folder / "late.py")]

    def test_modules_that_a_file_names_are_found(self, folder: Path) -> None:
        (folder / "job.toml").write_text("")
        assert [path.name for path in modules_beside(folder / "job.toml", ["late", "numpy"])] == ["late.py"]
