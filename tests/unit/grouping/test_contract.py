"""What every grouping promises, checked on every grouping in more than one state."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.grouping import (
    GROUPINGS,
    Dynamic,
    Grouping,
    LoadAware,
    Osg,
    OsgTask,
    Ring,
    SchedulerPhase,
    Shuffle,
    TableGrouping,
    grouping_from_state,
    make_grouping,
)


def osg_in(phase: SchedulerPhase) -> Osg:
    osg = Osg(4, seed=3)
    for number in range(4 if phase is not SchedulerPhase.ROUND_ROBIN else 2):
        task = OsgTask(number, osg.family, window=50, tolerance=1.0)
        keys = np.arange(100) % 7
        sketches = task.executed_many(keys, 0.01 * (1 + keys) * (1 + number))
        assert sketches is not None
        osg.learn(number, sketches)
    if phase in (SchedulerPhase.ROUND_ROBIN, SchedulerPhase.SEND_ALL):
        osg.assign(np.arange(2))
        return osg
    osg.assign(np.arange(4))
    if phase is SchedulerPhase.RUN:
        for request in osg.take_requests():
            osg.synchronise(OsgTask(request.task, osg.family).reply(request))
    return osg


MAKERS: dict[str, Callable[[], Grouping]] = {
    **{name: lambda name=name: make_grouping(name, 4) for name in GROUPINGS},
    **{f"{name} of one": lambda name=name: make_grouping(name, 1) for name in GROUPINGS if name != "direct"},
    "shuffle midway": lambda: Shuffle(4, start=3),
    "load-aware, loaded": lambda: LoadAware(4, execution_s=0.3, td_s=3.0, utilisations=[0.9, 0.2, 1.0, 0.55]),
    "dynamic, weighted": lambda: Dynamic(4, weights=[7, 3, 0, 2], m=5),
    "dynamic, with gaps": lambda: Dynamic.on_ring(Ring(4, [[3, 7], [0, 12], [5], [9]])),
    **{f"osg in {phase.value}": lambda phase=phase: osg_in(phase) for phase in SchedulerPhase},
}
KEYS = np.random.default_rng(11).integers(0, 4, 60)  # small enough to be replicas for `direct`, and to repeat


def those(condition: Callable[[Grouping], bool]) -> pytest.MarkDecorator:
    chosen = {name: make for name, make in MAKERS.items() if condition(make())}
    return pytest.mark.parametrize("make", chosen.values(), ids=chosen)


every = those(lambda grouping: True)


@every
def test_routing_one_by_one_is_assigning_the_array(make: Callable[[], Grouping]) -> None:
    one_by_one, at_once = make(), make()
    rows, replicas = at_once.assign(KEYS)
    routed = [one_by_one.route(int(key)) for key in KEYS]
    copies = [(row, replica) for row, chosen in enumerate(routed) for replica in chosen]
    rows = np.arange(len(KEYS)) if rows is None else rows
    assert copies == list(zip(rows.tolist(), replicas.tolist(), strict=True))
    assert one_by_one.state() == at_once.state()


@every
def test_array_in_pieces_is_array_in_one(make: Callable[[], Grouping]) -> None:
    whole, pieces = make(), make()
    expected = whole.assign(KEYS).replicas
    got = np.concatenate([pieces.assign(part).replicas for part in (KEYS[:1], KEYS[1:23], KEYS[23:23], KEYS[23:])])
    assert got.tolist() == expected.tolist()


@every
def test_replicas_are_those_promised(make: Callable[[], Grouping]) -> None:
    grouping = make()
    rows, replicas = grouping.assign(KEYS)
    assert replicas.dtype == np.int32
    assert replicas.min() >= 0 and replicas.max() < grouping.replicas
    assert (rows is not None) == grouping.multicast
    if grouping.multicast:
        assert rows is not None and rows.dtype == np.int64
        assert [replicas[rows == row].tolist() for row in range(3)] == [list(range(grouping.replicas))] * 3
    else:
        assert len(replicas) == len(KEYS)


@those(lambda grouping: not grouping.splits_keys)
def test_equal_keys_stay_together_unless_declared(make: Callable[[], Grouping]) -> None:
    grouping = make()
    first = {int(key): grouping.route(int(key)) for key in KEYS}
    assert all(grouping.route(int(key)) == first[int(key)] for key in KEYS)


@every
def test_state_survives_json_and_routes_alike(make: Callable[[], Grouping]) -> None:
    grouping = make()
    grouping.assign(KEYS[:17])
    restored = grouping_from_state(json.loads(json.dumps(grouping.state())))
    assert type(restored) is type(grouping) and restored == grouping
    assert restored.assign(KEYS).replicas.tolist() == grouping.assign(KEYS).replicas.tolist()
    assert restored.state() == grouping.state()


@every
def test_copy_is_independent(make: Callable[[], Grouping]) -> None:
    grouping = make()
    before = grouping.state()
    grouping.copy().assign(KEYS)
    assert grouping.state() == before


@every
@pytest.mark.parametrize("replicas", [1, 3, 4, 9])
def test_rescaled_grouping_stays_in_range_and_leaves_the_old_alone(make: Callable[[], Grouping], replicas: int) -> None:
    grouping = make()
    before = grouping.state()
    rescaled = grouping.rescale(replicas)
    assert type(rescaled) is type(grouping) and rescaled.replicas == replicas
    chosen = rescaled.assign(KEYS % replicas).replicas
    assert chosen.min() >= 0 and chosen.max() < replicas
    assert grouping.state() == before
    assert grouping_from_state(json.loads(json.dumps(rescaled.state()))) == rescaled


@those(lambda grouping: isinstance(grouping, TableGrouping))
def test_table_is_what_the_next_ids_get(make: Callable[[], Grouping]) -> None:
    grouping = make()
    assert isinstance(grouping, TableGrouping)
    before = grouping.state()
    table = grouping.table(12)
    assert table.dtype == np.int32 and table.shape == (4096,)
    assert grouping.state() == before
    assert table.tolist() == grouping.assign(np.arange(4096)).replicas.tolist()


@every
def test_no_tuples_change_nothing(make: Callable[[], Grouping]) -> None:
    grouping = make()
    before = grouping.state()
    assert grouping.assign(np.array([], dtype=np.int64)).replicas.tolist() == []
    assert grouping.state() == before


@every
@pytest.mark.parametrize("keys", [np.zeros((2, 2), dtype=np.int64), np.array([0.5]), np.array(["a"])])
def test_keys_must_be_a_row_of_integers(make: Callable[[], Grouping], keys: np.ndarray) -> None:
    with pytest.raises(ConfigError, match=r"grouping\.keys"):
        make().assign(keys)


@pytest.mark.parametrize("name", GROUPINGS)
@pytest.mark.parametrize("replicas", [0, -1, 1.5, True, "3"])
def test_replicas_must_be_a_positive_whole_number(name: str, replicas: object) -> None:
    with pytest.raises(ConfigError, match=r"grouping\.replicas"):
        make_grouping(name, replicas)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", GROUPINGS)
def test_every_grouping_describes_itself(name: str) -> None:
    kind = GROUPINGS[name]
    assert kind.name == name and kind.summary and kind.__doc__
    assert all(key[0] in "PIBD" and key[1:].isdigit() for key in kind.spec)


@pytest.mark.parametrize("name", GROUPINGS)
def test_a_state_with_missing_parts_is_a_config_error(name: str) -> None:
    with pytest.raises(ConfigError, match=f"grouping.{name}.state"):
        grouping_from_state({"grouping": name})


def test_groupings_of_different_kinds_or_states_differ() -> None:
    assert Shuffle(2) == Shuffle(2)
    assert Shuffle(2) != Shuffle(2, start=1)
    assert make_grouping("all", 2) != make_grouping("global", 2)
    assert Shuffle(2) != "shuffle"
