"""What is told from the progress reports of queries: those of real ones, and some that are written here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attached_job import MadeUpQuery, report

from foretide.control.executors.stand_in import stand_in
from foretide.control.settings import ExecutorSettings
from foretide.errors import ConfigError
from foretide.events import EventLog
from foretide.kafka.errors import KafkaError
from foretide.spark.attached.kafka_ends import EndOffsets
from foretide.spark.attached.listener import QueryListener
from foretide.spark.attached.measuring import QueryMeter
from foretide.spark.attached.queries import Details, Queries
from foretide.spark.attached.query import AttachedQuery
from foretide.spark.attached.reports import BatchReport
from foretide.spark.steering.row_cost import RowCost

RECORDED = json.loads((Path(__file__).parent / "progress_reports.json").read_text())


def no_ends() -> EndOffsets:
    return EndOffsets(lambda kind, message: None)


class TestRecordedReports:
    """Reports of Spark 4.3: a Kafka source, one with a limit to its batches, and the source ``rate``."""

    def test_a_kafka_batch_is_told_by_its_offsets(self) -> None:
        found = BatchReport.parse(RECORDED["kafka"][1])
        assert (found.name, found.batch, found.events, found.behind, found.partitions) == ("orders", 1, 1300, 0, 3)
        assert found.end == 769 + 745 + 746
        assert found.ended_at_s - found.began_at_s == pytest.approx(1.889, abs=1e-4)
        assert found.looked_at_s - found.began_at_s == pytest.approx(0.051, abs=1e-4)
        assert found.sources[0].kafka

    def test_the_first_batch_has_no_start(self) -> None:
        found = BatchReport.parse(RECORDED["kafka"][0])
        assert (found.events, found.end) == (80, 349 + 245 + 366)

    def test_a_batch_with_a_limit_leaves_rows_behind(self) -> None:
        found = BatchReport.parse(RECORDED["kafka limited"][1])
        assert (found.events, found.behind) == (99, (769 + 665 + 726) - (72 + 54 + 71))

    def test_offsets_that_count_seconds_are_no_rows(self) -> None:
        found = BatchReport.parse(RECORDED["rate"][1])
        assert (found.events, found.end, found.partitions, found.sources[0].kafka) == (350, None, 0, False)

    @pytest.mark.parametrize("kind", list(RECORDED))
    def test_what_came_is_what_was_taken_and_what_waits(self, kind: str) -> None:
        query, reports = AttachedQuery("q", "orders"), [BatchReport.parse(one) for one in RECORDED[kind]]
        first, last = reports[0], reports[-1]
        query.take(first, 1.0)
        came = query.came(first.looked_at_s, first.looked_at_s)
        for one in reports[1:]:
            query.take(one, 1.0)
        for at_s in np.linspace(first.looked_at_s, last.looked_at_s, 40)[1:]:
            came += query.came(0.0, float(at_s))
        taken = sum(one.events for one in reports[1:])
        assert came == pytest.approx(taken + last.behind - first.behind, abs=1e-6)
        assert query.waiting(last.looked_at_s) == last.behind


def test_rates_are_even_between_reports_not_zero_and_then_a_lump() -> None:
    listener = QueryListener()
    job = MadeUpQuery(listener, lambda at_s: 200 * at_s, lambda: 1, 1000.0, start_s=3.0, row_s=0.001)
    queries = Queries(no_ends(), EventLog())
    meter: QueryMeter | None = None
    rates, ended_at_s = [], []
    for second in range(1, 61):
        job.advance(1000.0 + second)
        queries.look(listener.news(), 1, 1000.0 + second)
        if meter is None and queries.all and queries.all[0].last is not None:
            topology = stand_in("app", queries.all, ExecutorSettings())
            meter = QueryMeter(topology, queries.all, 1000.0 + second, lag_s=20.0)
        sample = None if meter is None else meter.measure(1000.0 + second, 1)
        if sample is not None:
            measured = sample.measurement
            rates.append(float(measured.arrived[0]) / measured.duration_s)
            ended_at_s.append(measured.ended_at_s)
    # Batches of about four seconds: each report tells of the time up to its start.
    assert len(rates) > 8
    assert max(abs(rate - 200) for rate in rates[1:]) < 1.0
    assert 1060 - ended_at_s[-1] < 9


def test_what_is_not_reported_for_long_goes_on_at_the_last_rate_and_is_put_right_evenly() -> None:
    query = AttachedQuery("q", "scores")
    topology = stand_in("app", [query], ExecutorSettings())
    for batch, began_s in enumerate((1000.0, 1004.0, 1008.0)):
        query.take(BatchReport.parse(report(batch, began_s, 3.0, rows=400)), 1.0)
    meter = QueryMeter(topology, [query], 1008.0, lag_s=5.0)
    # The next batch takes half a minute, so there is no report: 100 rows a second go on.
    seen = [meter.measure(1008.0 + second, 1) for second in range(6, 31)]
    rates = [float(one.measurement.arrived[0]) / one.measurement.duration_s for one in seen if one is not None]
    assert rates == pytest.approx([100.0] * len(rates))
    # In truth twice as many came.
    query.take(BatchReport.parse(report(3, 1032.0, 3.0, rows=24 * 200)), 1.0)
    later = [meter.measure(1039.0 + second, 1) for second in range(120)]
    measured = [one.measurement for one in later if one is not None]
    rates = [float(one.arrived[0]) / one.duration_s for one in measured]
    assert max(rates) < 310
    total = sum(float(one.arrived[0]) for one in measured) + 100 * 25
    assert total == pytest.approx(200 * (measured[-1].ended_at_s - 1008.0), rel=0.02)


class TestLatency:
    def test_rows_wait_for_their_batch_and_then_for_its_end(self) -> None:
        query = AttachedQuery("q", "scores")
        query.take(BatchReport.parse(report(0, 1000.0, 1.0, rows=100, end=100)), 1.0)
        query.take(BatchReport.parse(report(1, 1004.0, 2.0, rows=400, end=500)), 1.0)
        done = query.collect()[-1]
        # They came evenly from 1000 to 1004 and were through at 1006: two to six seconds.
        assert done.latency.mean_s == pytest.approx(4.0)
        assert done.run.late_s == pytest.approx(5.8, rel=0.05)
        assert done.latency.count == 400

    def test_end_offsets_tell_when_exactly_rows_came(self) -> None:
        query = AttachedQuery("q", "scores")
        query.take(BatchReport.parse(report(0, 1000.0, 0.5, rows=100, end=100)), 1.0)
        for at_s, end in ((1001.0, 100), (1002.0, 100), (1003.0, 500), (1004.0, 500)):
            query.know_end(at_s, end)
        query.take(BatchReport.parse(report(1, 1004.0, 2.0, rows=400, end=500)), 1.0)
        # All of them between 1002 and 1003.
        assert query.collect()[-1].latency.mean_s == pytest.approx(3.5)


def test_work_is_what_spark_accounts_for_and_batches_without_account_teach_nothing_then() -> None:
    query = AttachedQuery("q", "scores")
    for batch, busy_s in enumerate((None, None, 1.5, None)):
        query.take(BatchReport.parse(report(batch, 1000.0 + 2 * batch, 1.0, rows=400)), 2.0, busy_s)
    found = query.collect()
    # The first batch of a run is no example in any case; of the second nobody told, but nobody had told before either.
    assert [one.example for one in found] == [False, True, True, False]
    assert found[2].run.work_s == 1.5 and query.load == 1.5


def test_what_waits_is_what_no_batch_has_taken() -> None:
    query = AttachedQuery("q", "scores")
    query.take(BatchReport.parse(report(0, 1000.0, 1.0, rows=100, end=100)), 1.0)
    query.know_end(1001.0, 200)
    query.know_end(1003.0, 400)
    # The second batch began at 1001 and took what had come by then.
    assert query.waiting(1003.0) == pytest.approx(200)
    query.trigger_s = 10.0
    assert query.waiting(1003.0) == pytest.approx(300)


def test_rows_that_wait_for_the_next_batch_of_a_period_are_no_backlog() -> None:
    query = AttachedQuery("q", "scores", trigger_s=5.0)
    query.take(BatchReport.parse(report(0, 1000.0, 1.0, rows=500, end=500)), 1.0)
    for second in range(1001, 1012):
        query.know_end(float(second), 500 + 100 * (second - 1000))
    # The batch that was due at 1005 took what had come by then, and the rest waits for the one at 1010.
    assert (query.waiting(1009.0), query.overdue(1009.0)) == (pytest.approx(400), 0.0)
    # Under one that runs until 1012.5, what came from 1000 to 1006 has waited for longer at 1011.
    query.take(BatchReport.parse(report(1, 1000.5, 12.0, rows=500, end=500)), 1.0)
    assert query.overdue(1011.0) == pytest.approx(600)


class TestCost:
    def test_batches_that_are_all_alike_cost_what_spark_spends_outside_their_job(self) -> None:
        cost = RowCost()
        for _ in range(5):
            cost.add(1000, 2.0, outside_s=0.3)
        assert cost.start_s() == pytest.approx(0.3)
        assert cost.row_s() == pytest.approx(0.0017)
        assert (RowCost().start_s(), RowCost().row_s()) == (0.0, 0.0)

    def test_a_batch_far_off_the_line_is_no_rule(self) -> None:
        cost = RowCost()
        for rows in (100, 200, 400) * 3:
            cost.add(rows, 0.5 + 0.002 * rows, outside_s=0.2)
        cost.add(200, 30.0, outside_s=0.2)
        assert (cost.start_s(), cost.row_s()) == pytest.approx((0.5, 0.002))

    def test_the_first_batch_of_a_run_is_no_example(self) -> None:
        query = AttachedQuery("q", "scores")
        query.take(BatchReport.parse(report(0, 1000.0, 30.0, rows=100)), 1.0)
        query.take(BatchReport.parse(report(1, 1030.0, 1.0, rows=100)), 1.0)
        assert [one.example for one in query.collect()] == [False, True]
        assert query.cost.row_s() == pytest.approx(0.009)


class TestQueries:
    def scene(self) -> tuple[Queries, QueryListener, EventLog]:
        events = EventLog()
        return Queries(no_ends(), events, lambda id: Details(trigger_s=2.0)), QueryListener(), events

    def started(self, id: str, run: str, name: str | None) -> Any:
        return SimpleNamespace(id=id, runId=run, name=name)

    def ended(self, id: str, run: str, exception: str | None = None) -> Any:
        return SimpleNamespace(id=id, runId=run, exception=exception, errorClassOnException=None)

    def test_a_query_starts_stops_fails_and_comes_back_with_one_line_each(self) -> None:
        queries, listener, events = self.scene()
        error = (
            "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File x\nKeyError: 'id'"
        )
        listener.onQueryStarted(self.started("a", "1", "scores"))
        listener.onQueryStarted(self.started("b", "2", None))
        listener.onQueryTerminated(self.ended("a", "1", error))
        listener.onQueryStarted(self.started("a", "3", "scores"))
        listener.onQueryTerminated(self.ended("b", "2"))
        queries.look(listener.news(), 1, 1000.0)
        assert [(event.kind, event.message) for event in events] == [
            ("query.started", "query 'scores' is followed from now on"),
            ("query.started", "query 'query-b' is followed from now on"),
            ("query.failed", "query 'scores' failed: KeyError: 'id'; the others are scaled as before"),
            ("query.restarted", "query 'scores' runs again: what was learnt about it holds"),
            ("query.stopped", "query 'query-b' was stopped"),
        ]
        assert [(query.name, query.active, query.trigger_s) for query in queries.all] == [
            ("scores", True, 2.0),
            ("query-b", False, 2.0),
        ]

    def test_a_report_that_cannot_be_read_is_left_out(self, caplog: pytest.LogCaptureFixture) -> None:
        queries, listener, _ = self.scene()
        for text in ("no json", "{}", '{"id": "q", "timestamp": "yesterday"}'):
            listener.add(text)
        queries.look(listener.news(), 1, 1000.0)
        assert queries.all == [] and len(caplog.records) == 1

    def test_idle_queries_have_nothing_that_comes(self) -> None:
        queries, listener, _ = self.scene()
        listener.add(json.dumps(report(0, 1000.0, 1.0, rows=100)))
        listener.onQueryIdle(SimpleNamespace(id="q", runId="r", timestamp="1970-01-01T00:17:00.000Z"))  # type: ignore[arg-type]
        queries.look(listener.news(), 1, 1021.0)
        [query] = queries.all
        assert (query.curve.known_until_s, query.curve.rate()) == (1020.0, 0.0)

    def test_batches_have_what_other_queries_leave_of_the_executors(self) -> None:
        queries, listener, _ = self.scene()
        for batch in range(20):
            listener.add(json.dumps(report(batch, 1000.0 + 3 * batch, 2.0, rows=1000, query="a", name="a")))
        listener.add(json.dumps(report(0, 1060.0, 2.0, rows=10, query="b", name="b")))
        listener.add(json.dumps(report(1, 1062.0, 2.0, rows=10, query="b", name="b")))
        queries.look(listener.news(), 2, 1064.0)
        # Query a keeps two executors busy for 1.8 of 3 seconds: 19 examples of 3.6 s, some of them of this minute.
        [_, other] = queries.all
        assert other.collect()[-1].run.slots == pytest.approx(2 - 18 * 3.6 / 60, abs=0.15)


class Brokers:
    """Brokers that answer, or do not."""

    def __init__(self) -> None:
        self.servers, self.held, self.asked = "broker:9092", {("orders", 0): 100}, 0
        self.away = False

    def ends(self, places: Iterable[tuple[str, int]], timeout_s: float) -> dict[tuple[str, int], int]:
        self.asked += 1
        if self.away:
            raise KafkaError("attach: expected Kafka at broker:9092 to take the request, got timed out")
        return {place: self.held[place] for place in places}


class TestEndOffsets:
    def scene(self) -> tuple[EndOffsets, Brokers, AttachedQuery, list[str], dict[str, Any]]:
        brokers, told, made = Brokers(), [], {}

        def make(servers: str, options: Mapping[str, str]) -> Any:
            made[servers] = dict(options)
            return brokers

        ends = EndOffsets(lambda kind, message: told.append(f"{kind} {message}"), {"client.id": "x"}, make)
        query = AttachedQuery("q", "scores")
        ends.watch(
            query, {"kafka.bootstrap.servers": "broker:9092", "kafka.security.protocol": "SSL", "subscribe": "o"}
        )
        return ends, brokers, query, told, made

    def test_what_comes_is_known_up_to_now(self) -> None:
        ends, brokers, query, _, made = self.scene()
        ends.ask(lambda: 1000.0)
        assert brokers.asked == 0  # which partitions is not known before the first batch
        query.take(BatchReport.parse(report(0, 1000.0, 1.0, rows=50, end=100)), 1.0)
        for at_s, end in ((1001.0, 150), (1002.0, 250)):
            brokers.held[("orders", 0)] = end
            ends.ask(lambda now_s=at_s: now_s)  # type: ignore[misc]
        assert query.live and query.known_until_s(1002.0) == 1002.0
        assert query.curve.rate() == pytest.approx(100.0)
        assert made == {"broker:9092": {"security.protocol": "SSL", "client.id": "x"}}

    def test_brokers_that_do_not_answer_are_told_of_once_and_asked_less_and_less(self) -> None:
        ends, brokers, query, told, _ = self.scene()
        query.take(BatchReport.parse(report(0, 1000.0, 1.0, rows=50, end=100)), 1.0)
        brokers.away = True
        for second in range(1, 31):
            ends.ask(lambda now_s=1000.0 + second: now_s)  # type: ignore[misc]
        assert brokers.asked == 4 and not query.live
        assert len(told) == 1 and told[0].startswith("kafka.away broker:9092: end offsets cannot be asked for")
        brokers.away = False
        for second in range(31, 60):
            ends.ask(lambda now_s=1000.0 + second: now_s)  # type: ignore[misc]
        assert told[1] == "kafka.back broker:9092: end offsets can be asked for again" and query.live

    def test_where_the_client_is_missing_reports_stand_in(self) -> None:
        ends, brokers, query, told, _ = self.scene()
        query.take(BatchReport.parse(report(0, 1000.0, 1.0, rows=50, end=100)), 1.0)

        def missing(*given: Any) -> Any:
            raise ConfigError("Kafka", expected="the package confluent-kafka", got="none")

        brokers.ends = missing  # type: ignore[method-assign]
        ends.ask(lambda: 1001.0)
        assert "confluent-kafka" in told[0] and not query.live
