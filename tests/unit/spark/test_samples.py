"""What is kept of the samples of a run that goes on for days."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from topologies import line, step

from foretide.clock import ManualClock
from foretide.latency import LatencyHistogram
from foretide.metrics import replica_changes
from foretide.records import Measurement
from foretide.spark.steering.samples import Sample, SampleLog
from foretide.spark.steering.sampling import Sampler

TOPOLOGY = line(step("a", replicas=(1, 8)))


def second(at: int, replicas: int = 1, arrived: float = 10.0) -> Sample:
    measurement = Measurement(
        layout=TOPOLOGY.layout,
        ended_at_s=float(at + 1),
        duration_s=1.0,
        arrived=np.array([arrived]),
        passed=np.array([arrived]),
        processed=np.array([arrived]),
        queued=np.array([float(at)]),
        busy_s=np.array([0.5]),
        replicas=np.array([replicas]),
    )
    latency = LatencyHistogram()
    latency.add([0.1 + at % 7], [int(arrived)])
    return Sample(measurement, {}, latency, replicas)


def kept(samples: Sequence[Sample], capacity: int) -> tuple[Sample, ...]:
    log = SampleLog(capacity)
    for sample in samples:
        log.append(sample)
    return log.samples()


def totals(samples: Sequence[Sample]) -> dict[str, Any]:
    latency = LatencyHistogram()
    for sample in samples:
        latency.merge(sample.latency)
    measurements = [sample.measurement for sample in samples]
    counted = {name: sum(float(getattr(m, name).sum()) for m in measurements) for name in ("arrived", "busy_s")}
    slot_seconds = sum(float(m.replicas.sum()) * m.duration_s for m in measurements)
    changes = replica_changes(np.stack([m.replicas for m in measurements]))
    return {**counted, "slots": slot_seconds, "changes": changes, "p95": latency.quantile_s(0.95)}


def test_a_short_run_is_kept_as_it_came() -> None:
    samples = [second(at) for at in range(100)]
    assert kept(samples, 200) == tuple(samples)


def test_a_long_run_takes_no_more_memory_and_loses_nothing_that_was_counted() -> None:
    samples = [second(at, replicas=1 + at // 300 % 3, arrived=float(at % 50)) for at in range(2_000)]
    found = kept(samples, 200)
    assert len(found) <= 200
    assert found[-100:] == tuple(samples[-100:]), "the latest are as they came"
    assert totals(found) == pytest.approx(totals(samples))
    ends = [sample.measurement.ended_at_s for sample in found]
    begins = [sample.measurement.ended_at_s - sample.measurement.duration_s for sample in found]
    assert begins[1:] == pytest.approx(ends[:-1]), "stretch follows stretch"


def test_old_stretches_are_about_equally_long() -> None:
    found = kept([second(at) for at in range(2_000)], 200)
    lengths = [sample.measurement.duration_s for sample in found[:-100]]
    assert max(lengths) <= 4 * np.median(lengths)


def test_replicas_that_change_all_the_time_do_not_grow_it_either() -> None:
    found = kept([second(at, replicas=1 + at % 2) for at in range(2_000)], 200)
    assert len(found) <= 200
    assert sum(float(sample.measurement.arrived[0]) for sample in found) == 20_000


def test_a_sampler_that_nobody_collects_from_stays_small(fake_run: Callable[..., Any]) -> None:
    clock, ticks = ManualClock(), [0.0]
    sampler = Sampler(fake_run(TOPOLOGY), clock=clock, ticks=lambda: ticks[0], kept=100)
    sizes = []
    for number in range(1_000):
        ticks[0] += 1.0
        clock.sleep_s(1.0)
        sampler.sample()
        if number in (499, 999):
            sizes.append(len(sampler.samples) + len(sampler.monitor.collect()))
    assert max(sizes) <= 101
