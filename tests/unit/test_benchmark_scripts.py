"""Scripts of benchmarks compare like with like: what both sides do, how long, and what is kept of it."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from benchmark_modules import BENCHMARKS, benchmark_module

# Ten seconds after the first event was due, of which ten come a second.
STARTED_S, NOW_S, RATE = 1_700_000_000.0, 1_700_000_010.0, 10.0


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    return benchmark_module


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return a clock that stands, for the modules that ask for the time."""
    clock = SimpleNamespace(now_s=NOW_S, time=lambda: clock.now_s)
    return clock


@pytest.mark.parametrize("name", ["q0", "q1", "q2"])
def test_a_query_in_one_call_gives_what_a_batch_computation_gives(script: Callable[[str], Any], name: str) -> None:
    nexmark = script("nexmark_throughput")
    from nexmark_batch import Batch

    found = nexmark.IN_ONE_CALL[name](pa.record_batch({"id": list(range(3_000))})).to_pandas()
    expected = getattr(Batch(nexmark.EVENTS, 3_000), name)()
    assert len(expected) > 1
    pd.testing.assert_frame_equal(found[list(expected)], expected.reset_index(drop=True))


def test_every_query_of_nexmark_has_one_form_by_hand(script: Callable[[str], Any]) -> None:
    nexmark = script("nexmark_throughput")
    assert sorted([*nexmark.IN_ONE_CALL, *nexmark.BY_HAND]) == sorted(nexmark.NAMES)


def test_nexmark_goes_on_where_it_was_stopped(
    script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nexmark, harness = script("nexmark_throughput"), script("_harness")
    asked: list[str] = []

    def sides(_: Any, name: str, *__: Any) -> dict[str, Callable[[], dict[str, float]]]:
        def run(side: str) -> dict[str, float]:
            if len(asked) == 3:
                asked.append("stop")
                raise RuntimeError("stopped")
            asked.append(f"{name} {side}")
            return {"events_per_s": 1.0, "cpu_s_per_million": 2.0}

        return {"ours": lambda: run("ours"), "by hand": lambda: run("by hand")}

    monkeypatch.setattr(nexmark, "sides", sides)
    monkeypatch.setattr(nexmark, "open_session", lambda **_: SimpleNamespace(stop=lambda: None))
    options, kept = harness.Options(quick=True, smoke=True, repeats=1), tmp_path / "kept.jsonl"
    with pytest.raises(RuntimeError, match="stopped"):
        nexmark.measure(["q1", "q7"], options, harness.Turns(kept))
    found = nexmark.measure(["q1", "q7"], options, harness.Turns(kept))
    assert asked == ["q1 ours", "q1 by hand", "q7 ours", "stop", "q7 by hand"]
    one = [{"events_per_s": 1.0, "cpu_s_per_million": 2.0}]
    assert found == {name: {f"{name}, ours": one, f"{name}, by hand": one} for name in ("q1", "q7")}
    longer = harness.Options(quick=True, repeats=1)
    nexmark.measure(["q1"], longer, harness.Turns(kept))
    assert asked[5:] == ["q1 by hand", "q1 ours", "q1 ours", "q1 by hand"]  # one round to warm up


def test_short_runs_keep_their_turns_apart_and_begin_anew(
    script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    harness = script("_harness")
    monkeypatch.setattr(harness, "QUICK", tmp_path / "quick")
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "full")
    for quick, rows in ((True, 1), (False, 2)):
        for _ in range(2):
            turns = harness.kept_turns("speed", harness.Options(quick=quick))
            turns.known("a", {})
            turns.keep("a", {}, "ours", 0, 1.0)
        assert len(turns.rows) == rows
    assert (tmp_path / "quick" / "speed.jsonl").exists() and (tmp_path / "full" / "speed.jsonl").exists()


def test_a_task_makes_the_events_that_are_due_once(
    script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace, tmp_path: Path
) -> None:
    detection = script("_detection")
    monkeypatch.setattr(detection, "time", clock)
    due, tick = detection.Due(str(tmp_path / "next"), STARTED_S, RATE), pa.record_batch({"value": [0]})
    first, again = due(tick), due(tick)
    clock.now_s += 1.0
    second = due(tick)
    assert first["id"].to_pylist() == list(range(100)) and again.num_rows == 0
    assert second["id"].to_pylist() == list(range(100, 110))
    instants = np.array([instant.timestamp() for instant in second["event_time"].to_pylist()])
    assert instants == pytest.approx(STARTED_S + np.arange(100, 110) / RATE)
    assert first.schema == again.schema == second.schema
    assert [field.name for field in first.schema] == [part.split()[0] for part in detection.TIMED.split(", ")]


@pytest.mark.parametrize(("batch", "through"), [(None, False), (3, False), (4, True), (5, True)])
def test_a_job_by_hand_reads_no_more_events_than_ours(
    script: Callable[[str], Any], batch: int | None, through: bool
) -> None:
    queued, query = script("queued_edges"), SimpleNamespace(lastProgress=batch and SimpleNamespace(batchId=batch))
    assert queued.full(200, 901).is_through(query) is through  # the last of five batches has number 4
    assert not queued.even(Path(), STARTED_S).is_through(query)


def test_tasks_of_a_job_by_hand_share_the_events_that_are_due(
    script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, clock: SimpleNamespace
) -> None:
    latency = script("latency")
    seen: list[int] = []

    def counted(values: list[int], functions: list[Callable[[pa.RecordBatch], pa.RecordBatch]]) -> int:
        made = [functions[0](pa.record_batch({"value": [value]})) for value in values]
        assert max(one.num_rows for one in made) - min(one.num_rows for one in made) <= 1
        seen.extend(id for one in made for id in one["id"].to_pylist())
        return sum(one.num_rows for one in made)

    monkeypatch.setattr(latency, "counted", counted)
    monkeypatch.setattr(latency, "time", clock)
    work = latency.AsDue(NOW_S - 1.0)
    assert work([4, 5, 6, 7]) == latency.RATE
    clock.now_s += 0.25
    assert work([8, 9, 10, 11]) == latency.RATE / 4
    assert sorted(seen) == list(range(len(seen)))


def test_a_job_by_hand_gets_its_rows_from_spark_unless_both_sides_get_them_from_python() -> None:
    users = {path.stem for path in BENCHMARKS.glob("*.py") if "foretide-trace" in path.read_text(encoding="utf-8")}
    assert users == {"keyed_state"}


class TestSilences:
    """Commits a tenth of a second apart, from 100 to 120, but for what each test takes out."""

    EVERY_S = np.arange(1_000, 1_201) / 10

    def without(self, begin_s: float, end_s: float) -> Any:
        return self.EVERY_S[(self.EVERY_S <= begin_s) | (self.EVERY_S >= end_s)]

    def test_what_is_silent_after_a_change_is_compared_with_as_long_a_time_before(self, script: Any) -> None:
        [(after, before)] = script("rescale_gap").silences(self.without(110.5, 112.0), [110.0], 3.0)
        assert (after, before) == (pytest.approx(1.5), pytest.approx(0.1))

    def test_a_silence_of_a_change_is_none_of_the_time_before_the_next(self, script: Any) -> None:
        # The first change is silent for longer than its span, the second follows a little too soon.
        ended_s, silences = self.without(105.0, 109.0), script("rescale_gap").silences
        assert silences(ended_s, [105.0, 110.9], 3.0) == [(pytest.approx(3.0), pytest.approx(0.1))]
        assert silences(ended_s, [105.0, 111.1], 3.0)[1] == (pytest.approx(0.1), pytest.approx(0.9))

    def test_spans_are_alike_in_length_where_nothing_comes_any_more(self, script: Any) -> None:
        [(after, before)] = script("rescale_gap").silences(self.EVERY_S[self.EVERY_S <= 110.0], [110.0], 3.0)
        assert (after, before) == (pytest.approx(3.0), pytest.approx(0.1))

    def test_a_change_before_there_is_anything_to_compare_with_does_not_count(self, script: Any) -> None:
        assert script("rescale_gap").silences(self.EVERY_S, [102.0], 3.0) == []
        assert script("rescale_gap").silences(np.array([]), [102.0], 3.0) == []

    def test_a_pair_is_the_median_of_a_turn(self, script: Any) -> None:
        mine, theirs = [[[1.0, 1.0], [4.0, 2.0], [3.0, 1.0]], []], [[[10.0, 1.0]], [[5.0, 1.0]]]
        itself, flink = script("rescale_gap").lines(mine, theirs)
        assert (itself.ratio.pairs, flink.ratio.pairs) == ((2.0,), (0.3,))
        assert script("rescale_gap").lines(mine, [])[1].note == script("_flink").MISSING


def test_batch_times_are_those_of_whole_cycles(script: Callable[[str], Any]) -> None:
    changes = script("replica_changes")
    skipped = changes.SKIPPED
    # Of ten batches that count the last took eleven seconds, the others one; another one came as the run ended.
    ended_s = [float(number) for number in range(skipped + 9)]
    found = script("_streams").Batches([*ended_s, ended_s[-1] + 11.0, ended_s[-1] + 50.0], [1] * (skipped + 11))
    assert changes.mean_batch_s(found, 10) == 2.0
    with pytest.raises(RuntimeError, match=f"expected {skipped + 12} batches, got {skipped + 11}"):
        changes.mean_batch_s(found, 12)


@pytest.mark.parametrize("ask", ["_paced", "_flat_out"])
def test_a_request_that_fails_is_no_quick_answer(script: Callable[[str], Any], ask: str) -> None:
    service = script("service")
    answers = [b"HTTP/1.1 200 OK", b"HTTP/1.1 429 Too Many Requests"]

    async def refused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            for number in count():
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(head.lower().partition(b"content-length:")[2]))
                writer.write(answers[min(number, 1)] + b"\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def run() -> None:
        listening = await asyncio.start_server(refused, "127.0.0.1", 0)
        async with listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
            given = (service.RATE_PER_S,) if ask == "_paced" else ()
            await getattr(service, ask)(url, "/v1/forecast/lr", *given, 0.1)

    with pytest.raises(ExceptionGroup) as failed:
        asyncio.run(run())
    assert failed.group_contains(RuntimeError, match="/v1/forecast/lr: expected status 200")


@pytest.mark.parametrize("had", ["4.3.0", "4.2.0", ""])
def test_a_row_about_kafka_names_the_connector_that_it_was_measured_with(
    script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, had: str
) -> None:
    connector = script("_connector")
    # Of 4.2.0 not all is to be had: what it lacks is taken of another version.
    token = ["org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0"] if had == connector.OTHER else []

    def fetch(packages: list[str]) -> list[Path]:
        if packages != [f"org.apache.spark:spark-sql-kafka-0-10_2.13:{had}", *token]:
            raise connector.KafkaError("no such package")
        return [Path(f"jars/{name}-{had}.jar") for name in ("scala-library", "spark-sql-kafka-0-10_2.13")]

    monkeypatch.setattr(connector, "fetch", fetch)
    found = connector.Connector.found(["4.3.0", "4.2.0"])
    assert [jar.name for jar in found.jars] == ([f"spark-sql-kafka-0-10_2.13-{had}.jar"] if had else [])
    assert found.against().startswith(f"plain PySpark with the connector of {had}, " if had else "plain PySpark from")
    notes = {
        "4.3.0": "Spark's connector is that of 4.3.0: spark-sql-kafka-0-10_2.13-4.3.0.jar.",
        "4.2.0": "Spark's connector is that of 4.2.0; there is none of PySpark 4.3.0 here:"
        " spark-sql-kafka-0-10_2.13-4.2.0.jar.",
        "": "Spark's connector: none.",
    }
    assert found.note("4.3.0") == notes[had]


def test_what_takes_a_quarter_of_an_hour_is_not_run_within_the_two_hours(script: Callable[[str], Any]) -> None:
    bench_all = script("bench_all")
    assert {"rescale_gap", "keyed_state", "load_aware", "keyed_flink"} <= set(bench_all.LONG)
    assert not set(bench_all.NAMES) & set(bench_all.LONG)
    took_s = {one["name"]: one["seconds"] for one in bench_all.found(bench_all.RESULTS)}
    assert {name: took_s[name] for name in bench_all.NAMES if took_s.get(name, 0) > 900} == {}
    assert sum(took_s.get(name, 0) for name in bench_all.NAMES) < 7_200


# A run that was kept before CPU was noted.
RUN = {"trace": "a", "policy": "foretide", "query": "q4", "round": 0, "slot_seconds": 100.0, "latency_p95_ms": 400.0}


class TestCpuBesideSlots:
    """Runs that were kept before CPU was noted stay in the tables as they are."""

    def test_the_closed_loop_shows_it_where_runs_have_it(self, script: Any) -> None:
        loop, old = script("closed_loop"), [RUN, {**RUN, "policy": "pasps"}]
        assert "cpu_s" not in loop.columns_of(old)
        assert all(len(row) == 1 + len(loop.columns_of(old)) for row in loop.summary(old))
        new = [{**RUN, "cpu_s": 50.0}, {**RUN, "cpu_s": 60.0}, {**RUN, "policy": "pasps"}]
        place = 1 + loop.columns_of(new).index("cpu_s")
        assert loop.columns_of(new)[place - 2] == "slot_seconds"
        assert [row[place] for row in loop.summary(new)] == ["55", "–"]

    def test_nexmark_shows_it_by_query_and_policy(self, script: Any) -> None:
        rows = [{"query": "q4", "policy": "", "peak_rate": 9.0}, RUN, {**RUN, "cpu_s": 50.0}]
        rows.append({**RUN, "policy": "static-peak", "slot_seconds": 300.0})
        table = script("nexmark_steered").table(rows)
        assert table.head == ("query", "policy", "runs", "slot_seconds", "cpu_s", "latency_mean_ms", "latency_p95_ms")
        assert table.rows == [
            ["q4", "foretide", "2", "100", "50", "–", "400"],
            ["q4", "static-peak", "1", "300", "–", "–", "400"],
        ]

    def test_it_is_that_of_this_process_and_of_all_that_it_started(self, script: Any) -> None:
        streams = script("_streams")
        before_s = streams.cpu_seconds()
        subprocess.run([sys.executable, "-c", "for _ in range(3_000_000): pass"], check=True)
        assert streams.cpu_seconds() - before_s > 0.0


def test_runs_without_a_commit_are_said_to_have_none(script: Callable[[str], Any]) -> None:
    told = script("_report").provenance([{"commit": "abc", "processor": "X"}, {}])
    assert told == "Runs by commit and processor: 1 of abc (X), 1 of no known commit (unknown)."


@pytest.mark.parametrize(("name", "given"), [("forecasting", ([], {}, False)), ("zero", ([], [], {}))])
def test_forecasts_tell_their_commit(
    script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch, name: str, given: Any
) -> None:
    module = script(name)
    machine = {"cores": 2, "processor": "X", "python": "3.11", "numpy": "2"}
    monkeypatch.setattr(module, "commit", lambda: "abc1234")
    if name == "forecasting":
        given[1]["machine"] = machine
    else:
        given[2].update(machine)
    assert "commit abc1234" in module.as_markdown(*given)


class TestPyFlink:
    """Its jobs are set as its guides say, and page and scripts say the same."""

    def test_the_sizes_that_were_fastest_count(self, script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        flink, tried = script("_flink"), list[dict[str, str]]()
        rates = iter([2.0, 3.0, 1.0])

        def rate(_: Any, settings: dict[str, str], *, fused: bool) -> float:
            assert fused
            tried.append(settings)
            return next(rates)

        monkeypatch.setattr(flink.WarmJobs, "__init__", lambda _: None)
        monkeypatch.setattr(flink.WarmJobs, "rate", rate)
        assert flink.WarmJobs().tuned(fused=True) == tried[1]
        assert len({tuple(one.values()) for one in tried}) == len(flink.SWEPT) == 3

    def test_its_cache_holds_the_state_of_all_keys(self, script: Any) -> None:
        keyed = script("keyed_flink")
        found = [keyed.bundles(*one) for one in keyed.SWEPT]
        assert len({one["python.fn-execution.bundle.size"] for one in found}) == 4
        assert min(int(one["python.state.cache-size"]) for one in found) >= 20_000

    @pytest.mark.parametrize("job", sorted(path.name for path in BENCHMARKS.glob("flink_*job.py")))
    def test_its_jobs_reuse_objects(self, job: str) -> None:
        tree = ast.parse((BENCHMARKS / job).read_text(encoding="utf-8"))
        texts = (one for one in ast.walk(tree) if isinstance(one, ast.Dict))
        pairs = [pair for one in texts for pair in zip(one.keys, one.values, strict=True)]
        settings = {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}
        assert ast.literal_eval(settings["pipeline.object-reuse"]) == "true"
