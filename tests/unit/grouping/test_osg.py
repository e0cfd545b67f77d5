import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import HashFamily, Osg, OsgTask, SchedulerPhase, Shuffle, Sketches, SyncReply

FAMILY = HashFamily.for_precision()


def sketches_of(times: dict[int, float], times_each: int = 4) -> Sketches:
    sketches = Sketches.empty(FAMILY)
    for key, seconds in times.items():
        for row, column in enumerate(FAMILY.buckets([key])[:, 0]):
            sketches.counts[row, column] += times_each
            sketches.seconds[row, column] += times_each * seconds
    return sketches


def learnt(*times: dict[int, float]) -> Osg:
    osg = Osg(len(times))
    for task, each in enumerate(times):
        osg.learn(task, sketches_of(each))
    return osg


def running(*times: dict[int, float]) -> Osg:
    """Return a scheduler in RUN with all loads 0: the tasks had executed nothing when they replied."""
    osg = learnt(*times)
    osg.assign(np.zeros(osg.replicas, dtype=np.int64))
    for request in osg.take_requests():
        osg.synchronise(SyncReply(request.task, request.epoch, -request.estimated_s))
    return osg


def test_d4_round_robin_until_every_task_has_sent_sketches() -> None:
    osg = Osg(3)
    osg.learn(0, sketches_of({1: 0.1}))
    osg.learn(2, sketches_of({1: 0.1}))
    osg.learn(2, sketches_of({1: 0.2}))
    assert osg.phase is SchedulerPhase.ROUND_ROBIN
    assert osg.assign(np.ones(4, dtype=np.int64)).replicas.tolist() == [0, 1, 2, 0]
    assert osg.loads == (0.0, 0.0, 0.0) and osg.take_requests() == ()
    osg.learn(1, sketches_of({1: 0.1}))
    assert osg.phase is SchedulerPhase.SEND_ALL


def test_d4_send_all_asks_each_task_in_turn_with_its_estimated_load() -> None:
    osg = learnt({1: 0.5}, {1: 0.25})
    assert osg.route(1) == (0,)
    assert osg.phase is SchedulerPhase.SEND_ALL
    assert osg.take_requests() == ((0, 1, 0.5),)
    assert osg.route(1) == (1,)
    assert osg.phase is SchedulerPhase.WAIT_ALL
    assert osg.take_requests() == ((1, 1, 0.25),)
    assert osg.take_requests() == ()


def test_d4_wait_all_schedules_greedily_until_all_replied_then_loads_are_corrected() -> None:
    osg = learnt({1: 0.5}, {1: 0.25})
    osg.assign(np.ones(2, dtype=np.int64))
    osg.take_requests()
    osg.synchronise(SyncReply(0, 1, 2.0))
    assert osg.route(1) == (1,)  # 0.25 is less than 0.5, and no correction is applied yet
    assert osg.loads == (0.5, 0.5) and osg.phase is SchedulerPhase.WAIT_ALL
    osg.synchronise(SyncReply(1, 1, -0.125))
    assert osg.phase is SchedulerPhase.RUN
    assert osg.loads == (2.5, 0.375)


def test_d4_run_sends_to_the_least_loaded_and_raises_its_load_by_the_estimate() -> None:
    # Key 1 costs 0.5, key 2 0.125 on both tasks. Loads after each: (.5, 0) (.5, .125) (.5, .25) (.5, .75) (.625, .75)
    osg = running({1: 0.5, 2: 0.125}, {1: 0.5, 2: 0.125})
    assert osg.assign(np.array([1, 2, 2, 1, 2])).replicas.tolist() == [0, 1, 1, 1, 0]
    assert osg.loads == (0.625, 0.75)


def test_d4_estimates_differ_by_task() -> None:
    osg = running({1: 1.0}, {1: 0.25})
    assert osg.assign(np.ones(6, dtype=np.int64)).replicas.tolist() == [0, 1, 1, 1, 1, 0]


def test_d4_estimate_comes_from_the_row_of_least_frequency() -> None:
    family = HashFamily(2, 2, seed=0)
    column = family.buckets([1])[:, 0]
    counts, seconds = np.ones((2, 2)), np.ones((2, 2))
    counts[0, column[0]], seconds[0, column[0]] = 10.0, 1.0  # shared with other keys: mean 0.1
    counts[1, column[1]], seconds[1, column[1]] = 4.0, 3.0  # fewer, so nearer to the key alone: mean 0.75
    osg = Osg.with_family(1, family)
    osg.learn(0, Sketches(family, counts, seconds))
    osg.route(1)
    assert osg.loads == (0.75,)


def test_d4_rows_of_equal_frequency_give_the_estimate_of_the_first() -> None:
    family = HashFamily(2, 1)
    osg = Osg.with_family(1, family)
    osg.learn(0, Sketches(family, np.array([[4.0], [4.0]]), np.array([[1.0], [2.0]])))
    osg.route(1)
    assert osg.loads == (0.25,)


def test_an_unseen_key_is_estimated_by_the_mean_of_the_task() -> None:
    osg = running({1: 0.5, 2: 0.25})
    unseen = next(key for key in range(3, 100) if sketches_of({1: 1, 2: 1}).counts[0, FAMILY.buckets([key])[0, 0]] == 0)
    osg.route(unseen)
    assert osg.loads == (0.375,)


def test_times_of_nothing_end_in_round_robin() -> None:
    assert running({1: 0.0}, {1: 0.0}).assign(np.ones(4, dtype=np.int64)).replicas.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize("sent", [0, 1, 2, 5])
def test_d4_new_sketches_lead_back_to_send_all_from_any_later_state(sent: int) -> None:
    osg = learnt({1: 0.5}, {1: 0.5})
    osg.assign(np.ones(sent, dtype=np.int64))
    osg.learn(1, sketches_of({1: 0.75}))
    assert osg.phase is SchedulerPhase.SEND_ALL and osg.epoch == 2
    assert osg.assign(np.ones(2, dtype=np.int64)).replicas.tolist() == [0, 1]
    assert [request.epoch for request in osg.take_requests()] == [2, 2]


def test_d4_replies_of_former_epochs_and_late_duplicates_are_ignored() -> None:
    osg = learnt({1: 0.5}, {1: 0.5})
    osg.learn(0, sketches_of({1: 0.5}))
    osg.assign(np.ones(2, dtype=np.int64))
    for task in (0, 1):
        osg.synchronise(SyncReply(task, 1, 99.0))
    assert osg.phase is SchedulerPhase.WAIT_ALL and osg.loads == (0.5, 0.5)
    for task in (0, 1, 0):
        osg.synchronise(SyncReply(task, 2, 1.0))
    assert osg.phase is SchedulerPhase.RUN and osg.loads == (1.5, 1.5)


def test_requests_taken_after_a_batch_hold_the_load_of_the_whole_batch() -> None:
    # Task 0 executes all it was sent, then replies: an exact estimate must give a difference of 0.
    osg = learnt({1: 0.5}, {1: 0.5})
    chosen = osg.assign(np.ones(7, dtype=np.int64)).replicas
    for request in osg.take_requests():
        task = OsgTask(request.task)
        task.executed_many(
            np.ones((chosen == request.task).sum(), dtype=np.int64), [0.5] * (chosen == request.task).sum()
        )
        assert task.reply(request).delta_s == 0.0


def test_rescaling_keeps_survivors_and_lends_their_sketches_to_new_tasks() -> None:
    osg = running({1: 0.5}, {1: 0.25})
    osg.assign(np.ones(6, dtype=np.int64))  # loads: 1.0, 1.0
    grown = osg.rescale(3)
    assert grown.phase is SchedulerPhase.SEND_ALL and grown.loads == (*osg.loads, min(osg.loads))
    start = grown.loads[2]
    grown.assign(np.ones(3, dtype=np.int64))
    assert grown.loads[2] == start + 0.375  # the mean of both tasks, as each counted the key as often
    request = grown.take_requests()[2]
    assert request.estimated_s == pytest.approx(0.375)  # a new task knows nothing of the time before it joined


def test_a_new_task_does_not_get_everything_until_it_caught_up() -> None:
    osg = running({1: 0.5}, {1: 0.5})
    osg.assign(np.ones(1000, dtype=np.int64))
    grown = osg.rescale(3)
    first = grown.assign(np.ones(3, dtype=np.int64)).replicas
    for request in grown.take_requests():
        grown.synchronise(SyncReply(request.task, request.epoch, 0.0))
    chosen = np.concatenate([first, grown.assign(np.ones(297, dtype=np.int64)).replicas])
    assert np.abs(np.bincount(chosen) - 100).max() <= 1


def test_shrinking_drops_the_last_tasks_and_asks_again() -> None:
    osg = running({1: 0.5}, {1: 0.25}, {1: 0.125})
    shrunk = osg.rescale(1)
    assert shrunk.phase is SchedulerPhase.SEND_ALL and shrunk.loads == osg.loads[:1]
    assert shrunk.epoch == osg.epoch + 1


def test_rescaling_in_round_robin_waits_for_the_tasks_that_are_missing() -> None:
    osg = Osg(3)
    osg.learn(0, sketches_of({1: 0.5}))
    assert osg.rescale(4).phase is SchedulerPhase.ROUND_ROBIN
    assert osg.rescale(1).phase is SchedulerPhase.SEND_ALL  # the only task left has sent its sketches


def test_sketches_must_be_of_the_same_hash_functions() -> None:
    with pytest.raises(ConfigError, match=r"grouping\.osg\.sketches.*same epsilon, delta and seed"):
        Osg(1, seed=1).learn(0, Sketches.empty(HashFamily.for_precision(seed=2)))
    with pytest.raises(ConfigError, match=r"grouping\.osg\.task"):
        Osg(1).learn(1, Sketches.empty(FAMILY))
    with pytest.raises(ConfigError, match=r"grouping\.osg\.task"):
        Osg(1).synchronise(SyncReply(1, 0, 0.0))


def closed_loop(grouping: Osg | Shuffle, keys: np.ndarray, cost_s: np.ndarray) -> np.ndarray:
    """Run tasks on what they are sent, each message delivered at once; return the work each task did."""
    tasks = [OsgTask(task, FAMILY, window=200, tolerance=0.2) for task in range(grouping.replicas)]
    for key in keys.tolist():
        (chosen,) = grouping.route(key)
        sketches = tasks[chosen].executed(key, cost_s[key])
        if isinstance(grouping, Osg):
            if sketches is not None:
                grouping.learn(chosen, sketches)
            for request in grouping.take_requests():
                grouping.synchronise(tasks[request.task].reply(request))
    return np.array([task.cumulated_s for task in tasks])


def test_d4_balances_work_that_depends_on_values_better_than_round_robin() -> None:
    rng = np.random.default_rng(8)
    keys = rng.integers(0, 64, 12_000)
    keys[::5] = 63  # every fifth tuple is the most expensive one: with 5 tasks, round robin sends all to one task
    cost_s = (1.0 + np.arange(64)) / 1000
    even, osg = closed_loop(Shuffle(5), keys, cost_s), Osg(5)
    balanced = closed_loop(osg, keys, cost_s)
    assert osg.phase is not SchedulerPhase.ROUND_ROBIN and osg.epoch > 1
    assert even.max() / even.mean() > 1.5
    assert balanced.max() / balanced.mean() < 1.1


class TestBarrier:
    """Senders that begin together on idle tasks, as the tasks of a batch do."""

    def test_longest_first_fills_the_gaps(self) -> None:
        # Four short tuples before a long one: in that order two tasks end at 2 and 6, longest first at 4 and 4.
        osg = learnt({1: 1.0, 2: 4.0}, {1: 1.0, 2: 4.0}).at_barrier(0)
        keys = np.array([1, 1, 1, 1, 2])
        replicas = osg.assign_together(keys).replicas
        assert replicas[4] == 0
        assert replicas[:4].tolist() == [1, 1, 1, 1]
        assert osg.loads == pytest.approx((4.0, 4.0))

    def test_one_by_one_keeps_the_order(self) -> None:
        osg = learnt({1: 1.0, 2: 4.0}, {1: 1.0, 2: 4.0}).at_barrier(0)
        assert osg.assign(np.array([1, 1, 1, 1, 2])).replicas.tolist() == [0, 1, 0, 1, 0]

    def test_nobody_is_asked_and_no_load_is_left(self) -> None:
        used = running({1: 1.0}, {1: 1.0})
        used.assign(np.ones(5, dtype=np.int64))
        fresh = used.at_barrier(0)
        assert fresh.phase is SchedulerPhase.RUN
        assert fresh.take_requests() == ()
        assert max(fresh.loads) < 1e-6
        assert max(used.loads) == pytest.approx(3.0)

    @pytest.mark.parametrize("known", [True, False])
    def test_senders_begin_at_different_tasks(self, known: bool) -> None:
        osg = learnt({1: 1.0}, {1: 1.0}, {1: 1.0}) if known else Osg(3)
        firsts = [osg.at_barrier(sender).route(1) for sender in range(3)]
        assert firsts == [(0,), (1,), (2,)]
