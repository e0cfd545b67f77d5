"""Signals of the user's own: what they do to a decision, and what happens when they cannot be relied upon."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from topologies import line, step

from foretide.clock import ManualClock
from foretide.control import ControlLoop, ControlSettings, FluidSystem, LoopSettings, Parts, load_settings
from foretide.control.policies import parse_policies
from foretide.control.signals.stage import Signal, SignalStage
from foretide.control.signals.stored import SignalSettings
from foretide.control.steering import Steering, make_steering
from foretide.errors import ConfigError
from foretide.events import EventLog
from foretide.forecast import Basic
from foretide.plan import PaSps, Planner
from foretide.plan.planners.presps import Presps
from foretide.records import Forecast
from foretide.store import FeatureSample, RunSpec, RunStore
from foretide.topology import flow

JOB = line(step("O1", execution_s=0.01, replicas=(1, 30)))


def stage(read: Callable[[float], Any], events: EventLog | None = None, **more: Any) -> SignalStage:
    return SignalStage(Signal(read, **more), ("in",), 5.0, EventLog() if events is None else events)


class Rig:
    """A loop over a system that gets 100 events a second, ten milliseconds of work each."""

    def __init__(self, signal: Signal, planner: Planner | None = None) -> None:
        self.clock, self.events = ManualClock(), EventLog()
        self.system = FluidSystem(JOB, [100.0], clock=self.clock)
        parts = Parts(
            metrics=self.system,
            actuator=self.system,
            planner=PaSps() if planner is None else planner,
            forecaster=Basic(),
            clock=self.clock,
            events=self.events,
            signal=SignalStage(signal, JOB.layout.sources, 5.0, self.events),
        )
        self.loop = ControlLoop(JOB, parts, LoopSettings(td_s=10.0))

    def replicas(self, cycles: int = 3) -> int:
        self.loop.run(cycles=cycles)
        return int(self.system.replicas[0])

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in self.events if event.kind.startswith("signal")]


class TestDecisions:
    @pytest.mark.parametrize("planner", [PaSps(), Presps()], ids=["with forecasts", "without"])
    @pytest.mark.parametrize(
        ("rate", "use", "replicas"), [(500.0, "beside", 5), (50.0, "beside", 1), (500.0, "instead", 5)]
    )
    def test_the_signal_counts_beside_the_rate_or_in_its_place(
        self, planner: Planner, rate: float, use: Any, replicas: int
    ) -> None:
        assert Rig(Signal(lambda now_s: rate, use=use), planner).replicas() == replicas

    def test_a_decision_says_where_its_forecast_comes_from(self) -> None:
        rig = Rig(Signal(lambda now_s: 500.0, name="visitors"))
        rig.replicas()
        last = rig.loop.last_decision
        assert last is not None
        assert last.forecasts["in"].model == "visitors beside basic"
        assert last.window is not None and last.window.arrived.tolist() == pytest.approx([1000.0]), "as measured"

    def test_the_spread_of_a_forecast_stays_in_proportion(self) -> None:
        made = Forecast(
            series="in",
            model="m",
            made_at_s=0.0,
            step_s=1.0,
            mean=[100.0, 400.0],
            quantiles={0.9: np.array([150.0, 500.0])},
            mean_quantiles={0.9: 300.0},
        )
        beside = stage(lambda now_s: 200.0).forecasts({"in": made}, {"in": 200.0})["in"]
        assert (beside.mean.tolist(), beside.quantiles[0.9].tolist()) == ([200.0, 400.0], [300.0, 500.0])
        assert beside.mean_quantiles[0.9] == pytest.approx(360.0)  # 300 · 300 / 250
        instead = stage(lambda now_s: 200.0, use="instead").forecasts({"in": made}, {"in": 200.0})["in"]
        assert (instead.mean.tolist(), instead.quantiles[0.9].tolist()) == ([200.0, 200.0], [300.0, 250.0])


class TestTrouble:
    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (math.nan, "expected events per second, at least 0, of 'in', got nan"),
            (-1.0, "got -1.0"),
            ("many", "got 'many'"),
            (None, "got None"),
            (True, "got True"),
            ({"out": 5.0}, "expected rates of in, got one of 'out'"),
        ],
    )
    def test_what_is_no_rate_is_an_event_and_the_measured_rate_stands_in(self, answer: Any, message: str) -> None:
        rig = Rig(Signal(lambda now_s: answer, use="instead"))
        assert rig.replicas() == 1
        [told] = [event for event in rig.events if event.kind == "signal.failed"]
        assert message in told.message and told.message.endswith("the measured rate stands in")
        assert rig.loop.failures == {}

    def test_one_that_raises_is_told_once_and_so_is_its_return(self) -> None:
        answers: list[Any] = [500.0, OSError("no route"), OSError("no route"), 500.0, 500.0]

        def read(now_s: float) -> float:
            found = answers.pop(0)
            if isinstance(found, Exception):
                raise found
            return float(found)

        rig = Rig(Signal(read, use="instead"))
        assert [rig.replicas(cycles=1) for _ in range(5)] == [5, 1, 1, 5, 5]
        assert rig.kinds == ["signal.failed", "signal.back"]

    def test_one_that_is_late_holds_nobody_up_and_is_not_asked_twice_at_a_time(self) -> None:
        released, asked = threading.Event(), list[float]()

        def read(now_s: float) -> float:
            asked.append(now_s)
            released.wait(30)
            return 7.0

        events = EventLog()
        slow = SignalStage(Signal(read), ("in",), 0.01, events)
        assert [slow.rates(1.0), slow.rates(2.0)] == [{}, {}]
        assert [event.kind for event in events] == ["signal.failed"]
        assert "expected an answer within 0.01 s" in next(iter(events)).message
        assert asked == [1.0]
        released.set()
        assert slow._answer is not None and slow._answer.ready.wait(30)
        slow._deadline_s = 30.0
        assert slow.rates(3.0) == {"in": 7.0}
        assert asked == [1.0, 3.0], "an answer that came late is not used"

    def test_several_sources_need_a_mapping_or_a_name(self) -> None:
        events = EventLog()
        both = SignalStage(Signal(lambda now_s: 5.0), ("a", "b"), 5.0, events)
        assert both.rates(0.0) == {} and "expected rates by source, a, b" in next(iter(events)).message
        assert SignalStage(Signal(lambda now_s: 5.0, source="b"), ("a", "b"), 5.0, events).rates(0.0) == {"b": 5.0}
        assert SignalStage(Signal(lambda now_s: {"a": 1, "b": 2}), ("a", "b"), 5.0, events).rates(0.0) == {
            "a": 1,
            "b": 2,
        }
        with pytest.raises(ConfigError, match=r"signal.source.*one of: a, b, got c"):
            SignalStage(Signal(lambda now_s: 5.0, source="c"), ("a", "b"), 5.0, events)


class TestStored:
    def test_a_column_of_the_store_is_read_scaled_and_too_old_at_some_time(self, tmp_path: Path) -> None:
        where = str(tmp_path / "runs.db")
        with RunStore(where) as store, store.begin_run(RunSpec(topology=JOB, name="shop")) as recorder:
            for at_s, visitors in ((100.0, 400.0), (130.0, 600.0)):
                recorder.features([FeatureSample.of(at_s, "machine", "web-1", "web-1", {"visitors": visitors})])
            recorder.features([FeatureSample.of(120.0, "machine", "web-2", "web-2", {"visitors": 200.0})])
            recorder.flush()
            settings = SignalSettings(run="shop", column="features.visitors", store=where, scale=0.5, late_after_s=60)
            read = settings.signal().read
            assert read(140.0) == 400.0  # (600 + 200) / 2
            assert read(185.0) == 300.0, "of the second host there is none of the last minute"
            events = EventLog()
            late = SignalStage(settings.signal(), ("in",), 5.0, events)
            assert late.rates(500.0) == {}
            assert (
                "features.visitors of run 'shop': expected a value of the last 60 s, got none"
                in next(iter(events)).message
            )

    def test_a_run_that_is_not_there_is_an_event(self, tmp_path: Path) -> None:
        events = EventLog()
        settings = SignalSettings(run="nobody", column="measurements.queued", store=str(tmp_path / "runs.db"))
        assert SignalStage(settings.signal(), ("in",), 5.0, events).rates(0.0) == {}
        assert [event.kind for event in events] == ["signal.failed"]

    def test_settings_say_what_is_wrong(self, tmp_path: Path) -> None:
        file = tmp_path / "setup.toml"
        file.write_text('[signal]\nrun = "shop"\ncolumn = "measurements.queue"\n', encoding="utf-8")
        with pytest.raises(ConfigError, match=r"setup.toml.signal.column': expected features.NAME, or measurements"):
            load_settings(file)
        job = flow("two")
        job.source("a").operator("x", execution_s=0.01)
        job.source("b").operator("y", execution_s=0.01)
        given = {"signal": {"run": "shop", "column": "features.visitors"}}
        settings = ControlSettings.model_validate(given)
        [policy] = parse_policies("pasps", "basic")
        with pytest.raises(ConfigError, match=r"signal.source': expected one of: a, b, got none"):
            make_steering(policy, job.build(), settings)

    def test_a_function_given_in_code_wins_over_the_settings(self) -> None:
        given = {"signal": {"run": "shop", "column": "features.visitors"}}
        steering = Steering(settings=ControlSettings.model_validate(given), signal=lambda now_s: 3.0)
        made = steering.make_signal(JOB, EventLog())
        assert made is not None and made.rates(0.0) == {"in": 3.0}
        assert Steering().make_signal(JOB, EventLog()) is None
