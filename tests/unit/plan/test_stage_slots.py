"""Slots per stage from a batch model: what is learnt, what follows for latency, and what is chosen."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.latency import LatencyHistogram
from foretide.plan import make_planner
from foretide.plan.planners.foretide import Foretide
from foretide.plan.promise import Promise, PromiseTally, interval_quantile_s, parse_promise
from foretide.plan.stages.batch_model import BatchModel, StageFigures
from foretide.plan.stages.policy import StageKnowledge, StagePolicy
from foretide.plan.stages.rollout import StageInput, roll_stage
from foretide.records import BatchRun, Hiring, SharedSlots
from foretide.sim.run import simulate
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

ONE = SharedSlots(("in",), ((0, 1),), minimum=(1, 1), maximum=(8, 8), trigger_s=0.5)


def run(began_at_s: float, slots: int = 4, duration_s: float = 0.3, events: int = 10, work_s: float = 0.4) -> BatchRun:
    return BatchRun(stage=0, began_at_s=began_at_s, duration_s=duration_s, slots=slots, events=events, work_s=work_s)


class TestBatchModel:
    def test_the_work_of_an_event_is_the_mean_of_recent_batches(self) -> None:
        model = BatchModel(ONE)
        model.observe([run(0.0, events=10, work_s=0.1), run(1.0, events=30, work_s=0.9)])
        # Weights .95 and 1: (.95·.1 + .9) / (.95·10 + 30)
        assert model.figures(0).event_s == pytest.approx(0.995 / 39.5)

    def test_a_gap_counts_only_where_a_batch_did_not_wait_for_its_trigger(self) -> None:
        model = BatchModel(ONE)
        model.observe([run(0.0), run(0.5)])
        assert model.figures(0).gap_s == pytest.approx(0.05)  # what is believed at first
        model.observe([run(1.5, duration_s=0.8), run(2.4)])  # .1 s after the end, .9 s after the start
        assert model.figures(0).gap_s < 0.2

    def test_a_plan_is_at_work_with_the_first_batch_that_has_its_slots(self) -> None:
        model = BatchModel(ONE)
        model.observe([run(0.0, slots=2)])
        model.asked(1.0, [5])
        model.observe([run(1.2, slots=2), run(1.7, slots=5), run(9.0, slots=5)])
        assert model.figures(0).activation_s == pytest.approx(0.7)

    def test_what_latencies_have_besides_is_the_median_of_batches(self) -> None:
        """Events of half a second wait .25 s on average, and .3 s for the batch; the rest is not the stage's doing."""
        model = BatchModel(ONE)
        model.observe([replace(run(0.5 * at), latency_s=0.7) for at in range(10)])
        model.observe([replace(run(5.5), latency_s=4.0)])
        assert model.figures(0).besides_s == pytest.approx(0.15)

    def test_a_batch_that_took_ten_times_as_long_hardly_counts(self) -> None:
        model, other = BatchModel(ONE), BatchModel(ONE)
        steady = [run(float(at)) for at in range(50)]
        model.observe(steady)
        other.observe([*steady[:-1], run(49.0, duration_s=3.0)])
        assert other.figures(0).duration_s(4, 0.4) == pytest.approx(model.figures(0).duration_s(4, 0.4), abs=0.02)

    def test_the_work_of_a_batch_is_told_from_that_of_its_events_by_batches_of_other_sizes(self) -> None:
        """Sizes 100 and 300 (spread 100²) on a line, known to .05·1.2 s; before, 1.2 s ÷ 200, give or take half."""
        model = BatchModel(ONE, fixed_work=True)
        for number in range(400):
            events = 100 + 200 * (number % 2)
            model.learn(run(float(number), events=events, work_s=0.8 + 0.002 * events))
        found = model.figures(0)
        known, before = 100**2 / 0.06**2, (2 / 0.006) ** 2
        assert found.event_s == pytest.approx((known * 0.002 + before * 0.006) / (known + before), rel=0.01)
        assert found.batch_s + 200 * found.event_s == pytest.approx(1.2, rel=0.01)

    def test_batches_that_warm_up_as_they_grow_do_not_hide_the_work_of_events(self) -> None:
        model = BatchModel(ONE, fixed_work=True)
        for number in range(10):
            events = 300 + 15 * number
            model.learn(run(float(number), events=events, work_s=0.8 + 0.0023 * events + 1.2 * 0.7**number))
        found = model.figures(0)
        assert 0.001 < found.event_s < 0.006 and found.batch_s > 0

    def test_where_batches_are_alike_all_work_is_that_of_their_events(self) -> None:
        model = BatchModel(ONE, fixed_work=True)
        for number in range(40):
            model.learn(run(float(number), events=100, work_s=1.0))
        found = model.figures(0)
        assert (found.batch_s, found.event_s) == pytest.approx((0.0, 0.01))

    def test_first_batches_that_find_nothing_warm_are_soon_forgotten(self) -> None:
        model = BatchModel(ONE)
        for number in range(40):
            cold_s = 1.0 if number < 10 else 0.0
            model.learn(run(float(number), duration_s=0.3 + cold_s + 0.1 * (number % 5), work_s=0.1 * (number % 5)))
        assert model.figures(0).start_s < 0.45

    @pytest.mark.parametrize(("computed", "cores"), [(1.0, 2.0), (0.25, 8.0)])
    def test_tasks_that_share_the_cores_of_a_machine_are_of_use_as_long_as_one_is_free(
        self, computed: float, cores: float
    ) -> None:
        """Of .8 s of work on two cores a part is computed: 2 ÷ that part of slots keep both busy."""
        model = BatchModel(replace(ONE, machine_cores=2))
        for number in range(200):
            slots = 1 + number % 16
            duration_s = 0.2 + 0.8 / min(slots, cores)
            done = run(float(number), slots, duration_s, events=100, work_s=0.8)
            model.learn(replace(done, cpu_s=computed * done.work_s))
        found = model.figures(0)
        assert found.cores == pytest.approx(cores)
        assert [found.duration_s(slots, 0.8) for slots in (1, 16)] == pytest.approx([1.0, 0.2 + 0.8 / cores], abs=0.02)

    def test_what_was_learnt_outlives_a_run_as_json(self) -> None:
        policy = StagePolicy(ONE)
        policy.model.observe([run(float(at)) for at in range(20)])
        again = StagePolicy(ONE)
        again.resume(StageKnowledge.parse(json.loads(json.dumps(policy.learnt()))))
        for name in ("start_s", "slot_s", "skew", "gap_s", "noise_s", "event_s", "batches", "cores"):
            assert getattr(again.model.figures(0), name) == getattr(policy.model.figures(0), name)

    @pytest.mark.parametrize(
        "damage", [{"margin": 3.0}, {"batches": {"in": {}}}, {"batches": {"in": {"information": [[1.0]]}}}]
    )
    def test_knowledge_that_is_damaged_is_refused(self, damage: dict[str, object]) -> None:
        policy = StagePolicy(ONE)
        with pytest.raises((ValueError, KeyError)):
            StageKnowledge.parse({**policy.learnt(), **damage})


class TestRollout:
    FIGURES = StageFigures(0.2, 0.0, 1.0, 0.05, 0.0, np.zeros((3, 3)), 0.0, 0.01, 100)

    def roll(self, way: list[float], rate: float = 100.0, waiting: float = 0.0, trigger_s: float = 0.5) -> list[float]:
        coming = StageInput(waiting=waiting, last=rate, before=np.array([rate]), during=np.array([rate]), event_s=0.01)
        found = roll_stage(
            self.FIGURES,
            coming,
            np.array([way]),
            present=(1.0, way[2], way[2]),
            horizon_s=20.0,
            quantile=0.95,
            rhythm=(trigger_s, 1.0, np.inf),
        )
        return [float(part[0, 1]) for part in (found.mean_s, found.quantile_s, found.left, found.slots)]

    def test_fixed_slots_by_hand(self) -> None:
        """Fifty events a batch, .5 s of work in two slots: a batch takes .45 s, and events wait .25 s for it."""
        mean_s, late_s, left, slots = self.roll([1.0, 2.0, 2.0])
        assert mean_s == pytest.approx(0.25 + 0.45, abs=0.02)
        assert late_s == pytest.approx(0.475 + 0.45, abs=0.03)
        assert (left, slots) == (0.0, 2.0)

    def test_slots_that_are_hired_by_the_work_of_a_batch(self) -> None:
        """Each slot is to have .1 s: fifty events of .01 s are worth five."""
        mean_s, _, _, slots = self.roll([0.1, 1.0, 8.0])
        assert slots == pytest.approx(5.0, abs=0.2)
        assert mean_s == pytest.approx(0.25 + 0.3, abs=0.02)

    def test_batches_before_the_plan_is_at_work_hire_as_now(self) -> None:
        """A surge that slots are hired for already leaves nothing behind by the time that the plan is at work."""
        figures = StageFigures(0.2, 0.0, 1.0, 0.0, 0.0, np.zeros((3, 3)), 5.0, 0.01, 50)
        coming = StageInput(waiting=0.0, last=100.0, before=np.array([900.0]), during=np.array([900.0]), event_s=0.01)
        late_s = [
            roll_stage(
                figures,
                coming,
                np.array([[0.2, 1.0, 40.0]]),
                present=present,
                horizon_s=5.0,
                quantile=0.95,
                rhythm=(0.5, 1.0, np.inf),
            ).quantile_s[0, 1]
            for present in ((0.2, 1.0, 40.0), (1.0, 2.0, 2.0))
        ]
        assert late_s[0] == pytest.approx(0.475 + 0.4, abs=0.03)
        assert late_s[1] > 3

    def test_too_few_slots_leave_a_backlog(self) -> None:
        _, late_s, left, _ = self.roll([1.0, 1.0, 1.0], rate=150.0)
        # A batch admits .8 s of work, 80 events, and takes 1.05 s with its gap, in which 157 come.
        assert left > 800
        assert late_s > 5

    def test_what_waits_now_is_late(self) -> None:
        assert self.roll([1.0, 4.0, 4.0], waiting=500.0)[1] > self.roll([1.0, 4.0, 4.0])[1] + 0.5


class TestPromises:
    @pytest.mark.parametrize(
        "text", ["", "p95", "p95<", "p95<500", "95<500ms", "p100<1s", "p0<1s", "p95<0ms", "p95>1s"]
    )
    def test_what_is_malformed_is_refused_with_an_example(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"such as 'p95<500ms'"):
            parse_promise(text)

    def test_units(self) -> None:
        assert parse_promise("p99 <= 1.5s") == Promise(0.99, 1.5)
        assert parse_promise("p50<2min").target_s == 120.0

    def test_the_quantile_of_an_interval_weighs_batches_by_their_events(self) -> None:
        def batch(events: int, low_s: float, high_s: float) -> BatchRun:
            mean_s = (low_s + high_s) / 2
            late_s = low_s + 0.95 * (high_s - low_s)
            return BatchRun(
                stage=0, began_at_s=0, duration_s=1, slots=1, events=events, work_s=1, latency_s=mean_s, late_s=late_s
            )

        batches = (batch(90, 0.0, 1.0), batch(10, 2.0, 4.0))
        assert interval_quantile_s(batches, 0.45) == pytest.approx(0.5)
        assert interval_quantile_s(batches, 0.95) == pytest.approx(3.0)

    def test_events_that_were_counted_decide_and_else_the_histogram(self) -> None:
        tally, counted = (PromiseTally(parse_promise("p90<1s"), 5.0) for _ in range(2))
        latency = LatencyHistogram()
        latency.add([0.1, 0.99], [50, 50])  # whose bin reaches from .971 s to 1.02 s
        tally.add(1.0, latency)
        counted.add(1.0, latency, late=0)
        assert (tally.score().kept, counted.score().kept) == (0, 1)
        counted.add(2.0, latency, late=21)
        counted.add(6.0, LatencyHistogram(), late=0)  # nobody left
        assert (counted.score().kept, counted.score().intervals) == (0, 1)

    def test_an_interval_without_events_keeps_any_promise(self) -> None:
        assert np.isnan(interval_quantile_s((), 0.95))


def chain(most: int = 16) -> Topology:
    job = flow("chain")
    first = job.source("in").operator("parse", execution_s=0.0001, replicas=(1, 4))
    first.operator("classify", execution_s=0.004, replicas=(1, most))
    return job.build()


def waves(seconds: int = 180) -> RateTrace:
    at = np.arange(seconds)
    return RateTrace("waves", bin_s=1.0, rates=900 + 700 * np.sin(at / 12.0))


def play(planner: Foretide, topology: Topology, **micro: float):  # type: ignore[no-untyped-def]
    batches = MicroBatch(fixed_s=0.15, per_task_s=0.002, trigger_s=0.25, **micro)  # type: ignore[arg-type]
    return simulate(
        topology,
        waves(),
        planner=planner,
        forecaster="basic",
        td_s=3.0,
        settings=SimulationSettings(micro_batch=batches, step_s=0.25),
        warm_up_s=20.0,
        keep_decisions=True,
    )


@pytest.mark.slow
class TestPlanner:
    def test_a_promise_is_kept_with_fewer_slots_the_longer_it_is(self) -> None:
        found = {text: play(Foretide(slo=text), chain()).metrics for text in ("p95<500ms", "p95<800ms")}
        assert found["p95<500ms"].latency_p95_ms <= 500
        assert found["p95<800ms"].latency_p95_ms <= 800
        assert found["p95<800ms"].slot_seconds < 0.8 * found["p95<500ms"].slot_seconds

    def test_a_promise_that_is_hard_to_keep_is_not_given_up(self) -> None:
        """What is planned for may lie below the least latency, where promises were broken: the promise does not."""
        hard, easier = (play(Foretide(slo=text), chain()).metrics for text in ("p95<400ms", "p95<500ms"))
        assert hard.latency_mean_ms < easier.latency_mean_ms
        assert hard.slot_seconds > easier.slot_seconds

    def test_a_promise_that_cannot_be_kept_is_said_with_what_is_in_the_way(self) -> None:
        report = play(Foretide(slo="p95<500ms"), chain(most=2))
        warned = [warning for decision in report.decisions for warning in decision.plan.warnings]
        assert any("stage 'in' may have 6 slots: raise its maximum" in warning for warning in warned)
        report = play(Foretide(slo="p95<100ms"), chain())
        warned = [warning for decision in report.decisions for warning in decision.plan.warnings]
        assert any("more slots do not help" in warning for warning in warned)

    def test_one_slot_is_enough_where_there_is_little_work(self) -> None:
        job = flow("calm")
        job.source("in").operator("a", execution_s=1e-6).operator("b", execution_s=1e-6).operator("c", execution_s=1e-6)
        report = play(Foretide(), job.build())
        assert {int(decision.plan.counts.sum()) for decision in report.decisions} == {1}

    def test_decisions_explain_slots_parts_and_the_latency_expected(self) -> None:
        decision = play(Foretide(slo="p95<600ms"), chain()).decisions[-1]
        steps = {step["symbol"]: step["value"] for step in decision.explain("classify")[0].steps}
        assert steps["s"] >= steps["s_i"] > 0.9 * steps["s"]
        assert 0.1 < steps["p50"] < steps["p95"] <= 0.7
        assert steps["ε"] <= 0.05

    def test_a_stage_hires_slots_by_the_events_of_a_batch(self) -> None:
        decision = play(Foretide(), chain()).decisions[-1]
        rule = decision.plan.hiring["in"]
        assert isinstance(rule, Hiring)
        assert rule.slots(0) == 1
        assert rule.slots(10**9) == rule.most == 20
        assert rule.slots(300) == int(np.ceil(300 * rule.event_s / rule.share_s - 1e-9))

    def test_no_more_slots_are_hired_than_there_are_cores(self) -> None:
        decision = play(Foretide(), chain(), cores=6).decisions[-1]
        rule = decision.plan.hiring["in"]
        assert rule.slots(10**9) == rule.most == 6
        steps = {step["symbol"]: step["value"] for step in decision.explain("classify")[0].steps}
        assert steps["c"] == 6

    def test_a_promise_that_is_malformed_is_refused_by_the_planner(self) -> None:
        with pytest.raises(ConfigError, match="such as 'p95<500ms'"):
            make_planner("foretide", slo="fast")
