"""Events of a trace go to all partitions of the topic that a live stage reads instead."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from foretide.spark.live.trace_feed import messages_in_turn


@given(sizes=st.lists(st.integers(0, 5), max_size=30), partitions=st.integers(1, 7))
def test_partitions_get_alike_however_few_events_are_due_at_a_time(sizes: list[int], partitions: int) -> None:
    counts, first = Counter(dict.fromkeys(range(partitions), 0)), 0
    for size in sizes:
        batch = pa.record_batch({"id": pa.array(range(first, first + size), pa.int64())})
        for messages in messages_in_turn([batch], first, partitions):
            counts.update(messages["partition"].to_pylist())
        first += size
    assert counts.total() == sum(sizes)
    assert max(counts.values()) - min(counts.values()) <= 1


def test_batches_of_one_transaction_go_on_where_the_one_before_ended() -> None:
    batches = [pa.record_batch({"id": pa.array(ids, pa.int64())}) for ids in ([7, 8], [9])]
    found = [messages["partition"].to_pylist() for messages in messages_in_turn(batches, 7, 3)]
    assert found == [[1, 2], [0]]
