"""What a stage's runner does on the driver around the job of a batch; the job itself needs Spark."""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from foretide.compile.stages import compile_stages
from foretide.spark.batches.job import JobResult
from foretide.spark.batches.stage_runner import StageRunner
from foretide.spark.batches.states import StateSize
from foretide.spark.errors import BatchError, BatchInterrupted, OperatorError
from foretide.spark.inputs.feeds import FirstRound
from foretide.spark.settings import EngineSettings
from foretide.spark.tasks.cells import as_bytes, error_cell
from foretide.spark.tasks.contract import BatchOrder
from foretide.spark.tasks.statistics import BatchStatistics, OperatorStatistics
from foretide.store.workspace import Workspace
from foretide.topology import flow
from foretide.transport import LogFullError
from foretide.transport.dead_letters import DeadLetter


@pytest.fixture
def make_runner(tmp_path: Path) -> Callable[..., StageRunner]:
    def make(**settings: Any) -> StageRunner:
        trace = tmp_path / "trace.csv"
        trace.write_text("second,events_per_second\n0,1\n1,1\n")
        job = flow("line")
        stream = job.source("in", "trace", trace=str(trace)).operator("a", lambda row: row)
        stream.operator("b", lambda row: row, queued=True)
        stream.sink("sql", "sqlite", path=str(tmp_path / "out.db"))
        stream.sink("files", "parquet", path=str(tmp_path / "files"))
        graph = compile_stages(job.build())
        given = EngineSettings(log_max_bytes=1 << 20, **settings)
        return StageRunner(None, graph, graph.stages[0], Workspace(tmp_path / "run"), given)  # type: ignore[arg-type]

    return make


def put(runner: StageRunner, batch_id: int, rows: int = 1) -> None:
    [log] = runner._ends.logs.values()
    writer = log.begin(runner.stage.id, batch_id)
    padded = pa.record_batch({"pad": ["x" * 1000] * rows})
    writer.commit([writer.segment_writer().write([padded])])


class TestCommitted:
    def finish(self, runner: StageRunner, batch_id: int, *ends: str) -> None:
        """Bring a batch to some of the stage's ends."""
        rows = pa.table({"id": [1]})
        if "log" in ends:
            put(runner, batch_id)
        if "sql" in ends:
            runner.sinks["sql"].commit(batch_id, (), rows)
        if "files" in ends:
            file: Any = runner.sinks["files"].task_writer(batch_id).open()  # type: ignore[union-attr]
            file.append(rows.to_batches()[0])
            runner.sinks["files"].commit(batch_id, [file.close()], None)

    @pytest.mark.parametrize("missing", ["log", "sql", "files", ""])
    def test_a_batch_is_done_when_it_has_come_to_all_ends(
        self, make_runner: Callable[..., StageRunner], missing: str
    ) -> None:
        self.finish(make_runner(), 0, *({"log", "sql", "files"} - {missing}))
        assert make_runner()._ends.committed(0) is (missing == "")
        assert make_runner()._ends.committed(1) is False

    def test_a_full_edge_does_not_hide_that_a_batch_is_done(self, make_runner: Callable[..., StageRunner]) -> None:
        runner = make_runner()
        self.finish(runner, 0, "sql", "files")
        put(runner, 0, rows=2000)
        assert runner._ends.committed(0) is True
        assert runner._ends.committed(1) is False


class TestSettled:
    def test_a_batch_that_is_planned_and_not_called_for_yet_is_waited_for(
        self, make_runner: Callable[..., StageRunner], tmp_path: Path
    ) -> None:
        runner = make_runner()
        assert runner.settled()
        runner.query = SimpleNamespace(lastProgress=SimpleNamespace(batchId=0))  # type: ignore[assignment]
        logs = [runner._workspace.checkpoint(runner.stage.id) / name for name in ("offsets", "commits")]
        for log in logs:
            log.mkdir(parents=True)
            (log / "0").touch()
        assert runner.settled()
        (logs[0] / "1").touch()
        assert not runner.settled()
        (logs[1] / "1").touch()
        assert runner.settled()


class TestRoom:
    def test_a_full_edge_is_named_when_no_room_comes(self, make_runner: Callable[..., StageRunner]) -> None:
        runner = make_runner(room_timeout_s=0.001)
        put(runner, 0, rows=2000)
        [log] = runner._ends.logs.values()
        with pytest.raises(LogFullError, match="edge 'a -> b': expected room in its log"):
            runner._ends._begin(log, 1)

    def test_a_stop_ends_the_wait(self, make_runner: Callable[..., StageRunner]) -> None:
        runner = make_runner(room_timeout_s=3600.0)
        put(runner, 0, rows=2000)
        runner.stop()
        [log] = runner._ends.logs.values()
        with pytest.raises(LogFullError):
            runner._ends._begin(log, 1)


class TestAttempts:
    def attempt(self, runner: StageRunner, outcomes: list[Exception | None]) -> int:
        """Run a batch whose attempts end so; return how many there were."""
        made: list[int] = []

        def execute(order: Any, first: Any) -> Any:
            outcome = outcomes[len(made) - 1]
            if outcome is not None:
                raise outcome
            return JobResult()

        runner._job._execute = execute  # type: ignore[method-assign]
        runner._job.run(lambda: made.append(1), None)  # type: ignore[arg-type, return-value]
        return len(made)

    def test_a_batch_that_spark_gave_up_is_run_again_from_a_fresh_order(
        self, make_runner: Callable[..., StageRunner], caplog: pytest.LogCaptureFixture
    ) -> None:
        lost = RuntimeError(
            "An error occurred\n: SparkException: awaitResult\nCaused by: SparkException: executor lost"
        )
        with caplog.at_level(logging.WARNING):
            assert self.attempt(make_runner(), [lost, lost, None]) == 3
        assert "stage in: the batch failed and is run again: SparkException: executor lost" in caplog.text

    def test_the_last_attempt_raises_what_happened(self, make_runner: Callable[..., StageRunner]) -> None:
        errors = [RuntimeError("first"), RuntimeError("second")]
        said = "stage 'in': expected a batch to be through within 2 attempts, got second; nothing of it counts"
        with pytest.raises(BatchError, match=said) as raised:
            self.attempt(make_runner(batch_attempts=2), errors)
        assert raised.value.__cause__ is errors[1]

    def test_a_broken_contract_is_not_tried_again(self, make_runner: Callable[..., StageRunner]) -> None:
        broken = OperatorError("a", expected="this", got="that", remedy="change it")
        with pytest.raises(OperatorError):
            self.attempt(make_runner(), [broken, None])

    def test_an_error_that_a_task_reports_is_raised_as_it_was_and_not_tried_again(
        self, make_runner: Callable[..., StageRunner]
    ) -> None:
        runner, runs = make_runner(), list[int]()
        broken = OperatorError("a", expected="outputs among ['x']", got="'y', got lost; twice", remedy="change it")

        def run_alone(order: Any) -> list[tuple[int, bytes]]:
            runs.append(1)
            return [(edge, as_bytes(payload)) for _, edge, payload in [error_cell(broken)]]

        runner._job._run_alone = run_alone  # type: ignore[method-assign]
        with pytest.raises(OperatorError) as caught:
            runner._job.run(lambda: BatchOrder(0, 1), FirstRound(None))  # type: ignore[arg-type]
        assert vars(caught.value) == vars(broken) and str(caught.value) == str(broken)
        assert len(runs) == 1

    def test_a_stop_ends_the_attempts(self, make_runner: Callable[..., StageRunner]) -> None:
        runner = make_runner()
        runner.stop()
        with pytest.raises(RuntimeError, match="cancelled"):
            self.attempt(runner, [RuntimeError("cancelled"), None])


NO_LETTERS = {"letters": [], "letters_left_out": 0}


class TestDeadLetters:
    def keep(self, runner: StageRunner, batch_id: int, letters: int) -> None:
        found = [asdict(DeadLetter("a", "ValueError", "no", "x" * 1000))] * letters
        runner._ends._keep_letters(batch_id, [{"letters": found, "letters_left_out": 2}, NO_LETTERS])

    def test_a_repeat_keeps_nothing_twice(self, make_runner: Callable[..., StageRunner]) -> None:
        runner = make_runner()
        for batch_id in (0, 0, 1):
            self.keep(runner, batch_id, 3)
        runner._ends._keep_letters(2, [NO_LETTERS])
        assert runner._ends.dead_letters.end_offset() == 6

    def test_what_tasks_could_not_hand_back_is_counted_and_told_once(
        self, make_runner: Callable[..., StageRunner], caplog: pytest.LogCaptureFixture
    ) -> None:
        runner = make_runner()
        for batch_id in range(3):
            self.keep(runner, batch_id, 1)
        assert (runner.letters_left_out, caplog.text.count("counted and not kept")) == (6, 1)

    def test_a_full_log_gives_up_its_oldest_half_and_the_stage_goes_on(
        self, make_runner: Callable[..., StageRunner], caplog: pytest.LogCaptureFixture
    ) -> None:
        runner = make_runner()
        with caplog.at_level(logging.WARNING):
            for batch_id in range(40):
                self.keep(runner, batch_id, 100)  # about 100 kB each, into 1 MiB
        log = runner._ends.dead_letters
        assert log.used_bytes() < 1.3e6
        assert log.end_offset() == 4000 and log.first_offset() >= 2500
        assert "dead letters" in caplog.text


def test_totals_that_someone_reads_do_not_grow_with_the_next_batch(make_runner: Callable[..., StageRunner]) -> None:
    runner = make_runner()
    runner._spark = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2))  # type: ignore[assignment]

    def finish(batch_id: int, operator: str) -> None:
        batch = BatchStatistics(runner.stage.id, batch_id, 1, slots=2, rows={"in": 5}, started_at_s=0.0)
        batch.operators[operator, 0] = OperatorStatistics(rows_in=5)
        batch.latency.add([0.1], [5])
        runner._learn(batch, ())

    finish(0, "a")
    seen = runner.totals
    operators = iter(seen.operators.items())
    assert next(operators) == ("a", OperatorStatistics(rows_in=5))
    finish(1, "b")
    finish(2, "a")
    assert list(operators) == []
    assert (seen.batches, seen.rows, seen.latency.count, seen.operators["a"].rows_in) == (1, 5, 5, 5)
    now = runner.totals
    assert (now.batches, now.rows, now.latency.count) == (3, 15, 15)
    assert {id: part.rows_in for id, part in now.operators.items()} == {"a": 10, "b": 5}


class TestAdmissionLimit:
    """The thread that starts the stage and the one of a batch both write the file with the admission limit."""

    def test_two_threads_may_write_it_at_once(self, make_runner: Callable[..., StageRunner]) -> None:
        runner = make_runner()
        errors: list[Exception] = []

        def write() -> None:
            try:
                for _ in range(300):
                    runner._write_limit()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        folder = runner._workspace.limits(runner.stage.id).parent
        assert [path.name for path in folder.iterdir()] == ["limits.json"]


def test_a_batch_that_a_stop_interrupts_ends_in_few_words_that_spark_takes_for_an_interruption(
    make_runner: Callable[..., StageRunner], monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = make_runner()

    def interrupted(*_: Any) -> None:
        raise RuntimeError("at org.apache.spark.Somewhere\n" * 2000)

    monkeypatch.setattr(runner, "_run_batch", interrupted)
    with pytest.raises(RuntimeError):
        runner.run_batch(None, 0)  # type: ignore[arg-type]
    assert isinstance(runner.failure, RuntimeError)
    runner.failure = None
    runner.stop()
    with pytest.raises(BatchInterrupted) as found:
        runner.run_batch(None, 0)  # type: ignore[arg-type]
    text = "".join(traceback.format_exception(found.value))
    assert len(text) < 2000 and runner.failure is None
    assert re.search(
        r"py4j.protocol.Py4JJavaError: An error occurred while calling.*java.lang.InterruptedException", text
    )


class Counted(StatefulProcessor):
    def init(self, handle: Any) -> None: ...

    def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any: ...  # noqa: N802

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (lambda frame: frame.groupBy("text").count(), {"mode": "dataframe", "stateful": True}),
        (Counted(), {"key": "text", "schema": "n long"}),
    ],
    ids=["frames", "processor"],
)
def test_a_state_that_spark_keeps_is_as_large_as_spark_says(
    tmp_path: Path, function: Any, options: dict[str, Any]
) -> None:
    job = flow("line")
    job.source("in", "trace", trace="pasps_dns").operator("count", function, **options).sink("out", "memory")
    graph = compile_stages(job.build())
    settings = EngineSettings()
    runner = StageRunner(None, graph, graph.stages[0], Workspace(tmp_path / "run"), settings)  # type: ignore[arg-type]
    parts = [SimpleNamespace(numRowsTotal=3, memoryUsedBytes=40), SimpleNamespace(numRowsTotal=4, memoryUsedBytes=2)]
    runner.query = SimpleNamespace(lastProgress=SimpleNamespace(stateOperators=parts))  # type: ignore[assignment]
    assert runner.state_sizes == {"count": StateSize(7, 42)}
