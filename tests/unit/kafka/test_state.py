"""What the control topic adds up to, in whatever order and however often records come."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from foretide.kafka.state import ControlState
from foretide.transport import Block, SegmentInfo


def info(name: str, rows: int, end: int) -> SegmentInfo:
    return SegmentInfo(name, rows, 10 * rows, 0, (Block(rows, end, 7),))


def batch(batch_id: int, *segments: SegmentInfo, stage: str = "s") -> dict[str, object]:
    return {"kind": "batch", "stage": stage, "batch_id": batch_id, "segments": [part.to_json() for part in segments]}


def test_of_two_records_for_one_batch_the_first_counts() -> None:
    state = ControlState()
    state.add(batch(0, info("t:0:a", 3, 1)))
    state.add(batch(0, info("t:0:b", 5, 2)))
    assert state.end_offset == 3
    assert [part.segments[0].name for part in state.held] == ["t:0:a"]


def test_a_batch_below_the_last_one_does_not_count() -> None:
    state = ControlState()
    state.add(batch(5, info("t:0:a", 3, 1)))
    state.add(batch(3, info("t:0:b", 5, 2)))
    assert (state.end_offset, state.known("s", 3)) == (3, None)


def test_what_is_not_consumed_holds_back_what_may_be_deleted() -> None:
    state = ControlState()
    state.add({"kind": "register", "reader": "r", "at_end": False})
    state.add(batch(0, info("t:0:a", 3, 11), info("t:1:b", 2, 4)))
    state.add(batch(1, info("t:0:c", 3, 12)))
    state.add({"kind": "commit", "reader": "r", "offset": 5})
    assert state.deletable() == {("t", 0): 11, ("t", 1): 4}
    state.add({"kind": "commit", "reader": "r", "offset": 8})
    assert state.deletable() == {("t", 0): 12, ("t", 1): 4}


def test_a_reader_that_nobody_registered_commits_nothing() -> None:
    state = ControlState()
    state.add({"kind": "commit", "reader": "r", "offset": 5})
    assert state.readers == {}


records = st.one_of(
    st.builds(
        lambda stage, batch_id, rows, end: batch(batch_id, info("t:0:x", rows, end), stage=stage),
        st.sampled_from(["a", "b"]),
        st.integers(0, 9),
        st.integers(1, 5),
        st.integers(1, 99),
    ),
    st.builds(
        lambda reader, at_end: {"kind": "register", "reader": reader, "at_end": at_end},
        st.sampled_from(["x", "y"]),
        st.booleans(),
    ),
    st.builds(
        lambda reader, offset: {"kind": "commit", "reader": reader, "offset": offset},
        st.sampled_from(["x", "y"]),
        st.integers(0, 30),
    ),
    st.builds(lambda reader: {"kind": "unregister", "reader": reader}, st.sampled_from(["x", "y"])),
)


@given(st.lists(records, max_size=30), st.lists(records, max_size=10))
def test_going_on_from_a_sum_is_like_having_read_all(
    before: list[dict[str, object]], after: list[dict[str, object]]
) -> None:
    whole = ControlState()
    for record in before:
        whole.add(record)
    resumed = ControlState.from_json(json.loads(json.dumps(whole.to_json())))
    assert resumed == whole
    for record in after:
        whole.add(record)
        resumed.add(record)
    assert resumed == whole
