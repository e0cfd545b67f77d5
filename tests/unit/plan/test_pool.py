"""The slots of a pool that several lanes share, computed by hand where that can be done."""

from __future__ import annotations

import numpy as np
import pytest

from foretide.plan import Foretide, Situation
from foretide.plan.stages.pool import PoolPolicy, slots_left
from foretide.records import BatchRun, Forecast, SharedSlots, Window
from foretide.topology import Topology, flow

START_S, EVENT_S = 1.0, 0.01


def job(lanes: int) -> Topology:
    made = flow("app")
    for lane in range(lanes):
        made.source(f"in{lane}", "function").operator(f"q{lane}", replicas=(1, 8), selectivity=1.0)
    return made.build()


def pool(lanes: int, trigger_s: float = 0.0, most: int = 8) -> SharedSlots:
    names = tuple((f"q{lane}", trigger_s) for lane in range(lanes))
    return SharedSlots(
        ("executors",),
        (tuple(range(lanes)),),
        (1,) * lanes,
        (most,) * lanes,
        0.0,
        float("inf"),
        None,
        (False,),
        (),
        names,
    )


def situation(topology: Topology, stages: SharedSlots, rate: float, slots: int, now_s: float) -> Situation:
    """Return ten seconds of a steady rate at each source, in which batches took start + rows · cost / slots."""
    lanes = len(topology.operators)
    share = float(slots_left(np.array([float(slots)]), (lanes - 1) * rate * EVENT_S, lanes)[0])
    runs, began_s = [], now_s - 9.0
    for events in (50, 100, 150, 200):
        duration_s, work_s = START_S + EVENT_S * events / share, EVENT_S * events
        runs += [
            BatchRun(stage=lane, began_at_s=began_s, duration_s=duration_s, slots=share, events=events, work_s=work_s)
            for lane in range(lanes)
        ]
        began_s += duration_s + 0.05
    columns = np.full(lanes, rate * 10.0)
    window = Window(
        layout=topology.layout,
        ended_at_s=now_s,
        duration_s=10.0,
        sample_s=1.0,
        arrival_rates=np.full((10, lanes), rate),
        received_rates=np.full((10, lanes), rate),
        arrived=columns,
        received=columns,
        processed=columns,
        queued=np.zeros(lanes),
        share=np.ones(lanes),
        execution_s=np.full(lanes, EVENT_S),
        utilisation=np.full(lanes, 0.5),
        replicas=stages.parts([slots], np.ones(lanes)),
        batches=tuple(runs),
    )
    sure = {
        source: Forecast(series=source, model="basic", made_at_s=now_s, step_s=1.0, mean=np.full(10, rate))
        for source in topology.layout.sources
    }
    return Situation(
        topology=topology,
        window=window,
        forecasts=sure,
        replicas=window.replicas,
        changed_at_s=np.full(lanes, -np.inf),
        stages=stages,
    )


def decide(planner: Foretide, lanes: int, rate: float, trigger_s: float = 0.0, most: int = 8):  # type: ignore[no-untyped-def]
    topology, stages = job(lanes), pool(lanes, trigger_s, most)
    for cycle in range(12):
        plan = planner.plan(situation(topology, stages, rate, 4, 1000.0 + 10 * cycle))
    return plan


class TestPool:
    def test_a_pool_has_the_most_that_any_lane_may_have(self) -> None:
        assert pool(3).most.tolist() == [8] and pool(3).least.tolist() == [1]
        assert pool(2, 5.0).apart().trigger(1) == 5.0

    def test_the_expected_latency_by_hand(self) -> None:
        # 100 rows a second of 10 ms each keep one slot busy. With s slots a batch of a period T takes 1 + T/s seconds
        # and is followed by the next one after 50 ms or so: T = 1.05/(1 - 1/s), 1.4 s for four of them. Rows wait for
        # up to T and then for the batch: the .95 quantile is .95·1.4 + 1.35 s, about 2.7 s.
        plan = decide(Foretide(slo="p95<2900ms"), 1, 100.0)
        late = next(term.values for term in plan.terms if term.symbol == "p95")
        assert plan.counts.tolist() == [4]
        assert late == pytest.approx(2.68, rel=0.06)

    def test_a_batch_of_a_period_as_long_as_an_interval_has_all_rows_of_the_period(self) -> None:
        # 40 rows a second, a batch every ten seconds: 1 s, and 4 s of work on the slots; rows wait for up to ten.
        plan = decide(Foretide(), 1, 40.0, trigger_s=10.0)
        p50, p95 = (next(term.values for term in plan.terms if term.symbol == name) for name in ("p50", "p95"))
        took_s = 1.0 + 4.0 / int(plan.counts[0])
        assert (p50, p95) == (pytest.approx(5.0 + took_s, rel=0.05), pytest.approx(9.5 + took_s, rel=0.05))

    def test_a_longer_promise_takes_fewer_and_none_that_cannot_keep_up(self) -> None:
        counts = [int(decide(Foretide(slo=slo), 1, 100.0).counts[0]) for slo in ("p95<2700ms", "p95<4s", "p95<60s")]
        assert counts == sorted(counts, reverse=True)
        # One slot is busy with the rows alone: it could never catch up.
        assert counts[0] > counts[-1] == 2

    def test_where_no_pool_keeps_up_the_largest_breaks_a_long_promise_last(self) -> None:
        assert decide(Foretide(slo="p95<60s"), 1, 500.0, most=4).counts.tolist() == [4]

    def test_lanes_are_planned_together(self) -> None:
        one, two = (int(decide(Foretide(slo="p95<4s"), lanes, 100.0).counts[0]) for lanes in (1, 2))
        assert one < two < 2 * one + 1

    def test_a_trigger_is_a_wait_that_no_slots_can_avoid(self) -> None:
        plan = decide(Foretide(slo="p95<5s"), 1, 20.0, trigger_s=30.0)
        assert plan.warnings and "more executors do not help" in plan.warnings[0]

    def test_what_cannot_be_kept_names_the_bound(self) -> None:
        plan = decide(Foretide(slo="p95<2500ms"), 1, 300.0, most=4)
        assert plan.counts.tolist() == [4]
        assert plan.warnings[0].endswith("executors may be 4 at most: raise that maximum")

    def test_a_pool_of_which_nothing_is_known_stays_as_it_is(self) -> None:
        topology, stages = job(2), pool(2)
        at = situation(topology, stages, 100.0, 3, 1000.0)
        unknown = Window(**{**vars(at.window), "batches": (), "execution_s": np.full(2, np.nan)})
        plan = Foretide().plan(Situation(**{**vars(at), "window": unknown}))
        assert plan.counts.tolist() == [3]

    def test_what_was_learnt_of_a_lane_holds_when_another_joins(self) -> None:
        first = PoolPolicy(pool(1))
        planner = Foretide()
        decide(planner, 1, 100.0)
        known = planner.learnt()
        assert known is not None and known["batches"]["q0"]["batches"] > 20
        joined = Foretide()
        joined.resume(known)
        topology, stages = job(2), pool(2)
        at = situation(topology, stages, 100.0, 4, 1000.0)
        joined.plan(at)
        learnt = joined.learnt()
        assert learnt is not None and learnt["batches"]["q0"]["batches"] > learnt["batches"]["q1"]["batches"]
        assert first.stages.names == ("q0",)
