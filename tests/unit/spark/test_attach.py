"""An application scaled by the progress reports of its queries, which are made up here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from attached_job import MadeUpQuery, report
from schedulers import FakeScheduler

from foretide.clock import ManualClock
from foretide.control import ControlSettings
from foretide.errors import ActuatorError, ConfigError
from foretide.spark.attached.attach import attach
from foretide.spark.attached.attachment import Attachment
from foretide.spark.attached.listener import QueryListener
from foretide.spark.attached.settings import AttachSettings
from foretide.spark.executors import ExecutorSettings, ExecutorsUnavailable
from foretide.store import RunStore


class Executors(FakeScheduler):
    """A scheduler whose executors come at once."""

    def __init__(self, deaf: bool = False) -> None:
        super().__init__(cores=1, deaf=deaf)

    def request_total(self, executors: int) -> bool:
        if not self.deaf:
            self.come(executors)
        return super().request_total(executors)


CONTROL = ControlSettings.model_validate(
    {"loop": {"td_s": 10.0, "sample_s": 1.0, "stale_after_s": 60.0}, "forecaster": "basic"}
)


def steady(*rates: tuple[float, float]) -> Callable[[float], float]:
    """Return how many rows came by an instant, from (seconds, rows per second) one after another from 1000 on."""
    ends = np.cumsum([0.0, *(seconds for seconds, _ in rates)])
    rows = np.cumsum([0.0, *(seconds * rate for seconds, rate in rates)])
    return lambda at_s: float(np.interp(at_s - 1000.0, ends, rows))


class Scene:
    """An attachment without threads, and the queries that it follows."""

    def __init__(self, executors: FakeScheduler | None, lead_s: float = 0.0, **settings: Any) -> None:
        self.clock, self.listener, self.executors = ManualClock(1000.0), QueryListener(), executors
        bounds = ExecutorSettings(minimum=1, maximum=4, release_after_s=0.0, lead_s=lead_s, start_price_s=0.0)
        given = AttachSettings(executors=bounds, **{"control": CONTROL, "store": "none", **settings})
        self.attachment = Attachment(
            self.listener, executors, given, clock=self.clock, refused="" if executors else "no executors"
        )
        self.queries: list[MadeUpQuery] = []

    def start(self, came: Callable[[float], float], **more: Any) -> None:
        others = list(self.queries)

        def share() -> float:
            """Return the executors that a batch has: those that batches of other queries leave."""
            now_s = self.clock.now_s()
            busy = sum(one.busy(now_s) for one in self.queries if one is not query)
            there = 1 if self.executors is None else len(self.executors.present)
            return max(there - busy, there / len(self.queries))

        query = MadeUpQuery(self.listener, came, share, self.clock.now_s(), **more)
        self.queries = [*others, query]

    def pass_time(self, seconds: int) -> list[int]:
        """Let seconds pass, with a decision every ten of them; return the executors after each."""
        found = []
        for _ in range(seconds):
            self.clock.sleep_s(1.0)
            for query in self.queries:
                query.advance(self.clock.now_s())
            self.attachment.look()
            if round(self.clock.now_s()) % 10 == 0 and self.attachment.loop is not None:
                self.attachment.loop.run_cycle()
                found.append(self.attachment.counts().planned)
        return found


class TestAttachment:
    @pytest.mark.parametrize("fails", [False, True])
    def test_what_spark_has_still_to_tell_at_the_end_is_part_of_it(self, fails: bool) -> None:
        scene = Scene(None)
        scene.start(steady((600, 300)))

        def tell_all() -> None:
            for second in range(30):
                scene.queries[0].advance(1000.0 + second)
            if fails:
                raise RuntimeError("there is no such method in this version of Spark")

        scene.attachment._all_told = tell_all
        scene.attachment.stop()
        assert [query.rows > 0 for query in scene.attachment.queries] == [True]

    def test_executors_go_up_and_down_with_the_load(self) -> None:
        scene = Scene(Executors())
        # Five milliseconds a row: 500 rows a second keep two and a half executors busy.
        scene.start(steady((100, 50), (100, 500), (200, 50)), kafka=True)
        seen = scene.pass_time(400)
        assert set(seen[4:9]) == {1} and set(seen[14:19]) <= {3, 4} and set(seen[-8:]) == {1}
        last = scene.attachment.last_decision
        assert last is not None and last.plan is not None
        assert {"p50", "p95", "d₀", "e", "J"} <= {term.symbol for term in last.plan.terms}

    def test_the_promise_takes_the_fewest_executors_that_keep_it(self) -> None:
        generous, strict = (Scene(Executors(), slo=slo) for slo in ("p95<20s", "p95<3s"))
        for scene in (generous, strict):
            scene.start(steady((600, 300)))
            scene.pass_time(300)
        few, many = (scene.attachment.counts().observed for scene in (generous, strict))
        assert few < many
        late_s = [
            run.late_s
            for sample in strict.attachment._chapter.samples.samples()[-60:]
            for run in sample.measurement.batches
        ]  # type: ignore[union-attr]
        assert np.quantile(late_s, 0.95) < 3.0

    def test_a_promise_that_cannot_be_kept_is_said_at_once_with_the_bound_in_the_way(self) -> None:
        scene = Scene(Executors(), slo="p95<2s")
        scene.start(steady((600, 1000)))
        scene.pass_time(120)
        said = [event.message for event in scene.attachment.events if event.kind == "plan.warning"]
        assert len(said) == 1
        assert said[0].startswith("promise p95<2000ms cannot be kept: expected p95")
        assert said[0].endswith("executors may be 4 at most: raise that maximum")

    def test_queries_share_the_executors_and_are_planned_together(self) -> None:
        scene = Scene(Executors())
        for name in ("orders", "clicks"):
            scene.start(steady((60, 30), (60, 80), (600, 150)), name=name, kafka=True)
        scene.pass_time(300)
        last = scene.attachment.last_decision
        assert last is not None and last.plan is not None and last.plan.stages is not None
        assert last.plan.layout.operators == ("orders", "clicks")
        # Each keeps .75 executors busy, both of them 1.5; what a batch has of them is known on average only.
        assert last.plan.units == ("executors",) and int(last.plan.counts[0]) in (2, 3, 4)
        assert 1.0 < float(np.sum(last.plan.demand)) < 2.5  # type: ignore[arg-type]

    def test_how_long_executors_take_to_come_is_known_to_the_next_run(self, tmp_path: Path) -> None:
        leads_s = []
        for _ in range(2):
            scene = Scene(Executors(), store=str(tmp_path / "runs.db"), lead_s=5.0)
            scene.start(steady((600, 100)), name="orders", kafka=True)
            scene.pass_time(30)
            manager = scene.attachment._around.manager
            assert manager is not None
            leads_s.append(manager.lead.usual_s)
            manager.lead.resume({"took_s": [40.0]})
            scene.attachment.stop()
        assert leads_s == [5.0, 40.0]

    def test_what_sparks_settings_lack_is_told_and_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        scene = Scene(Executors())
        scene.attachment.check_session()
        told = [event for event in scene.attachment.events if event.kind == "executors.settings"]
        assert [event.data["setting"] for event in told] == [
            "spark.decommission.enabled",
            "spark.locality.wait",
            "spark.executor.cores",
            "spark.cores.max",
        ]
        assert caplog.messages == [event.message for event in told if event.severity == "warning"]

    def test_a_query_that_joins_later_begins_another_chapter_that_knows_what_was_learnt(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        store = tmp_path / "runs.db"
        scene = Scene(Executors(), store=str(store))
        scene.start(steady((600, 100)), name="orders", kafka=True)
        scene.pass_time(60)
        scene.start(steady((600, 100)), name="clicks", kafka=True)
        scene.pass_time(60)
        told = [event.message for event in scene.attachment.events if event.kind == "queries.changed"]
        assert told == ["'clicks' joined in: what follows is recorded as another run"]
        assert not [record for record in caplog.records if "is not taken over" in record.getMessage()]
        knowledge = scene.attachment.loop.parts.planner.learnt()  # type: ignore[union-attr]
        assert knowledge is not None and knowledge["batches"]["orders"]["batches"] > 20
        scene.attachment.stop()
        with RunStore(store) as runs:
            assert [(run.status, run.layout.operators) for run in runs.runs()] == [
                ("finished", ("orders",)),
                ("finished", ("orders", "clicks")),
            ]

    @pytest.mark.parametrize(("bound", "executors"), [(True, 1), (False, 4)])
    def test_kafkas_partitions_bound_executors_where_that_is_asked_for(self, bound: bool, executors: int) -> None:
        scene = Scene(Executors(), kafka_bound=bound)
        scene.start(steady((600, 900)), kafka=True)
        scene.pass_time(60)
        assert scene.attachment.counts().planned == executors
        last = scene.attachment.last_decision
        assert last is not None and last.plan is not None
        told = [note for note in last.plan.notes if "Kafka" in note]
        assert told == (
            ["1 Kafka partitions keep 1 executors busy, with 1 slots each: executors 4 -> 1"] if bound else []
        )

    def test_executors_are_asked_for_by_what_is_expected_when_they_can_be_there(self) -> None:
        now, ahead = (Scene(Executors(), lead, control=_rising()) for lead in (0.0, 60.0))
        for scene in (now, ahead):
            scene.start(lambda at_s: 1.0 * (at_s - 1000.0) ** 2, kafka=True)
        seen = now.pass_time(80), ahead.pass_time(80)
        assert sum(seen[1]) > sum(seen[0])
        last = ahead.attachment.last_decision
        assert last is not None and last.plan is not None
        assert "look-ahead" in {term.symbol for term in last.plan.terms}

    def test_a_rise_that_the_executors_there_are_can_take_asks_for_no_more(self) -> None:
        scene = Scene(Executors(), 60.0, control=_rising())
        # From a tenth of an executor to a sixth within two minutes.
        scene.start(lambda at_s: 20.0 * (at_s - 1000.0) + 0.05 * (at_s - 1000.0) ** 2, kafka=True)
        assert set(scene.pass_time(120)[2:]) == {1}

    def test_advice_changes_nothing_and_works_where_there_are_no_executors(self) -> None:
        scene = Scene(None, advisory=True)
        scene.start(steady((600, 500)))
        scene.pass_time(100)
        last = scene.attachment.last_decision
        assert last is not None and last.action is not None and last.action.status == "advised"
        assert scene.attachment.counts().planned >= 3

    def test_a_refusal_is_told_and_the_next_cycle_tries_again(self) -> None:
        executors = Executors(deaf=True)
        scene = Scene(executors)
        scene.start(steady((600, 500)), kafka=True)
        scene.pass_time(60)
        last = scene.attachment.last_decision
        assert last is not None and last.failure is not None and isinstance(last.failure.error, ActuatorError)
        assert "act.failed" in [event.kind for event in scene.attachment.events]
        executors.deaf = False
        scene.pass_time(20)
        assert scene.attachment.counts().observed >= 3


def _rising() -> ControlSettings:
    return CONTROL.model_copy(update={"forecaster": "lr"})


def test_settings_of_control_stand_beside_those_of_an_attachment() -> None:
    given = AttachSettings.model_validate({"control": {"loop": {"td_s": 5.0}, "planner": "pasps"}, "slo": "p95<10s"})
    control = given.steered_by
    assert (control.loop.td_s, control.loop.stale_after_s, control.planner, control.slo) == (
        5.0,
        60.0,
        "pasps",
        "p95<10s",
    )
    assert control.forecasters == {"auto": {"dear": []}}


class TestGuards:
    def test_bounds_budget_and_calendar_hold_for_executors(self) -> None:
        window = {"name": "always", "least": 2, "zone": "UTC"}
        control = ControlSettings.model_validate(
            {**CONTROL.model_dump(), "guards": {"maximum_replicas": 3, "windows": [window]}}
        )
        scene = Scene(Executors(), control=control)
        scene.start(steady((200, 20), (400, 900)), kafka=True)
        assert scene.pass_time(150)[-1] == 2
        assert scene.pass_time(150)[-1] == 3
        last = scene.attachment.last_decision
        assert last is not None and last.plan is not None
        assert any("bounds" in note for note in last.plan.notes)

    def test_a_budget_is_in_executor_seconds(self) -> None:
        control = ControlSettings.model_validate({**CONTROL.model_dump(), "guards": {"slot_seconds_per_hour": 3700.0}})
        scene = Scene(Executors(), control=control)
        scene.start(steady((600, 900)), kafka=True)
        assert max(scene.pass_time(200)[-5:]) == 1
        last = scene.attachment.last_decision
        assert last is not None and last.plan is not None
        assert any("slot-seconds an hour left" in note for note in last.plan.notes)


class TestRecord:
    def test_an_attached_application_is_a_run_like_all_others(self, tmp_path: Path) -> None:
        store = tmp_path / "runs.db"
        scene = Scene(Executors(), store=str(store), slo="p95<10s")
        scene.start(steady((300, 100)), kafka=True)
        scene.pass_time(120)
        scene.attachment.stop()
        with RunStore(store) as runs:
            run = runs.run(scene.attachment.run_id)
            assert (run.info.name, run.info.policy, run.info.status) == ("attached", "foretide", "finished")
            outcome = run.info.outcome
            assert outcome["slo"]["kept"] == outcome["slo"]["intervals"] > 5
            assert outcome["slot_seconds"] == pytest.approx(sum(one.held_s for one in run.measurements()), rel=0.05)
            assert 500 < outcome["latency_p95_ms"] < 10_000
            assert outcome["r_over"] == 4
            assert len(run.decisions()) >= 10
            assert run.latency().count == pytest.approx(100 * 115, rel=0.1)

    def test_a_store_that_cannot_be_written_is_told_of_and_scaling_goes_on(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("no folder")
        scene = Scene(Executors(), store=str(tmp_path / "file" / "runs.db"))
        scene.start(steady((300, 500)), kafka=True)
        assert scene.pass_time(100)[-1] >= 3
        scene.attachment.stop()

    def test_faults_of_our_own_are_told_once_and_measuring_goes_on(self) -> None:
        scene = Scene(Executors())
        scene.start(steady((300, 100)), kafka=True)
        scene.pass_time(20)
        there = scene.executors.executors  # type: ignore[union-attr]
        scene.executors.executors = _broken  # type: ignore[union-attr, method-assign]
        scene.pass_time(5)
        scene.executors.executors = there  # type: ignore[union-attr, method-assign]
        scene.pass_time(5)
        told = [event.message for event in scene.attachment.events if event.kind == "metrics.failed"]
        assert len(told) == 1 and "the job goes on" in told[0]


def _broken() -> tuple[str, ...]:
    raise OSError("gateway")


class TestAttach:
    def session(self, master: str) -> Any:
        running = SimpleNamespace(id="q", runId="r", name="scores")
        streams = SimpleNamespace(added=[], active=[running])
        streams.addListener, streams.removeListener = streams.added.append, streams.added.remove
        stopped = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
        return SimpleNamespace(
            sparkContext=SimpleNamespace(master=master, appName="my job", _jsc=stopped), streams=streams
        )

    def test_a_local_master_is_refused_unless_advice_is_all_one_wants(self) -> None:
        spark = self.session("local[4]")
        with pytest.raises(ExecutorsUnavailable, match="slots only"):
            attach(spark, store="none")
        with attach(spark, advisory=True, store="none") as attachment:
            [listener] = spark.streams.added
            listener.add(json.dumps(report(0, 1000.0, 1.0, rows=10)))
            attachment.look()
            assert "executors.unavailable" in [event.kind for event in attachment.events]
            assert [one.name for one in attachment.queries] == ["scores"]
        assert spark.streams.added == []

    def test_queries_of_further_sessions_are_followed_with_their_details(self) -> None:
        spark, further = self.session("local[4]"), self.session("local[4]")
        [query] = further.streams.active
        query.id, leaf = "z", SimpleNamespace(extraOptions=lambda: {"kafka.bootstrap.servers": "a:1"})
        leaf.sourceName, leaf.getClass = lambda: "kafka", lambda: SimpleNamespace(getName=lambda: "StreamingRelationV2")
        trigger = SimpleNamespace(intervalMs=lambda: 2000)
        trigger.getClass = lambda: SimpleNamespace(getName=lambda: "ProcessingTimeTrigger")
        leaves = SimpleNamespace(size=lambda: 1, apply=lambda place: leaf)
        execution = SimpleNamespace(
            trigger=lambda: trigger, analyzedPlan=lambda: SimpleNamespace(collectLeaves=lambda: leaves)
        )
        query._jsq = SimpleNamespace(streamingQuery=lambda: execution)
        with attach(spark, advisory=True, store="none") as attachment:
            attachment.listen(further)
            [listener] = further.streams.added
            listener.onQueryStarted(query)
            attachment.look()
            found = {one.id: one for one in attachment._queries.all}
            assert found["z"].trigger_s == 2.0
            assert [one.cluster.servers for one in attachment._queries._ends._brokers.values()] == ["a:1"]
        assert further.streams.added == []

    def test_an_application_that_has_ended_is_let_go(self) -> None:
        spark = self.session("local[4]")
        with attach(
            spark, advisory=True, store="none", control={"loop": {"sample_s": 0.05, "td_s": 1.0}}
        ) as attachment:
            spark.sparkContext._jsc = None
            thread = attachment._thread
            assert thread is not None
            thread.join(timeout=10)
            assert "application.ended" in [event.kind for event in attachment.events]

    def test_spark_connect_is_refused(self) -> None:
        connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "streams": None})()
        with pytest.raises(ExecutorsUnavailable, match="Spark Connect"):
            attach(connect, advisory=True)

    def test_anything_else_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="expected a StreamingQuery or a SparkSession, got str"):
            attach("spark")

    def test_a_promise_that_cannot_be_read_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="such as 'p95<500ms'"):
            attach(self.session("local[4]"), advisory=True, slo="fast")


def test_an_attached_driver_loads_nothing_of_our_own_data_plane() -> None:
    code = "import sys, foretide.spark.attached.attach; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {".".join(name.split(".")[:3]) for name in done.stdout.split()}
    rooms = {f"foretide.spark.{room}" for room in ("batches", "inputs", "live", "sinks", "tasks")}
    assert "foretide.spark.attached" in loaded
    assert not loaded & {*rooms, "pyarrow.parquet"}
