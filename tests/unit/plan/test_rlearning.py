"""Q-learning from input rate to degree (SPEC D5), on a fluid operator small enough to know the right answer."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.plan.base import Situation
from foretide.plan.knowledge import ACTIONS, Buckets, Knowledge
from foretide.plan.planners.rlearning import RLearning
from foretide.topology import Topology, flow

MakeSituation = Callable[..., Situation]
MAXIMUM = 6


def one_operator(maximum: int = MAXIMUM, name: str = "work") -> Topology:
    job = flow("one")
    job.source("in").operator(name, replicas=(1, maximum))
    return job.build()


class FluidOperator:
    """An operator that finishes 10 events per second and replica, and queues the rest; intervals of 1 s."""

    def __init__(self, make_situation: MakeSituation, rate: float, replicas: int = 1) -> None:
        self.make_situation, self.rate, self.replicas = make_situation, rate, replicas
        self.topology, self.queued, self.now_s = one_operator(), 0.0, 0.0

    def interval(self) -> Situation:
        processed = min(self.queued + self.rate, 10.0 * self.replicas)
        self.queued += self.rate - processed
        self.now_s += 1.0
        return self.make_situation(
            self.topology,
            arrived=self.rate,
            processed=processed,
            queued=self.queued,
            execution_s=0.1,
            replicas=self.replicas,
            now_s=self.now_s,
        )

    def run(self, planner: RLearning, intervals: int) -> list[int]:
        degrees = []
        for _ in range(intervals):
            self.replicas = int(planner.plan(self.interval()).replicas[0])
            degrees.append(self.replicas)
        return degrees


def bucket_of(planner: RLearning, rate: float) -> int:
    return int(Buckets(planner.lowest_rate, planner.bucket_ratio, planner.buckets).of(np.array([rate]))[0])


def trained(make_situation: MakeSituation, rate: float, seed: int) -> RLearning:
    """Return a learner after 1920 intervals: 240 episodes that start at every degree in turn, queues empty."""
    planner = RLearning(seed=seed)
    start_s = 0.0
    for episode in range(240):
        operator = FluidOperator(make_situation, rate, replicas=episode % MAXIMUM + 1)
        operator.now_s = start_s
        operator.run(planner, 8)
        start_s = operator.now_s
    return planner


def frozen(planner: RLearning, path: Path) -> RLearning:
    planner.save(path)
    return RLearning(learn=False, knowledge_file=path)


@pytest.mark.parametrize("rate, right", [(8.0, 1), (25.0, 3), (36.0, 4)])
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.slow
def test_d5_learns_the_degree_that_carries_the_rate(
    make_situation: MakeSituation, tmp_path: Path, rate: float, right: int, seed: int
) -> None:
    planner = frozen(trained(make_situation, rate, seed), tmp_path / "kb.npz")
    for replicas in range(1, MAXIMUM + 1):
        after = FluidOperator(make_situation, rate, replicas).run(planner, MAXIMUM + 2)
        assert after[-3:] == [right] * 3


def test_one_update_by_hand(make_situation: MakeSituation) -> None:
    """At first Q = R + γ·0, with R = -(overload 3 + replicas 2/6 + change .02), after a step from 1 to 2."""
    planner = RLearning(exploration=0.0)
    topology = one_operator()
    common = {"arrived": 30.0, "execution_s": 0.1}
    planner.plan(make_situation(topology, **common, processed=10.0, queued=20.0, replicas=1, now_s=1.0))
    plan = planner.plan(make_situation(topology, **common, processed=20.0, queued=30.0, replicas=2, now_s=2.0))
    knowledge = planner.knowledge
    assert knowledge is not None
    bucket = bucket_of(planner, 30.0)
    reward = -(3.0 + 2 / 6 + 0.02)
    assert knowledge.value[0, bucket, ACTIONS.index(1)] == pytest.approx(reward)
    assert knowledge.visits.sum() == 1
    assert {term.symbol: term.value(0) for term in plan.terms}["R"] == pytest.approx(reward)


def test_a_shrinking_queue_is_no_overload(make_situation: MakeSituation) -> None:
    planner = RLearning()
    topology = one_operator()
    for now_s, queued in ((1.0, 500.0), (2.0, 400.0)):
        plan = planner.plan(
            make_situation(topology, arrived=10.0, queued=queued, execution_s=0.1, replicas=6, now_s=now_s)
        )
    assert {term.symbol: term.value(0) for term in plan.terms}["R"] == pytest.approx(-1.0)


def test_learns_about_what_became_of_the_replicas(make_situation: MakeSituation) -> None:
    planner = RLearning(exploration=0.0)
    topology = one_operator()
    for now_s, replicas in ((1.0, 1), (2.0, 1), (3.0, 5)):  # held back by someone, then moved by someone
        planner.plan(make_situation(topology, arrived=10.0, execution_s=0.1, replicas=replicas, now_s=now_s))
    knowledge = planner.knowledge
    assert knowledge is not None
    assert knowledge.visits.sum() == 1
    assert knowledge.visits[0, bucket_of(planner, 10.0), ACTIONS.index(0)] == 1


def test_a_clock_that_jumps_back_teaches_nothing(make_situation: MakeSituation) -> None:
    planner = RLearning()
    for now_s in (10.0, 5.0):
        planner.plan(make_situation(one_operator(), now_s=now_s))
    assert planner.knowledge is not None
    assert planner.knowledge.visits.sum() == 0


def test_same_seed_same_decisions_another_seed_others(make_situation: MakeSituation) -> None:
    runs = [FluidOperator(make_situation, 25.0).run(RLearning(seed=seed), 200) for seed in (7, 7, 8)]
    assert runs[0] == runs[1] != runs[2]


def test_frozen_it_neither_learns_nor_explores(make_situation: MakeSituation) -> None:
    planner = RLearning(learn=False, exploration=1.0)
    assert FluidOperator(make_situation, 25.0, replicas=2).run(planner, 20) == [2] * 20
    assert planner.knowledge is not None
    assert not planner.knowledge.visits.any()


def test_saved_and_loaded_it_decides_the_same(make_situation: MakeSituation, tmp_path: Path) -> None:
    planner = RLearning(seed=1)
    FluidOperator(make_situation, 25.0).run(planner, 300)
    planner.save(tmp_path / "kb.npz")
    loaded = RLearning()
    loaded.load(tmp_path / "kb.npz")
    assert planner.knowledge is not None and loaded.knowledge is not None
    np.testing.assert_array_equal(planner.knowledge.value, loaded.knowledge.value)
    np.testing.assert_array_equal(planner.knowledge.visits, loaded.knowledge.visits)
    for rate in (8.0, 25.0, 60.0):
        one, other = (frozen(learner, tmp_path / "again.npz") for learner in (planner, loaded))
        assert FluidOperator(make_situation, rate).run(one, 20) == FluidOperator(make_situation, rate).run(other, 20)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.npz", "kb.npz"]


def test_pools_of_different_size_lie_one_after_another() -> None:
    job = flow("two")
    job.source("in").operator("a", replicas=(2, 4)).operator("b", replicas=(1, 8))
    knowledge = Knowledge.empty(job.build(), Buckets(1.0, 2.0, 5))
    assert knowledge.value.shape == (3 + 8, 5, 3)
    np.testing.assert_array_equal(knowledge.rows(np.array([4, 1])), [2, 3])
    np.testing.assert_array_equal(knowledge.allowed(np.array([2, 8])), [[False, True, True], [True, True, False]])


@pytest.fixture
def saved(make_situation: MakeSituation, tmp_path: Path) -> Path:
    planner = RLearning()
    FluidOperator(make_situation, 25.0).run(planner, 10)
    planner.save(tmp_path / "kb.npz")
    return tmp_path / "kb.npz"


def rewritten(path: Path, **changes: object) -> None:
    """Write the file again with other arrays, or with another header where `header` holds entries of it."""
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    header = json.loads(arrays["header"].tobytes()) | changes.pop("header", {})
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **(arrays | changes))


@pytest.mark.parametrize(
    "header, message",
    [({"version": 2}, "version 2"), ({"format": "other"}, "'other'"), ({"operators": ["a", "b"]}, "2 operators")],
)
def test_another_version_or_shape_is_refused(saved: Path, header: dict[str, object], message: str) -> None:
    rewritten(saved, header=header)
    with pytest.raises(ConfigError, match=message):
        RLearning().load(saved)


@pytest.mark.parametrize("value", [np.zeros((2, 2, 3)), np.full((MAXIMUM, 40, 3), np.nan)])
def test_arrays_that_do_not_fit_are_refused(saved: Path, value: np.ndarray) -> None:
    rewritten(saved, value=value)
    with pytest.raises(ConfigError, match=r"planner\.rlearning\.knowledge_file"):
        RLearning().load(saved)


def test_a_file_cut_short_is_refused_wherever_it_is_cut(saved: Path) -> None:
    whole = saved.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 40)):
        saved.write_bytes(whole[:length])
        with pytest.raises(ConfigError, match="learn it again"):
            RLearning().load(saved)


def test_a_damaged_byte_is_refused_or_harmless(saved: Path) -> None:
    whole = saved.read_bytes()
    refused = 0
    for position in range(0, len(whole), max(1, len(whole) // 60)):
        saved.write_bytes(whole[:position] + bytes([whole[position] ^ 0xFF]) + whole[position + 1 :])
        try:
            RLearning().load(saved)
        except ConfigError:
            refused += 1
    assert refused > 0


def test_a_pickle_is_never_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "sprung",)

    np.savez(tmp_path / "kb.npz", header=np.array([Trap()], dtype=object))
    with pytest.raises(ConfigError):
        RLearning().load(tmp_path / "kb.npz")
    assert not (tmp_path / "sprung").exists()


def test_a_missing_or_foreign_file_is_refused(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3))
    (tmp_path / "array.npz").write_bytes(buffer.getvalue())
    for name in ("none.npz", "array.npz"):
        with pytest.raises(ConfigError, match=name):
            RLearning().load(tmp_path / name)


def test_other_buckets_than_it_was_learned_with_are_refused(saved: Path) -> None:
    with pytest.raises(ConfigError, match=r"planner\.rlearning\.buckets"):
        RLearning(buckets=10).load(saved)


def test_another_topology_is_refused(make_situation: MakeSituation, saved: Path) -> None:
    planner = RLearning()
    planner.load(saved)
    for topology in (one_operator(maximum=7), one_operator(name="other")):
        with pytest.raises(ConfigError, match="one knowledge base for each topology"):
            planner.plan(make_situation(topology))


def test_nothing_learned_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="plan first"):
        RLearning().save(tmp_path / "kb.npz")
    assert not list(tmp_path.iterdir())
