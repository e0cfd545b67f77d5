from __future__ import annotations

import math
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from foretide.control.settings import LoopSettings
from foretide.errors import ConfigError, MetricsError, PlanError
from foretide.forecast import Basic
from foretide.plan import Planner, Situation
from foretide.plan.guards import Cooldown, Guarded
from foretide.plan.planners.pasps import PaSps
from foretide.plan.planners.static import Static
from foretide.plan.planners.threshold import Threshold
from foretide.records import Plan
from foretide.sim.options import SimulationOptions
from foretide.sim.run import peak_replicas, simulate
from foretide.sim.settings import SimulationSettings
from foretide.sim.stress import Stress
from foretide.topology import Topology, flow
from foretide.traces import RateTrace


def chain(*execution_s: float, pool: int = 8) -> Topology:
    job = flow("chain")
    stream = job.source("in")
    for number, seconds in enumerate(execution_s):
        stream = stream.operator(f"o{number}", execution_s=seconds, replicas=(1, pool))
    return job.build()


def steps(*rates: float, bin_s: float = 30.0) -> RateTrace:
    return RateTrace("steps", bin_s, np.array(rates))


class Broken(Planner):
    name: ClassVar[str] = "broken"
    summary: ClassVar[str] = "fails"
    spec: ClassVar[tuple[str, ...]] = ()

    def plan(self, situation: Situation) -> Plan:
        raise ZeroDivisionError("no idea")


def test_a_steady_load_is_served_by_what_it_needs() -> None:
    report = simulate(chain(0.01, 0.02), steps(150, 150, 150, 150), planner="presps", td_s=5.0)
    # 1.5 and 3 replicas are kept busy: 2 and 3 of them, of r_over 5; nothing is saved and nothing waits.
    assert report.r_over == 5
    assert report.course.replicas[-1].tolist() == [2, 3]
    assert report.metrics.saved == pytest.approx(0.0)
    assert report.metrics.processed == pytest.approx(1.0, abs=1e-3)
    assert report.metrics.latency_mean_ms < 60
    assert report.metrics.error_input == pytest.approx(0.0)
    assert report.metrics.changes == 0


def test_a_warm_start_begins_with_what_the_first_rate_above_0_needs() -> None:
    topology, trace = chain(0.01), steps(0, 250, 250, 250)
    warm = simulate(topology, trace, planner="presps", td_s=5.0)
    cold = simulate(topology, trace, planner="presps", td_s=5.0, warm_start=False)
    assert warm.course.replicas[0].tolist() == [3]
    assert cold.course.replicas[0].tolist() == [1]
    assert peak_replicas(topology, trace).tolist() == [3]


def test_metrics_count_from_the_end_of_the_warm_up() -> None:
    topology, trace = chain(0.01), steps(800, 100, 100, 100)
    early = simulate(topology, trace, planner=Static(replicas=4), td_s=5.0, warm_start=False, warm_up_s=0.0)
    late = simulate(topology, trace, planner=Static(replicas=4), td_s=5.0, warm_start=False, warm_up_s=90.0)
    # The peak needs 8; with 4 after the first cycle half of it waits, and is gone long before second 90.
    assert early.metrics.latency_p99_ms > 1000
    assert late.metrics.latency_p99_ms < 30
    assert late.metrics.saved == pytest.approx(0.5)
    assert early.metrics.changes == 1
    assert late.metrics.changes == 0


def test_the_same_seed_gives_the_same_run_and_another_one_another() -> None:
    options = SimulationOptions(planner=PaSps(), forecaster=Basic(), td_s=5.0, stress=Stress(), seed=3)
    topology, trace = chain(0.004, 0.008), steps(100, 300, 200, 100)
    first, again = (simulate(topology, trace, options).row() for _ in range(2))
    other = simulate(topology, trace, options, seed=4).row()
    assert first == again
    assert first != {**other, "seed": 3}


def test_a_planner_that_remembers_starts_every_run_afresh() -> None:
    planner = Threshold(lag_per_replica=10, cooldown_s=10)
    topology, trace = chain(0.01), steps(50, 250, 50, 50)
    first, again = (simulate(topology, trace, planner=planner, td_s=5.0).row() for _ in range(2))
    assert first == again
    assert planner._needed is None


def test_a_run_that_keeps_no_decisions_has_the_same_metrics() -> None:
    options = SimulationOptions(planner=PaSps(), forecaster=Basic(), td_s=5.0)
    full, short = (simulate(chain(0.01), steps(50, 250, 50), options, keep_decisions=keep) for keep in (True, False))
    assert full.row() == short.row()
    assert (len(full.decisions), len(short.decisions)) == (17, 0)


def test_stress_is_slower_than_believed_and_late() -> None:
    topology, trace = chain(0.01), steps(95, 95, 95, 95)
    calm = Stress(service_cv=0.0, arrival_cv=0.0)
    report = simulate(topology, trace, planner="presps", td_s=5.0, stress=calm)
    # 95 events/s at 11 ms want 1.05 replicas, but the policy goes on to believe in 10 ms.
    window = report.decisions[-1].window
    assert window is not None
    assert window.execution_s == pytest.approx([0.01])
    assert report.metrics.latency_mean_ms > 100
    seen = simulate(topology, trace, planner="presps", td_s=5.0, stress=calm.model_copy(update={"watched": True}))
    window = seen.decisions[-1].window
    assert window is not None
    assert window.execution_s == pytest.approx([0.011])


def test_replicas_are_active_after_the_delay_of_the_stress() -> None:
    topology, trace = chain(0.01), steps(50, 350, 350, 350)
    stress = Stress(service_factor=1.0, service_cv=0.0, arrival_cv=0.0, activation_s=5.0)
    at_once, late = (
        simulate(topology, trace, planner="presps", td_s=5.0, stress=given).course.replicas[:, 0]
        for given in (None, stress)
    )
    assert int(np.argmax(late > 1)) - int(np.argmax(at_once > 1)) == 5


def test_two_sources_have_their_own_traces() -> None:
    job = flow("two")
    left, right = job.source("left"), job.source("right")
    job.operator("merge", inputs=[left, right], execution_s=0.01, replicas=(1, 8))
    topology = job.build()
    report = simulate(topology, {"left": steps(100, 100, 100), "right": steps(50, 50, 50)}, planner="ds2", td_s=5.0)
    assert report.totals["received"] == 90 * 150
    assert report.course.left[-10:].mean() == pytest.approx(150, abs=1)
    with pytest.raises(ConfigError, match="a trace for each source: left, right, got left"):
        simulate(topology, {"left": steps(1, 1)}, planner="ds2")


def test_what_leaves_is_counted_as_events_of_the_input() -> None:
    job = flow("half")
    job.source("in").operator("filter", selectivity=0.5, execution_s=0.001).operator("store", execution_s=0.001)
    report = simulate(job.build(), steps(200, 200, 200), planner="ds2", td_s=5.0)
    assert report.course.left[-30:].mean() == pytest.approx(200, abs=2)
    assert report.metrics.degradation < 0.05


def test_a_policy_inside_guards_runs_too() -> None:
    planner = Guarded(PaSps(), (Cooldown(),))
    report = simulate(chain(0.01), steps(50, 250, 50), planner=planner, forecaster="basic", td_s=5.0)
    assert report.row()["policy"] == "pasps"
    assert report.row()["forecaster"] == "basic"


def test_progress_is_told_after_each_cycle_and_what_it_raises_ends_the_run() -> None:
    seen: list[tuple[float, float]] = []
    simulate(chain(0.01), steps(50, 50), planner="ds2", td_s=10.0, watch=lambda *at: seen.append(at))
    assert seen == [(10.0, 60.0), (20.0, 60.0), (30.0, 60.0), (40.0, 60.0), (50.0, 60.0)]

    def stop(done_s: float, total_s: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(chain(0.01), steps(50, 50), planner="ds2", td_s=10.0, watch=stop)


def test_a_cycle_that_fails_ends_the_run() -> None:
    with pytest.raises(PlanError, match="cycle 1, at 5 s: plan: no idea; the run is aborted"):
        simulate(chain(0.01), steps(50, 50), planner=Broken(), td_s=5.0)


def test_an_operator_that_is_not_there_is_named() -> None:
    planner = Static(by_operator={"o9": 2})
    with pytest.raises(ConfigError, match=r"planner\.static\.by_operator\.o9"):
        simulate(chain(0.01), steps(50, 50), planner=planner, td_s=5.0)


def test_a_policy_that_needs_a_forecaster_and_has_none() -> None:
    with pytest.raises(ConfigError, match="setting 'forecaster': expected a forecaster, since policy 'pasps'"):
        simulate(chain(0.01), steps(50, 50), planner="pasps")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "setting 'planner': expected a planner"),
        ({"planner": "pasbs"}, "did you mean 'pasps'"),
        ({"planner": "ds2", "tds": 5}, "setting 'tds': expected one of the options planner, forecaster, td_s"),
        ({"planner": "ds2", "td_s": 0.0}, r"setting 'loop\.td_s'"),
        ({"planner": "ds2", "td_s": 50.0}, "setting 'td_s': expected a warm-up and one interval within the 60 s"),
        ({"planner": "ds2", "td_s": 5.0, "warm_up_s": 60.0}, "setting 'warm_up_s'"),
        ({"planner": "ds2", "warm_up_s": -1.0}, "setting 'warm_up_s': expected at least 0"),
        ({"planner": "ds2", "r_over": 0.0}, "setting 'r_over': expected more than 0 replicas"),
    ],
)
def test_wrong_options_are_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        simulate(chain(0.01), steps(50, 50), **given)


def test_options_keep_the_loop_but_for_what_is_given() -> None:
    loop = LoopSettings(td_s=30.0, sample_s=5.0, history=12, settle_s=3.0)
    options = SimulationOptions(planner=Static(), loop=loop, td_s=2.0)
    assert options.control == LoopSettings(td_s=2.0, sample_s=2.0, history=12, settle_s=3.0)
    assert replace(options, history=50).control.history == 50


def test_events_that_are_dropped_are_not_processed() -> None:
    settings = SimulationSettings(queue_bound=100)
    report = simulate(chain(0.01, pool=1), steps(200, 200, 200), planner="ds2", td_s=5.0, settings=settings)
    assert report.metrics.processed == pytest.approx(0.5, abs=0.02)
    assert report.totals["dropped"] > 8000
    assert math.isnan(report.metrics.error_input)
    assert report.row()["error_input"] is None


def test_events_that_are_lost_end_a_run_with_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "foretide.sim.network.Wiring.processed_events", property(lambda network: network.exit.events - 1)
    )
    with pytest.raises(MetricsError, match="expected all events accounted for"):
        simulate(chain(0.01), steps(50, 50), planner="presps", td_s=5.0)
