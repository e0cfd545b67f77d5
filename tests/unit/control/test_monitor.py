from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from foretide.control import LoopSettings, Monitor, measurement_of
from foretide.errors import MetricsError, NotReadyError
from foretide.records import CpuUse, Measurement
from foretide.topology import Topology, flow

SETTINGS = LoopSettings(td_s=30.0, sample_s=10.0, history=6, stale_after_s=60.0)


def split_topology() -> Topology:
    """Return in -> O1 -> (news: O2, opinion: O3) -> O4; O1 declares .5/.5, O2 declares et = 20 ms."""
    job = flow("split")
    first = job.source("in").operator(
        "O1", outputs=("news", "opinion"), selectivity={"news": 0.5, "opinion": 0.5}, replicas=(1, 8)
    )
    news = first["news"].operator("O2", execution_s=0.02)
    opinion = first["opinion"].operator("O3")
    job.operator("O4", inputs=[news, opinion])
    return job.build()


TOPOLOGY = split_topology()


def measured(ended_at_s: float, duration_s: float = 10.0, **changes: Any) -> Measurement:
    """Return 100 arrivals of which O1 finished 80, sent 56 and 24 on, and queued 20."""
    values: dict[str, Any] = {
        "arrived": {"in": 100},
        "passed": {("in", "O1"): 100, ("O1", "O2"): 56, ("O1", "O3"): 24},
        "by_operator": {
            "processed": {"O1": 80, "O2": 56, "O3": 20},
            "queued": {"O1": 20, "O3": 4},
            "busy_s": {"O1": 8, "O2": 2.8},
            "replicas": {"O1": 2, "O2": 1, "O3": 1, "O4": 1},
        },
    }
    return measurement_of(TOPOLOGY, ended_at_s=ended_at_s, duration_s=duration_s, **(values | changes))


def idle(ended_at_s: float, duration_s: float = 10.0) -> Measurement:
    return measured(ended_at_s, duration_s, arrived={}, passed={}, by_operator={"replicas": {"O1": 2, "O2": 1}})


def monitor_with(*measurements: Measurement, settings: LoopSettings = SETTINGS) -> Monitor:
    monitor = Monitor(TOPOLOGY, settings)
    monitor.add(measurements)
    return monitor


def interval(end_s: float = 30.0) -> list[Measurement]:
    return [measured(end_s - 20.0), measured(end_s - 10.0), measured(end_s)]


def test_amounts_of_the_interval_are_summed() -> None:
    window = monitor_with(*interval()).window(30.0)
    assert window.arrived.tolist() == [300.0]
    assert window.received.tolist() == [300.0, 168.0, 72.0, 0.0]
    assert window.processed.tolist() == [240.0, 168.0, 60.0, 0.0]
    assert window.queued.tolist() == [20.0, 0.0, 4.0, 0.0], "queues are those at the end"
    assert window.replicas.tolist() == [2, 1, 1, 1]
    assert (window.ended_at_s, window.duration_s) == (30.0, 30.0)
    assert window.measurement_ids == ("measurement@10.000", "measurement@20.000", "measurement@30.000")


def test_p5_eq_6_shares_are_measured() -> None:
    # O1 finished 240, passed 168 to O2 and 72 to O3.
    shares = dict(zip(TOPOLOGY.layout.edges, monitor_with(*interval()).window(30.0).share, strict=True))
    assert shares[("O1", "news", "O2")] == pytest.approx(168 / 240)
    assert shares[("O1", "opinion", "O3")] == pytest.approx(72 / 240)
    assert shares[("O2", "out", "O4")] == 0.0, "it finished events and passed none on"


def test_shares_of_source_edges_stay_declared() -> None:
    # A source that holds 40 of 100 events back looks like a share of .6, but what waits will come.
    held = measured(30.0, 30.0, passed={("in", "O1"): 60})
    window = monitor_with(held).window(30.0)
    assert window.share[TOPOLOGY.layout.edge_index[("in", "out", "O1")]] == 1.0


def test_shares_and_times_are_declared_before_they_are_measured() -> None:
    window = monitor_with(idle(30.0, 30.0)).window(30.0)
    assert window.share.tolist() == TOPOLOGY.declared_share.tolist() == [1.0, 0.5, 0.5, 1.0, 1.0]
    assert window.execution_s.tolist() == pytest.approx([np.nan, 0.02, np.nan, np.nan], nan_ok=True)


def test_shares_and_times_outlast_an_idle_interval() -> None:
    monitor = monitor_with(*interval())
    busy = monitor.window(30.0)
    monitor.add([idle(60.0, 30.0)])
    quiet = monitor.window(60.0)
    assert quiet.arrived.tolist() == [0.0]
    assert quiet.share.tolist() == busy.share.tolist()
    assert quiet.execution_s.tolist() == pytest.approx(busy.execution_s.tolist(), nan_ok=True)


def test_execution_time_is_busy_time_by_events() -> None:
    window = monitor_with(*interval()).window(30.0)
    # O1: 24 s / 240; O2: 8.4 s / 168, no longer the declared .02; O3 finished events in no time that was seen.
    assert window.execution_s.tolist() == pytest.approx([0.1, 0.05, np.nan, np.nan], nan_ok=True)


def failing(failed: float, busy_s: float) -> Measurement:
    """Return an interval in which O1 took 300 events and failed on some of them."""
    good = 300 - failed
    by_operator = {"processed": {"O1": good}, "failed": {"O1": failed}, "busy_s": {"O1": busy_s}, "replicas": {"O1": 2}}
    passed = {("in", "O1"): 300, ("O1", "O2"): good}
    return measured(30.0, 30.0, arrived={"in": 300}, passed=passed, by_operator=by_operator)


def test_events_that_fail_are_not_processed_and_call_for_no_replicas() -> None:
    window = monitor_with(failing(failed=240, busy_s=6.0)).window(30.0)
    assert (window.received[0], window.processed[0]) == (300.0, 60.0)
    # 60 good events took 0.1 s each. What 300 need, of which 240 fail, is what these 60 need: 6 s, and nothing behind.
    assert window.execution_s[0] * window.received[0] == pytest.approx(6.0)
    assert window.share[TOPOLOGY.layout.edge_index[("O1", "news", "O2")]] * window.received[0] == pytest.approx(60.0)


def test_an_operator_that_fails_on_everything_has_no_work() -> None:
    monitor = monitor_with(*interval())
    assert monitor.window(30.0).execution_s[0] == pytest.approx(0.1)
    monitor.add([replace(failing(failed=300, busy_s=0.0), ended_at_s=60.0)])
    window = monitor.window(60.0)
    assert 0 < window.execution_s[0] < 1e-6
    assert window.utilisation[0] == 0.0


def test_p3_eq_1_utilisation_is_busy_time_by_replica_time() -> None:
    # O1: 24 s of 2 replicas × 30 s; O2: 8.4 s of 30 s.
    assert monitor_with(*interval()).window(30.0).utilisation.tolist() == pytest.approx([0.4, 0.28, 0.0, 0.0])


def test_utilisation_is_at_most_one() -> None:
    by_operator = {"processed": {"O1": 80}, "busy_s": {"O1": 25}, "replicas": {"O1": 2}}
    over = measured(10.0, by_operator=by_operator)
    assert monitor_with(over, settings=SETTINGS.model_copy(update={"coverage": 0.1})).window(10.0).utilisation[0] == 1.0


def test_a_partly_measured_interval_is_scaled_to_all_of_it() -> None:
    window = monitor_with(measured(20.0), measured(30.0)).window(30.0)
    assert window.arrived.tolist() == [300.0], "200 events in 20 s are 300 in 30 s"
    assert window.received.tolist() == pytest.approx([300.0, 168.0, 72.0, 0.0])
    assert window.processed.tolist() == pytest.approx([240.0, 168.0, 60.0, 0.0])
    assert window.queued.tolist()[0] == 20.0, "a queue is no rate"


def test_history_holds_a_row_per_sample() -> None:
    window = monitor_with(*interval()).window(30.0)
    assert window.arrival_rates.ravel().tolist() == [10.0, 10.0, 10.0]
    assert window.received_rates[0].tolist() == pytest.approx([10.0, 5.6, 2.4, 0.0])
    assert (window.samples, window.sample_s) == (3, 10.0)


def test_gaps_become_rows_of_nan() -> None:
    window = monitor_with(measured(10.0), measured(50.0), measured(60.0)).window(60.0)
    assert window.arrival_rates.ravel().tolist() == pytest.approx([10.0] + [np.nan] * 3 + [10.0] * 2, nan_ok=True)
    assert np.isnan(window.received_rates[1]).all()
    assert window.samples == 6


def test_history_is_bounded() -> None:
    monitor = monitor_with(*(measured(10.0 * number) for number in range(1, 41)))
    window = monitor.window(400.0)
    assert window.arrival_rates.shape == (6, 1)
    assert window.samples == 40
    assert len(window.measurement_ids) == 3


def test_what_comes_twice_is_ignored_and_counted() -> None:
    monitor = monitor_with(*interval(), *interval())
    assert monitor.ignored == 3
    assert monitor.window(30.0).arrived.tolist() == [300.0]
    assert monitor.window(30.0).samples == 3


def test_what_mostly_overlaps_is_ignored_and_what_barely_does_is_taken() -> None:
    monitor = monitor_with(measured(10.0), measured(12.0), measured(19.9))
    assert monitor.ignored == 1
    assert monitor.window(20.0).arrived.tolist() == [300.0]
    assert monitor.window(20.0).samples == 2


def test_a_clock_that_jumps_back_starts_over() -> None:
    monitor = monitor_with(*interval(end_s=3600.0))
    samples = monitor.window(3600.0).samples
    monitor.add([measured(10.0), measured(20.0)])
    window = monitor.window(20.0)
    assert window.ended_at_s == 20.0
    assert window.arrival_rates.shape == (2, 1), "rows of another time do not count"
    assert window.samples - samples > SETTINGS.history, "nor are they continued"
    assert window.execution_s[0] == pytest.approx(0.1), "what was learnt of the operators stays"


def test_nothing_measured_yet() -> None:
    with pytest.raises(NotReadyError, match="no measurement has come yet"):
        Monitor(TOPOLOGY, SETTINGS).window(0.0)


def test_too_little_of_an_interval_is_not_ready() -> None:
    monitor = monitor_with(measured(10.0))
    with pytest.raises(NotReadyError, match="10 s of an interval of 30 s measured so far"):
        monitor.window(10.0)
    monitor.add([measured(15.0, 5.0)])
    assert monitor.window(15.0).arrived.tolist() == [400.0], "half of it is enough; 200 in 15 s are 400 in 30 s"


def test_stale_measurements_are_refused() -> None:
    monitor = monitor_with(*interval())
    assert monitor.window(90.0).ended_at_s == 30.0
    with pytest.raises(MetricsError, match=r"stale: expected one within 60 s, the last is 60\.5 s old"):
        monitor.window(90.5)
    monitor.add(interval(end_s=120.0))
    assert monitor.window(120.0).ended_at_s == 120.0


def test_d3_measurements_of_a_settling_change_are_ignored() -> None:
    monitor = monitor_with(*interval())
    monitor.settle(until_s=40.0)
    monitor.add([measured(40.0, arrived={"in": 9999}), measured(50.0), measured(60.0)])
    window = monitor.window(60.0)
    assert monitor.ignored == 1
    assert window.measurement_ids == ("measurement@50.000", "measurement@60.000")
    assert np.isnan(window.arrival_rates[3, 0]), "it leaves a gap in the history"


def test_d3_nothing_is_planned_from_before_a_change_while_it_settles() -> None:
    monitor = monitor_with(*interval())
    monitor.settle(until_s=90.0)
    monitor.add([measured(40.0)])
    with pytest.raises(NotReadyError, match="0 s of an interval"):
        monitor.window(40.0)
    monitor.add([measured(50.0), measured(60.0)])
    with pytest.raises(NotReadyError, match="0 s of an interval of 30 s measured so far; a change is settling"):
        monitor.window(60.0)
    monitor.add([measured(end) for end in (70.0, 80.0, 90.0, 100.0, 110.0)])
    assert monitor.window(110.0).measurement_ids == ("measurement@100.000", "measurement@110.000")


def test_a_misfit_is_refused_and_the_rest_is_taken() -> None:
    job = flow("other")
    job.source("in").operator("stranger")
    other = job.build()
    misfit = measurement_of(other, ended_at_s=15.0, duration_s=5.0, arrived={}, passed={}, by_operator={})
    monitor = Monitor(TOPOLOGY, SETTINGS)
    with pytest.raises(MetricsError, match=r"layout of topology 'split', got operators \['stranger'\]"):
        monitor.add([measured(10.0), misfit, measured(20.0)])
    assert monitor.window(20.0).measurement_ids == ("measurement@10.000", "measurement@20.000")


def test_an_equal_layout_of_another_object_fits() -> None:
    same = split_topology()
    assert same.layout is not TOPOLOGY.layout
    Monitor(same, SETTINGS).add([measured(10.0)])


def test_d2_the_cpu_of_an_interval_is_its_mean_over_the_time_that_each_replica_was_there() -> None:
    """The first replica used .2 for 10 s and .8 for 10 s; the second was there for the last 10 s alone."""
    one = CpuUse(operator=[0], core=[0], used=[0.2], reserved=[1.0])
    two = CpuUse(operator=[0, 0], core=[0, 1], used=[0.8, 0.6], reserved=[1.0, 1.0])
    cpu = monitor_with(measured(10.0, cpu=one), measured(20.0), measured(30.0, cpu=two)).window(30.0).cpu
    assert cpu is not None
    assert cpu.core.tolist() == [0, 1]
    assert cpu.used.tolist() == [0.5, 0.6]


def test_d2_work_that_is_counted_late_is_not_more_than_a_core() -> None:
    late = CpuUse(operator=[0], core=[0], used=[3.0], reserved=[1.0])
    cpu = monitor_with(measured(10.0, cpu=late), measured(20.0, cpu=late)).window(20.0).cpu
    assert cpu is not None
    assert cpu.used.tolist() == [1.0]


def test_a_window_does_not_change_after_it_was_given() -> None:
    monitor = monitor_with(*interval())
    window = monitor.window(30.0)
    before = {name: np.array(getattr(window, name)) for name in ("arrival_rates", "share", "execution_s", "arrived")}
    for number in range(1, 5):
        monitor.add([measured(30.0 + 30.0 * number, 30.0, arrived={"in": 1}, passed={("O1", "O2"): 1})])
        monitor.window(30.0 + 30.0 * number)
    for name, values in before.items():
        np.testing.assert_array_equal(getattr(window, name), values)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arrived": {"out": 1}}, "arrived: expected names among .*got 'out'"),
        ({"passed": {("O1", "O4"): 1}}, r"passed: expected one edge for \('O1', 'O4'\), got none"),
        ({"passed": {("O1", "sport", "O2"): 1}}, "passed: expected names among"),
        ({"by_operator": {"processed": {"O9": 1}}}, "processed: expected names among .*got 'O9'"),
        ({"by_operator": {"finished": {"O1": 1}}}, "by_operator: expected names among .*got 'finished'"),
        ({"by_operator": {"replicas": {"O1": 1.5}}}, r"replicas: expected whole numbers, got 1\.5"),
    ],
)
def test_measurement_of_refuses_names_it_does_not_know(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(MetricsError, match=message):
        measured(10.0, **changes)


def test_measurement_of_tells_two_edges_between_the_same_ends_apart() -> None:
    job = flow("twice")
    first = job.source("in").operator("O1", outputs=("left", "right"))
    job.operator("O2", inputs=[first["left"], first["right"]])
    twice = job.build()
    values: dict[str, Any] = {"ended_at_s": 1.0, "duration_s": 1.0, "arrived": {}, "by_operator": {}}
    with pytest.raises(MetricsError, match=r"name it as \(start, output, end\)"):
        measurement_of(twice, passed={("O1", "O2"): 5}, **values)
    assert measurement_of(twice, passed={("O1", "right", "O2"): 5}, **values).passed.tolist() == [0.0, 0.0, 5.0]
