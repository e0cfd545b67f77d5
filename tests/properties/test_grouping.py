"""What holds for groupings whatever the input."""

import json

import numpy as np
import pyarrow as pa
from drawing import examples
from hypothesis import example, given
from hypothesis import strategies as st

from foretide.grouping import (
    GROUPINGS,
    CountMin,
    Dynamic,
    HashFamily,
    LoadAware,
    Ring,
    grouping_from_state,
    hash_columns,
    make_grouping,
)
from foretide.grouping.ring import apportion

KEY = st.integers(-(2**63), 2**63 - 1)
KEYS = st.lists(KEY, max_size=60)
NAME = st.sampled_from([name for name in GROUPINGS if name != "direct"])
REPLICAS = st.integers(1, 20)
WEIGHT = st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.integers(1, 12).map(float))
WEIGHTS = st.lists(WEIGHT, min_size=1, max_size=12).filter(any)


def array(keys: list[int]) -> np.ndarray:
    return np.array(keys, dtype=np.int64)


@given(NAME, REPLICAS, KEYS)
def test_a_grouping_sends_to_exactly_the_replicas_it_promises(name: str, replicas: int, keys: list[int]) -> None:
    grouping = make_grouping(name, replicas)
    rows, chosen = grouping.assign(array(keys))
    assert all(0 <= replica < replicas for replica in chosen.tolist())
    if grouping.multicast:
        assert rows is not None
        pairs = sorted(zip(rows.tolist(), chosen.tolist(), strict=True))
        assert pairs == [(row, replica) for row in range(len(keys)) for replica in range(replicas)]
        return
    assert rows is None and len(chosen) == len(keys)
    if not grouping.splits_keys:
        assert len(set(zip(keys, chosen.tolist(), strict=True))) == len(set(keys))


@given(NAME, REPLICAS, KEYS, st.integers(0, 60))
def test_routing_is_assigning_and_states_carry_on(name: str, replicas: int, keys: list[int], cut: int) -> None:
    grouping = make_grouping(name, replicas)
    first = [grouping.route(key) for key in keys[:cut]]
    moved = grouping_from_state(json.loads(json.dumps(grouping.state())))
    second = moved.assign(array(keys[cut:])).replicas.tolist()
    whole = make_grouping(name, replicas).assign(array(keys)).replicas.tolist()
    assert [replica for each in first for replica in each] + second == whole


@given(NAME, REPLICAS, REPLICAS, KEYS)
def test_rescaling_stays_in_range(name: str, before: int, after: int, keys: list[int]) -> None:
    grouping = make_grouping(name, before)
    grouping.assign(array(keys))
    chosen = grouping.rescale(after).assign(array(keys)).replicas
    assert all(0 <= replica < after for replica in chosen.tolist())


@given(st.integers(0, 1000), st.lists(st.integers(0, 5), max_size=80))
def test_direct_sends_to_the_replica_named(extra: int, keys: list[int]) -> None:
    assert make_grouping("direct", 6 + extra).assign(array(keys)).replicas.tolist() == keys


@given(WEIGHTS, st.integers(1, 200))
@example([1.9] * 10 + [45.0], 64)  # the last task's exact count is 45, and Webster's method gives it 44
def test_i1_apportionment_deals_seat_after_seat_to_the_highest_claim(weights: list[float], seats: int) -> None:
    counts = [0] * len(weights)
    for _ in range(seats):
        claims = [weight / (2 * count + 1) for weight, count in zip(weights, counts, strict=True)]
        counts[claims.index(max(claims))] += 1
    assert apportion(weights, seats).tolist() == counts


@given(WEIGHTS, st.integers(4, 12))
def test_i1_sequential_ids_get_their_shares_within_rounding(weights: list[float], m: int) -> None:
    counts = np.bincount(Dynamic(len(weights), weights=weights, m=m).table(m), minlength=len(weights))
    shares = np.array(weights) / sum(weights)
    # The bound of Webster's method; see `apportion`.
    assert (np.abs(counts - shares * 2**m) <= 0.5 + shares * len(weights) / 2 + 1e-6).all()
    assert counts[np.array(weights) == 0].sum() == 0


@given(WEIGHTS, WEIGHTS, st.integers(4, 10))
def test_i1_a_change_of_ratio_moves_no_more_than_the_changed_share(a: list[float], b: list[float], m: int) -> None:
    before = Ring.for_weights(a, m)
    after = before.rebalanced(b)
    tasks = max(len(a), len(b))
    old, new = (np.bincount(ring.table, minlength=tasks) for ring in (before, after))
    assert new.tolist()[: len(b)] == apportion(b, 2**m).tolist()
    assert (before.table != after.table).sum() == np.maximum(new - old, 0).sum()


@given(WEIGHTS.filter(lambda weights: sum(map(bool, weights)) > 1), st.data(), st.integers(4, 10))
def test_i1_disabling_a_task_moves_only_that_tasks_share(weights: list[float], data: st.DataObject, m: int) -> None:
    task = data.draw(st.sampled_from([task for task, weight in enumerate(weights) if weight]))
    before = Dynamic(len(weights), weights=weights, m=m)
    old, new = before.table(m), before.without(task).table(m)
    assert (old[old != new] == task).all()
    assert not (new == task).any()


@given(st.sets(st.integers(0, 31), min_size=1), st.data())
def test_i1_an_id_goes_to_the_first_assigned_identifier_at_or_after_it(places: set[int], data: st.DataObject) -> None:
    owners = {place: data.draw(st.integers(0, 3)) for place in sorted(places)}
    ring = Ring(5, [[place for place, owner in owners.items() if owner == task] for task in range(4)])
    key = data.draw(KEY)
    place = key % 32
    while place not in owners:
        place = (place + 1) % 32
    assert ring.owner(key) == owners[place]


@given(st.lists(st.tuples(KEY, st.integers(0, 1000)), min_size=1, max_size=100), st.integers(0, 2**64 - 1))
def test_d4_count_min_never_underestimates(updates: list[tuple[int, int]], seed: int) -> None:
    sketch = CountMin(HashFamily(3, 7, seed))
    sketch.add(*(list(each) for each in zip(*updates, strict=True)))
    truth: dict[int, int] = {}
    for key, amount in updates:
        truth[key] = truth.get(key, 0) + amount
    estimates = sketch.estimate(list(truth))
    assert all(estimate >= true for estimate, true in zip(estimates, truth.values(), strict=True))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 200))
def test_p3_utilisations_never_fall_and_never_exceed_1(levels: list[float], tuples: int) -> None:
    grouping = LoadAware(len(levels), execution_s=0.01, td_s=1.0, utilisations=levels)
    grouping.assign(np.arange(tuples))
    assert all(old <= new <= 1.0 for old, new in zip(levels, grouping.utilisations, strict=True))


VALUES = st.one_of(
    st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=30).map(lambda v: pa.array(v, pa.string())),
    st.lists(st.one_of(st.none(), KEY), max_size=30).map(lambda v: pa.array(v, pa.int64())),
    st.lists(st.one_of(st.none(), st.floats()), max_size=30).map(lambda v: pa.array(v, pa.float64())),
    st.lists(st.one_of(st.none(), st.booleans()), max_size=30).map(lambda v: pa.array(v, pa.bool_())),
    st.lists(st.one_of(st.none(), KEY), max_size=30).map(lambda v: pa.array(v, pa.timestamp("us"))),
)


@examples(2)
@given(VALUES, st.integers(0, 30), st.integers(0, 30))
def test_hashes_do_not_depend_on_chunks_or_neighbours(column: pa.Array, a: int, b: int) -> None:
    low, high = sorted((min(a, len(column)), min(b, len(column))))
    pieces = [column[:low], column[low:high], column[high:]]
    whole = hash_columns([column]).tolist()
    assert hash_columns([pa.chunked_array(pieces)]).tolist() == whole
    assert [key for piece in pieces for key in hash_columns([piece]).tolist()] == whole
    assert hash_columns([column.dictionary_encode()]).tolist() == whole


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=30))
def test_hashes_do_not_depend_on_the_width_of_integers(values: list[int]) -> None:
    keys = {tuple(hash_columns([np.array(values, dtype=kind)]).tolist()) for kind in (np.int32, np.int64, np.float64)}
    assert len(keys) == 1
