"""What was learnt is resumed by the next run of the same topology, and by no other."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from pydantic import PrivateAttr
from topologies import line, step

from foretide.clock import ManualClock
from foretide.control import ControlLoop, FluidSystem, LoopSettings, Parts
from foretide.control.starting.memory import Memory
from foretide.errors import PlanError
from foretide.events import Event, EventLog
from foretide.forecast import Auto, Basic, Forecaster, Ses
from foretide.plan import Guarded, Planner, Situation
from foretide.records import Plan
from foretide.store import RunSpec, RunStore
from foretide.topology import Connector, Topology

NOW_S = 1_700_000_000.0
LINE = line(step("a", execution_s=0.01), step("b", execution_s=0.01), replicas=(1, 8))


class Learner(Planner):
    """A planner that counts its plans, and goes on counting where an earlier run ended."""

    name: ClassVar[str] = "learner"
    summary: ClassVar[str] = "counts"
    spec: ClassVar[tuple[str, ...]] = ()
    needs_forecast: ClassVar[bool] = True
    knowledge_version: ClassVar[int] = 3
    _plans: int = PrivateAttr(default=0)

    def learnt(self) -> Mapping[str, Any] | None:
        return {"plans": self._plans} if self._plans else None

    def resume(self, knowledge: Mapping[str, Any]) -> None:
        if not isinstance(knowledge.get("plans"), int):
            raise PlanError(f"expected a number of plans, got {knowledge}")
        self._plans = knowledge["plans"]

    def plan(self, situation: Situation) -> Plan:
        self._plans += 1
        return self.decide(situation, situation.replicas, ())


class Run:
    """A run of a topology in memory that remembers, recorded in a store."""

    def __init__(
        self,
        store: RunStore,
        topology: Topology = LINE,
        *,
        at_s: float = NOW_S,
        past: RunStore | None = None,
        planner: Planner | Guarded | None = None,
        forecaster: Forecaster | None = None,
        others: dict[str, Any] | None = None,
    ) -> None:
        self.clock, self.events = ManualClock(at_s), EventLog()
        self.store, self.topology = store, topology
        system = FluidSystem(topology, [100.0], clock=self.clock)
        parts = Parts(
            metrics=system,
            actuator=system,
            planner=planner or Learner(),
            forecaster=forecaster or Basic(),
            clock=self.clock,
            events=self.events,
        )
        self.loop = ControlLoop(topology, parts, LoopSettings(td_s=10.0, sample_s=1.0, history=20))
        spec = RunSpec(topology=topology, policy="learner", started_at_s=at_s)
        self.recorder = store.begin_run(spec)
        self.memory = Memory(topology, past, self.recorder, self.events, self.clock.now_s, others)
        self.memory.resume(self.loop)

    def live(self, cycles: int) -> Run:
        """Run so many cycles, and end."""
        for _ in range(cycles):
            self.loop.run(cycles=1)
            self.memory.cycle(self.loop)
        self.memory.keep(self.loop)
        self.recorder.finish()
        return self

    def told(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


class Counting:
    """Something else that learns."""

    knowledge_version = 3

    def __init__(self, count: int | None) -> None:
        self.count = count

    def learnt(self) -> dict[str, int] | None:
        return None if self.count is None else {"count": self.count}

    def resume(self, knowledge: dict[str, int]) -> None:
        self.count = knowledge["count"]


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore(tmp_path / "runs.db", threaded=False)


def plans(run: Run) -> int:
    planner = run.loop.parts.planner
    known = planner.learnt()
    return 0 if known is None else int(known["plans"])


def test_what_else_learns_goes_on_where_it_ended_unless_it_had_learnt_nothing(store: RunStore) -> None:
    Run(store, others={"one": Counting(7), "two": Counting(None)}).live(1)
    one, two, other = Counting(None), Counting(None), Counting(None)
    Run(store, past=store, others={"one": one, "two": two, "three": other})
    assert (one.count, two.count, other.count) == (7, None, None)
    one.knowledge_version = 4
    newer = Run(store, past=store, others={"one": one})
    assert [event.data["kind"] for event in newer.told("knowledge.ignored")] == ["one"]


class TestPlanner:
    def test_it_goes_on_where_the_last_run_ended(self, store: RunStore) -> None:
        Run(store).live(4)
        again = Run(store, past=store)
        assert plans(again) == 4
        assert again.told("knowledge.resumed")[0].data["kind"] == "planner learner"
        again.live(2)
        assert plans(Run(store, past=store)) == 6

    def test_one_inside_guards_does_too(self, store: RunStore) -> None:
        Run(store, planner=Guarded(planner=Learner(), guards=())).live(4)
        assert plans(Run(store, past=store, planner=Guarded(planner=Learner(), guards=()))) == 4

    def test_a_fresh_run_resumes_nothing(self, store: RunStore) -> None:
        Run(store).live(4)
        assert plans(Run(store)) == 0

    def test_a_driver_that_dies_leaves_what_it_had_learnt_every_twenty_cycles(self, store: RunStore) -> None:
        run = Run(store)
        for _ in range(23):
            run.loop.run(cycles=1)
            run.memory.cycle(run.loop)
        store.flush()
        assert plans(Run(store, past=store)) == 20

    def test_a_run_that_came_to_no_plan_keeps_nothing(self, store: RunStore) -> None:
        Run(store).live(0)
        assert store.knowledge(LINE.name, "operators") == []


class TestIgnored:
    def test_knowledge_of_another_topology_of_that_name(self, store: RunStore) -> None:
        Run(store, line(step("a", execution_s=0.01), replicas=(1, 8))).live(2)
        run = Run(store, past=store)
        assert plans(run) == 0
        message = run.told("knowledge.ignored")[0].message
        assert message == "what was learnt by 'planner learner' is not resumed: it is of another topology of that name"

    def test_knowledge_of_another_version(self, store: RunStore) -> None:
        store.begin_run(RunSpec(topology=LINE)).learnt(LINE, "planner learner", 2, {"plans": 9})
        store.flush()
        run = Run(store, past=store)
        assert plans(run) == 0
        assert "it is of version 2, and version 3 is needed" in run.told("knowledge.ignored")[0].message

    @pytest.mark.parametrize(
        ("kind", "version"), [("planner learner", 3), ("operators", 1), ("forecaster basic of in", 1)]
    )
    @pytest.mark.parametrize("document", [{}, {"plans": "many", "archive": "no base64", "execution_s": 3, "share": []}])
    def test_a_document_that_does_not_fit(
        self, store: RunStore, kind: str, version: int, document: dict[str, Any]
    ) -> None:
        store.begin_run(RunSpec(topology=LINE)).learnt(LINE, kind, version, document)
        store.flush()
        run = Run(store, past=store)
        [ignored] = run.told("knowledge.ignored")
        assert (ignored.data["kind"], ignored.severity) == (kind, "warning")
        run.live(2)
        assert run.loop.failures == {}, "the stream goes on"

    def test_a_damaged_forecaster(self, store: RunStore) -> None:
        cut = base64.b64encode(Basic().fit([1.0, 2.0]).to_bytes()[:100]).decode()
        store.begin_run(RunSpec(topology=LINE)).learnt(LINE, "forecaster basic of in", 1, {"archive": cut})
        store.flush()
        [ignored] = Run(store, past=store).told("knowledge.ignored")
        assert "cut short or damaged" in ignored.message

    def test_a_forecaster_with_other_settings(self, store: RunStore) -> None:
        Run(store, forecaster=Ses(window=50)).live(2)
        [ignored] = Run(store, past=store, forecaster=Ses(window=60)).told("knowledge.ignored")
        assert "expected a forecaster with the settings of this run" in ignored.message

    def test_a_store_that_cannot_be_read(self, store: RunStore, tmp_path: Path) -> None:
        (tmp_path / "broken.db").write_bytes(b"no database" * 100)
        run = Run(store, past=RunStore(tmp_path / "broken.db"))
        [told] = run.told("knowledge.ignored")
        assert "the store cannot be read" in told.message
        assert run.live(1).loop.failures == {}

    def test_a_sink_for_events_that_raises(self, store: RunStore) -> None:
        Run(store).live(2)
        run = Run(store)

        class Broken:
            def emit(self, event: Event) -> None:
                raise OSError("disk full")

        Memory(LINE, store, None, Broken()).resume(run.loop)
        assert plans(run) == 2


class TestForecaster:
    def test_it_keeps_what_it_learnt_and_forgets_the_values(self, store: RunStore) -> None:
        Run(store, forecaster=Ses()).live(3)
        again = Run(store, past=store, at_s=NOW_S + 1e6, forecaster=Ses())
        model = again.loop.forecasts._models["in"]
        assert isinstance(model, Ses) and model._seen == 30 + model.window
        assert np.isnan(model._series.values).all(), "rates of then must not mislead now"
        again.loop.run(cycles=1)
        assert again.loop.last_decision is not None
        forecast = again.loop.last_decision.forecasts["in"]
        assert (forecast.fallback, forecast.mean[0]) == (False, pytest.approx(100.0))
        assert again.loop.forecasts._models["in"] is model, "it went on with the one that was resumed"


class TestOperators:
    def test_times_that_nobody_declares_are_those_that_were_measured(self, store: RunStore) -> None:
        Run(store).live(2)
        [known] = store.knowledge(LINE.name, "operators")
        assert known.document()["execution_s"] == {"a": pytest.approx(0.01), "b": pytest.approx(0.01)}
        silent = line(step("a"), step("b", execution_s=0.03), replicas=(1, 8))
        loop = ControlLoop(silent, Run(store).loop.parts)
        Memory(silent, store, None, EventLog()).resume(loop)
        # One that is declared may be new, and holds.
        assert loop.monitor.learnt()["execution_s"] == {"a": pytest.approx(0.01), "b": 0.03}


class TestHistory:
    def rates(self, run: Run) -> list[float]:
        """Return the rates that the first window has from before the run."""
        run.loop.run(cycles=1)
        decision = run.loop.last_decision
        assert decision is not None and decision.window is not None
        found: list[float] = decision.window.arrival_rates[:-10, 0].tolist()
        return found

    def recorded(self, store: RunStore, topology: Topology) -> None:
        run = Run(store, topology)
        run.loop.parts.metrics.collect()
        for _ in range(15):
            run.clock.sleep_s(1.0)
            run.recorder.measured(run.loop.parts.metrics.collect())
        run.recorder.finish()

    def test_rates_of_a_run_that_has_just_ended_go_on_after_a_gap(self, store: RunStore) -> None:
        self.recorded(store, LINE)
        # It measured until 15 s; this one begins at 18 s and looks back on 20 s, of which the last 10 are its own.
        rates = self.rates(Run(store, past=store, at_s=NOW_S + 18.0))
        assert rates[-3:] == pytest.approx([np.nan] * 3, nan_ok=True)
        assert rates[:-3] == [100.0] * 7

    def test_those_of_one_that_ended_long_ago_would_mislead(self, store: RunStore) -> None:
        self.recorded(store, LINE)
        assert self.rates(Run(store, past=store, at_s=NOW_S + 3600.0)) == []

    def test_days_of_earlier_runs_tell_forecasters_the_level_of_the_hour(self, store: RunStore) -> None:
        def measured(days: float) -> None:
            run = Run(store)
            run.loop.parts.metrics.collect()
            run.clock.sleep_s(1.0)
            [one] = run.loop.parts.metrics.collect()
            for number in range(round(days * 144)):
                rate = 100.0 + 80.0 * np.sin(2 * np.pi * number / 144)
                came, end_s = np.array([600.0 * rate]), NOW_S + 600.0 * (number + 1)
                run.recorder.measured([replace(one, ended_at_s=end_s, duration_s=600.0, arrived=came)])
            run.recorder.finish()

        def begun(days: float) -> Run:
            run = Run(store, past=store, at_s=NOW_S + days * 86_400.0, forecaster=Auto(background=False))
            run.loop.run(cycles=1)
            return run

        measured(1.0)
        short = begun(1.1)
        [told] = [event for event in short.told("knowledge.ignored") if "days" in event.message]
        assert "needs two days of history, 1.0 are recorded" in told.message and told.severity == "info"
        assert short.loop.forecasts._models["in"].predict(3600).mean[-1] == pytest.approx(100.0)
        measured(3.0)
        long = begun(3.1)
        assert "minutes of 3.0 days" in long.told("knowledge.resumed")[-1].message
        # An hour later the sine has gone from .1 of a day on to .1 + 1/24 of it.
        then, later = (100.0 + 80.0 * np.sin(2 * np.pi * part) for part in (0.1, 0.1 + 1 / 24))
        found = long.loop.forecasts._models["in"].predict(3600).mean[-1]
        # The rate of now, 100, is below the usual one; no departure of the past lasted, so it comes back to it.
        assert 100.0 * later / then * 0.95 < found < 1.05 * later

    def test_a_replayed_trace_begins_anew(self, store: RunStore) -> None:
        [source] = LINE.sources
        replayed = replace(LINE, sources=(replace(source, connector=Connector("trace", {"trace": "pasps_dns"})),))
        self.recorded(store, replayed)
        assert self.rates(Run(store, replayed, past=store, at_s=NOW_S + 18.0)) == []
