"""What every log between stages promises; add an implementation to LOGS and it is held to all of it."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from object_stores import keep_in_memory

from foretide.kafka import Broker, KafkaLog, KafkaLogSettings
from foretide.transport import ArrowLog, ArrowLogSettings, BatchOrderError, Log, OffsetError, SegmentInfo, split

Opener = Callable[[], Log]


def arrow_log(directory: Path) -> Log:
    return ArrowLog(directory / "log", edge="a->b", settings=ArrowLogSettings(fsync=False))


def compressed_arrow_log(directory: Path) -> Log:
    settings = ArrowLogSettings(fsync=False, compression="lz4")
    return ArrowLog(directory / "log", edge="a->b", settings=settings)


def object_log(directory: Path) -> Log:
    return ArrowLog(f"s3://memory/{directory.name}/log", edge="a->b")


LOGS: dict[str, Callable[[Path], Log]] = {
    "arrow": arrow_log,
    "arrow-lz4": compressed_arrow_log,
    "arrow-objects": object_log,
}


@pytest.fixture(
    params=[
        *sorted(LOGS),
        pytest.param("arrow-s3", marks=pytest.mark.slow),
        pytest.param("kafka", marks=pytest.mark.kafka),
    ]
)
def open_log(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Opener]:
    """Return a function that opens the same log again, as another process would."""
    if request.param == "arrow-s3":
        request.getfixturevalue("s3")
        place = f"s3://runs/{uuid.uuid4().hex}"
        yield lambda: ArrowLog(place, edge="a->b")
        return
    if request.param != "kafka":
        keep_in_memory(monkeypatch)
        yield lambda: LOGS[request.param](tmp_path)
        return
    broker: Broker = request.getfixturevalue("kafka")
    settings, name = KafkaLogSettings(broker.servers, partitions=2, patience_s=20.0), f"contract-{uuid.uuid4().hex[:8]}"
    yield lambda: KafkaLog(name, settings, edge="a->b")
    KafkaLog(name, settings).delete()


def rows(first: int, count: int) -> pa.RecordBatch:
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.record_batch({"id": ids, "text": pa.array([f"row {i}" for i in range(first, first + count)])})


def put(log: Log, batch_id: int, *batches: pa.RecordBatch, stage: str = "s") -> list[SegmentInfo | None]:
    writer = log.begin(stage, batch_id)
    infos = [writer.segment_writer().write([batch]) for batch in batches]
    writer.commit(infos)
    return infos


def ids(log: Log, start: int, end: int, max_rows: int = 10_000) -> list[int]:
    found: list[int] = []
    for piece in log.segments(start, end):
        for batch in log.read(piece, max_rows):
            assert 0 < batch.num_rows <= max_rows
            assert batch["text"].to_pylist() == [f"row {i}" for i in batch["id"].to_pylist()]
            found += batch["id"].to_pylist()
    return found


def test_committed_rows_are_read_in_commit_order(open_log: Opener) -> None:
    log = open_log()
    put(log, 0, rows(0, 3), rows(3, 2))
    put(log, 1, rows(5, 4))
    reader = open_log()
    assert (reader.first_offset(), reader.end_offset()) == (0, 9)
    assert ids(reader, 0, 9) == list(range(9))
    assert ids(reader, 2, 6) == [2, 3, 4, 5]
    assert ids(reader, 4, 4) == []


def test_one_that_looks_for_news_sees_what_came_and_what_came_and_went(open_log: Opener) -> None:
    log, looking = open_log(), open_log()
    log.register("r")
    assert looking.end_beyond(0) == 0
    put(log, 0, rows(0, 3))
    assert looking.end_beyond(0) == 3
    put(log, 1, rows(3, 3))
    put(log, 2, rows(6, 3))
    log.commit("r", 9)
    assert looking.end_beyond(9) == 9
    put(log, 3, rows(9, 2))
    log.commit("r", 11)
    put(log, 4, rows(11, 2))
    assert looking.end_beyond(11) == 13
    assert ids(looking, 11, 13) == [11, 12]


def test_a_reader_sees_later_commits_of_another_instance(open_log: Opener) -> None:
    reader, log = open_log(), open_log()
    assert reader.end_offset() == 0
    put(log, 0, rows(0, 3))
    assert reader.end_offset() == 3
    put(log, 1, rows(3, 1))
    assert ids(reader, 0, 4) == [0, 1, 2, 3]


def test_rows_are_invisible_before_the_commit(open_log: Opener) -> None:
    log = open_log()
    writer = log.begin("s", 0)
    info = writer.segment_writer().write([rows(0, 3)])
    assert open_log().end_offset() == 0
    commit = writer.commit([info])
    assert (commit.base_offset, commit.rows, commit.end_offset) == (0, 3, 3)
    assert open_log().end_offset() == 3


def test_a_repeated_commit_returns_the_first(open_log: Opener) -> None:
    log = open_log()
    first = log.begin("s", 0)
    commit = first.commit([first.segment_writer().write([rows(0, 3)])])
    again = open_log().begin("s", 0)
    assert again.committed == commit
    assert again.commit([again.segment_writer().write([rows(100, 7)])]) == commit
    assert ids(log, 0, log.end_offset()) == [0, 1, 2]


def test_repeating_the_very_same_commit_keeps_its_rows(open_log: Opener) -> None:
    log = open_log()
    writer = log.begin("s", 0)
    info = writer.segment_writer().write([rows(0, 3)])
    assert writer.commit([info]) == writer.commit([info])
    assert ids(log, 0, log.end_offset()) == [0, 1, 2]


def test_two_writers_of_one_batch_agree_on_one_result(open_log: Opener) -> None:
    one, two = open_log().begin("s", 0), open_log().begin("s", 0)
    infos = one.segment_writer().write([rows(0, 2)]), two.segment_writer().write([rows(50, 2)])
    winner = two.commit([infos[1]])
    assert one.commit([infos[0]]) == winner
    assert ids(open_log(), 0, 2) == [50, 51]


def test_stages_have_their_own_batch_ids(open_log: Opener) -> None:
    log = open_log()
    put(log, 0, rows(0, 2), stage="left/branch")
    put(log, 0, rows(2, 2), stage="right branch")
    assert ids(log, 0, 4) == [0, 1, 2, 3]


def test_a_batch_id_must_not_fall(open_log: Opener) -> None:
    log = open_log()
    put(log, 5, rows(0, 2))
    with pytest.raises(BatchOrderError, match=r"stage 's' above 5.*got 3"):
        log.begin("s", 3)


def test_a_repeat_of_a_consumed_batch_changes_nothing(open_log: Opener) -> None:
    log = open_log()
    log.register("r")
    put(log, 0, rows(0, 2))
    put(log, 1, rows(2, 2))
    log.commit("r", 4)
    other = open_log()
    for batch_id in (0, 1):
        writer = other.begin("s", batch_id)
        assert writer.committed is not None and writer.committed.retired
        writer.commit([writer.segment_writer().write([rows(70, 3)])])
    assert other.end_offset() == 4
    put(other, 2, rows(4, 1))
    assert ids(log, 4, 5) == [4]


def test_an_empty_batch_is_committed_and_remembered(open_log: Opener) -> None:
    log = open_log()
    writer = log.begin("s", 0)
    assert writer.segment_writer().write([rows(0, 0)]) is None
    assert writer.commit([None]).rows == 0
    assert open_log().begin("s", 0).committed is not None
    put(log, 1, rows(0, 2))
    assert ids(log, 0, 2) == [0, 1]


def test_an_aborted_batch_leaves_nothing_and_can_be_run_again(open_log: Opener) -> None:
    log = open_log()
    writer = log.begin("s", 0)
    writer.abort([writer.segment_writer().write([rows(90, 3)]), None])
    put(log, 0, rows(0, 3))
    assert ids(log, 0, 3) == [0, 1, 2]


def test_an_abort_after_the_commit_removes_nothing(open_log: Opener) -> None:
    log = open_log()
    infos = put(log, 0, rows(0, 3))
    log.begin("s", 0).abort(infos)
    assert ids(log, 0, 3) == [0, 1, 2]


def test_tasks_need_only_what_can_be_pickled(open_log: Opener) -> None:
    log = open_log()
    writer = log.begin("s", 0)
    task = pickle.loads(pickle.dumps(writer.segment_writer(rows(0, 1).schema)))
    info = pickle.loads(pickle.dumps(task.write([rows(0, 3), rows(3, 3)])))
    assert SegmentInfo.from_json(info.to_json()) == info
    writer.commit([info])
    pieces = pickle.loads(pickle.dumps(log.segments(1, 5)))
    found = [i for piece in pieces for batch in log.read(piece) for i in batch["id"].to_pylist()]
    assert found == [1, 2, 3, 4]


def test_a_log_can_be_pickled_and_opened_elsewhere(open_log: Opener) -> None:
    log = open_log()
    put(log, 0, rows(0, 3))
    assert ids(pickle.loads(pickle.dumps(log)), 0, 3) == [0, 1, 2]


def test_a_segment_can_be_written_batch_by_batch(open_log: Opener) -> None:
    log = open_log()
    writer = log.begin("s", 0)
    kept, dropped = writer.segment_writer().open(), writer.segment_writer().open()
    for first in range(0, 10, 2):
        kept.append(rows(first, 2))
        dropped.append(rows(first, 2))
    dropped.discard()
    writer.commit([kept.close()])
    assert ids(log, 0, 10) == list(range(10))


@pytest.mark.parametrize("slices", [1, 2, 3, 7, 40])
def test_slices_cover_every_row_once_in_nearly_equal_parts(open_log: Opener, slices: int) -> None:
    log = open_log()
    put(log, 0, rows(0, 3), rows(3, 11))
    put(log, 1, rows(14, 5))
    runs = split(log.segments(1, 19), slices)
    sizes = [sum(piece.rows for piece in run) for run in runs]
    assert len(runs) == min(slices, 18) and max(sizes) - min(sizes) <= 1
    found = [i for run in runs for piece in run for batch in log.read(piece) for i in batch["id"].to_pylist()]
    assert found == list(range(1, 19))


def test_a_large_segment_is_read_in_small_batches(open_log: Opener) -> None:
    log = open_log()
    put(log, 0, rows(0, 40_000))
    assert ids(log, 16_000, 33_000, max_rows=999) == list(range(16_000, 33_000))


def test_two_pieces_are_read_by_turns(open_log: Opener) -> None:
    log = open_log()
    writer = log.begin("s", 0)
    # Many blocks: a reader of Kafka has some of them at hand before it gives out the first.
    infos = [writer.segment_writer().write([rows(first, 10_000)] * 40) for first in (0, 10_000)]
    writer.commit(infos)
    found: list[list[int]] = [[], []]
    for batches in zip(*(log.read(piece) for piece in log.segments(0, 800_000)), strict=True):
        for part, batch in zip(found, batches, strict=True):
            part.append(batch["id"][0].as_py())
    assert found == [[0] * 40, [10_000] * 40]


def test_threads_of_one_process_have_a_log_each(open_log: Opener) -> None:
    log = open_log()
    for batch_id in range(20):
        put(log, batch_id, rows(batch_id, 1))

    def look(offset: int) -> tuple[int, list[int]]:
        log = open_log()
        return log.end_offset(), ids(log, offset, offset + 1)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(look, range(20))) == [(20, [offset]) for offset in range(20)]


def test_a_reader_starts_at_the_first_row_or_at_the_end(open_log: Opener) -> None:
    log = open_log()
    put(log, 0, rows(0, 3))
    assert log.register("early") == 0
    assert log.register("late", at_end=True) == 3
    assert (log.backlog("early"), log.backlog("late")) == (3, 0)
    assert open_log().register("late") == 3


def test_commits_of_a_reader_only_move_forward(open_log: Opener) -> None:
    log = open_log()
    log.register("r")
    put(log, 0, rows(0, 3))
    log.commit("r", 2)
    log.commit("r", 1)
    assert open_log().committed("r") == 2
    assert open_log().backlog("r") == 1


def test_rows_are_kept_for_the_slowest_reader(open_log: Opener) -> None:
    log = open_log()
    log.register("fast")
    log.register("slow")
    put(log, 0, rows(0, 3))
    put(log, 1, rows(3, 3))
    log.commit("fast", 6)
    assert ids(log, 0, 6) == list(range(6))
    log.commit("slow", 3)
    assert log.first_offset() == 3
    with pytest.raises(OffsetError, match="expected offsets within 3 to 6, got 2 to 6"):
        log.segments(2, 6)
    log.unregister("slow")
    assert log.first_offset() == 6


def test_offsets_that_the_log_never_had_are_refused(open_log: Opener) -> None:
    log = open_log()
    put(log, 0, rows(0, 3))
    with pytest.raises(OffsetError, match="expected offsets within 0 to 3, got 0 to 4"):
        log.segments(0, 4)
    with pytest.raises(OffsetError, match="expected a registered reader, got 'nobody'"):
        log.commit("nobody", 1)
    log.register("r")
    with pytest.raises(OffsetError, match="expected an offset up to 3 from reader 'r', got 4"):
        log.commit("r", 4)


@pytest.mark.parametrize(("stage", "batch_id"), [("", 0), ("s", -1)])
def test_a_batch_needs_a_stage_and_an_id(open_log: Opener, stage: str, batch_id: int) -> None:
    with pytest.raises(ValueError, match="a stage's name and a batch id of 0 or more"):
        open_log().begin(stage, batch_id)
