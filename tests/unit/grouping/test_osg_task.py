import json
import math

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import HashFamily, OsgTask, SyncReply, SyncRequest, TaskPhase
from foretide.grouping.osg_task import relative_error


def test_d4_eq_14_by_hand() -> None:
    snapshot = np.array([[1.0, 2.0], [0.0, 1.0]])
    now = np.array([[1.5, 2.0], [0.1, 0.8]])
    assert relative_error(snapshot, now) == pytest.approx((0.5 + 0.0 + 0.1 + 0.2) / 4.0)
    assert relative_error(np.zeros((1, 1)), np.zeros((1, 1))) == 0.0
    assert relative_error(np.zeros((1, 1)), np.ones((1, 1))) == math.inf


def test_d4_task_walks_from_start_to_stabilizing_and_back() -> None:
    task = OsgTask(0, window=2, tolerance=0.05)
    assert task.executed(1, 0.1) is None and task.phase is TaskPhase.START
    assert task.executed(1, 0.1) is None and task.phase is TaskPhase.STABILIZING
    # Means of 0.1, 0.1, 0.3, 0.3 are twice the snapshot of 0.1: not stable, a new snapshot of 0.2.
    assert task.executed(1, 0.3) is None
    assert task.executed(1, 0.3) is None and task.phase is TaskPhase.STABILIZING
    # The mean stays 0.2: stable.
    assert task.executed(1, 0.2) is None
    sketches = task.executed(1, 0.2)
    assert sketches is not None and task.phase is TaskPhase.START
    assert sketches.counts.max() == 6.0 and sketches.seconds.max() == pytest.approx(1.2)


def test_d4_sketches_start_again_after_they_were_sent() -> None:
    task = OsgTask(0, window=1)
    assert task.executed(1, 0.5) is None
    first = task.executed(1, 0.5)
    assert task.executed(2, 0.25) is None
    second = task.executed(2, 0.25)
    assert first is not None and first.counts.sum() == 2 * task.family.rows
    assert second is not None and second.counts.sum() == 2 * task.family.rows
    assert second.mean_s == 0.25


def test_d4_tolerance_is_inclusive() -> None:
    # Eq. 14 accepts equality: snapshot 1.0, mean of 1.0 and 2.0 is 1.5, the error exactly 0.5.
    task = OsgTask(0, window=1, tolerance=0.5)
    task.executed(1, 1.0)
    assert task.executed(1, 2.0) is not None


def test_d4_reply_is_the_difference_of_cumulated_times() -> None:
    task = OsgTask(3, window=1)
    task.executed_many([1, 2, 3], [0.5, 0.25, 0.25])
    assert task.reply(SyncRequest(3, 7, 1.5)) == SyncReply(3, 7, -0.5)
    with pytest.raises(ConfigError, match="a request to task 3"):
        task.reply(SyncRequest(2, 7, 1.5))


@pytest.mark.parametrize("size", [1, 3, 10, 64, 500])
def test_many_at_once_are_as_many_one_by_one(size: int) -> None:
    rng = np.random.default_rng(2)
    keys, seconds = rng.integers(0, 20, 500), rng.random(500)
    single, batched = (OsgTask(0, HashFamily(2, 8), window=10, tolerance=0.02) for _ in range(2))
    sent = [single.executed(int(key), float(second)) for key, second in zip(keys, seconds, strict=True)]
    for start in range(0, 500, size):
        due = [each for each in sent[start : start + size] if each is not None]
        got = batched.executed_many(keys[start : start + size], seconds[start : start + size])
        assert (got is None) == (not due)
        assert got is None or got.seconds.tolist() == due[-1].seconds.tolist()
    assert any(sent) and single.state() == batched.state()


def test_state_survives_json() -> None:
    task = OsgTask(1, HashFamily(2, 8, 5), window=10)
    task.executed_many(np.arange(15), np.linspace(0.0, 1.0, 15))
    restored = OsgTask.from_state(json.loads(json.dumps(task.state())))
    assert restored.state() == task.state()
    assert restored.executed_many(np.arange(5), np.ones(5)) is task.executed_many(np.arange(5), np.ones(5)) is None
    assert restored.state() == task.state()


@pytest.mark.parametrize(
    ("options", "setting"), [({"window": 0}, "window"), ({"tolerance": 0.0}, "tolerance"), ({"task": -1}, "task")]
)
def test_errors_name_the_setting(options: dict[str, float], setting: str) -> None:
    with pytest.raises(ConfigError, match=rf"grouping\.osg\.{setting}"):
        OsgTask(**{"task": 0, **options})  # type: ignore[arg-type]


def test_times_must_fit_the_keys() -> None:
    with pytest.raises(ConfigError, match=r"grouping\.osg\.seconds"):
        OsgTask(0).executed_many([1, 2], [0.1])
    with pytest.raises(ConfigError, match=r"grouping\.osg\.seconds"):
        OsgTask(0).executed(1, -0.1)
