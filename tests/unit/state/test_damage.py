"""Files of a state that are cut short, or another's: views are made anew, and damage to the truth is told."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest
from counted_state import Counting, counted, expected, found

from foretide.errors import error_as_data, error_from_data
from foretide.state import view as views
from foretide.state.clock import Timing
from foretide.state.errors import DamagedStateError, DamagedViewError, StateError
from foretide.state.task import _made
from foretide.state.view import PartitionView

KEYS = list(range(10))


def forget() -> None:
    """Do as a worker that has just started: nothing is open, and nothing in mind."""
    for view in views._views.values():
        view.close()
    views._views.clear()
    _made.clear()


def files(root: Path) -> list[Path]:
    return sorted(root.rglob("data.mdb"))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_to_a_bit(path: Path) -> None:
    os.truncate(path, 100)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def scribble(path: Path) -> None:
    path.write_bytes(b"\x5a" * path.stat().st_size)


def spoil_lock(path: Path) -> None:
    path.with_name("lock.mdb").write_bytes(b"\x5a" * 8192)


@pytest.mark.parametrize("spoil", [cut, cut_to_a_bit, empty, scribble, spoil_lock])
@pytest.mark.parametrize("least_rows", [50, 10**6], ids=["snapshots", "changelog alone"])
def test_a_view_that_is_damaged_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None], least_rows: int
) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", least_rows)
    counting = counted(tmp_path)
    forget()
    for path in files(tmp_path / "views"):
        spoil(path)
    assert counting.run(KEYS, tasks=3) == dict.fromkeys(KEYS, 30)
    assert counting.run([*KEYS, 101]) == dict.fromkeys(KEYS, 31) | {101: 1}
    # What was damaged is not kept.
    assert all(folder.name.isdigit() for folder in (tmp_path / "views" / "r1" / "count").iterdir())


def at_first_damaged(use: Callable[..., object], broken: set[Path]) -> Callable[..., object]:
    """Return what uses a view, and finds each damaged at first."""

    def used(view: PartitionView, *given: object, **named: object) -> object:
        if view.path not in broken:
            broken.add(view.path)
            raise DamagedViewError("broken")
        return use(view, *given, **named)

    return used


def test_a_view_that_is_found_damaged_while_it_is_used_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = counted(tmp_path)
    for name in ("get", "apply"):
        broken, used = set[Path](), getattr(PartitionView, name)

        batch = counting.batch
        with monkeypatch.context() as found_damaged:
            found_damaged.setattr(PartitionView, name, at_first_damaged(used, broken))
            assert counting.run(KEYS, tasks=3) == dict.fromkeys(KEYS, batch - 2)
        assert broken


def test_what_the_file_of_a_view_tells_of_damage_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = PartitionView(tmp_path)
    view.apply([(b"\1a", b"1")], since=0, offset=1)

    class Broken:
        def begin(self, **given: object) -> object:
            raise lmdb.PageNotFoundError("page")

    monkeypatch.setattr(view, "_file", Broken())
    for use in (lambda: view.offset, lambda: view.get([b"a"]), lambda: list(view.items()), lambda: len(view)):
        with pytest.raises(DamagedViewError, match=r"view .*: expected a whole file, got one that LMDB refuses \(page"):
            use()


def test_a_full_disk_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view = PartitionView(tmp_path)

    class Full:
        def begin(self, **given: object) -> object:
            raise lmdb.DiskError("No space left on device")

    monkeypatch.setattr(view, "_file", Full())
    with pytest.raises(StateError, match=r"view .*: expected room on the disk, got none; make room.*spark.local.dir"):
        view.apply([(b"\1a", b"1")], since=0, offset=1)


def test_a_whole_view_is_not_taken_for_a_damaged_one(tmp_path: Path) -> None:
    view, number = PartitionView(tmp_path / "v"), 0
    inode = (tmp_path / "v" / "data.mdb").stat().st_ino
    for number in range(60):
        size = 5000 if number % 3 else 10
        changes = [(b"\1%d" % (key * number % 97), None if key % 4 == number % 4 else b"x" * size) for key in range(40)]
        view.apply(changes, since=number, offset=number + 1)
        if number % 5 == 0:
            kept = dict(view.items())
            view.close()
            view = PartitionView(tmp_path / "v")
            assert dict(view.items()) == kept and view.offset == number + 1
    assert (tmp_path / "v" / "data.mdb").stat().st_ino == inode


def test_a_view_of_another_run_or_partition_is_made_anew(tmp_path: Path) -> None:
    counting = counted(tmp_path)
    other = Counting(tmp_path / "other", views="views")
    other.run([*KEYS, 5])
    other.run(KEYS)
    forget()
    home, strange = tmp_path / "views" / "r1" / "count", tmp_path / "other" / "views" / "r1" / "count"
    for path in strange.iterdir():
        shutil.rmtree(home / path.name, ignore_errors=True)
        # The files of one partition in the place of another's.
        shutil.copytree(path, home / str((int(path.name) + 1) % 8), dirs_exist_ok=True)
    assert counting.run(KEYS) == dict.fromkeys(KEYS, 30)


def test_a_view_that_is_ahead_of_its_changelog_is_made_anew(tmp_path: Path) -> None:
    counting = counted(tmp_path, batches=3)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    counting.run(KEYS)
    counting.run([*KEYS, 7])
    # The run's directory is restored from a copy, and the workers are those of before.
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "copy").rename(tmp_path / "state")
    again = Counting(tmp_path, batch=counting.batch - 2)
    assert again.run(KEYS) == dict.fromkeys(KEYS, 3)


def damaged(root: Path, use: Callable[[], object], file: Path, what: str) -> DamagedStateError:
    """Return the error that tells of a damaged file; it says whose it is, what is wrong, and what to do."""
    with pytest.raises(DamagedStateError) as caught:
        use()
    text = str(caught.value)
    assert "state of operator 'count'" in text and str(file) in text and what in text
    assert "restore it from a copy, or start a run of its own" in text and "last committed" in text
    told = error_from_data(error_as_data(caught.value))
    assert type(told) is DamagedStateError and str(told) == text
    return caught.value


def remove(path: Path) -> None:
    path.unlink()


def add_to(path: Path) -> None:
    """Put the snapshot of another partition in the place of one."""
    other = next(each for each in path.parent.iterdir() if each != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("spoil", [cut, empty, scribble, remove, add_to])
def test_a_damaged_snapshot_is_named_and_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path], None]
) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 50)
    counting = counted(tmp_path)
    elsewhere = Counting(tmp_path, views="elsewhere", batch=counting.batch)
    [(partition, taken)] = [each for each in elsewhere.ledger._snapshots.items() if each[1].rows][:1]
    snapshot = Path(taken.path)
    content, end = snapshot.read_bytes(), counting.ledger.log.end_offset()
    spoil(snapshot)
    error = damaged(tmp_path, lambda: elsewhere.run([*KEYS, 101], tasks=1), snapshot, f"partition {partition}")
    assert error.partitions == (partition,)
    damaged(tmp_path, lambda: found(tmp_path), snapshot, "expected a snapshot")
    assert elsewhere.ledger.log.end_offset() == end
    snapshot.write_bytes(content)
    assert found(tmp_path) == expected()
    assert elsewhere.run(KEYS) == dict.fromkeys(KEYS, 30)


@pytest.mark.parametrize("spoil", [cut, scribble, remove])
def test_a_damaged_changelog_is_named_and_nothing_changes(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    counting = counted(tmp_path, batches=3)
    there = Counting(tmp_path, views="elsewhere", batch=counting.batch)
    _made.clear()
    segment = Path(next(iter(counting.ledger.log.segments(0, 1))).path)
    content = segment.read_bytes()
    spoil(segment)
    damaged(tmp_path, lambda: there.run(KEYS, tasks=1), segment, "partition")
    damaged(tmp_path, lambda: Counting(tmp_path), segment, "its changelog")
    damaged(tmp_path, lambda: found(tmp_path), segment, "its changelog")
    # Who has seen it goes on: nothing but what is new is read.
    assert counting.run(KEYS) == dict.fromkeys(KEYS, 3)
    segment.write_bytes(content)
    assert found(tmp_path) == expected(4)


@pytest.mark.parametrize("name", ["state.json", "snapshots.json", "clock.json"])
def test_a_damaged_description_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 50)
    timing = Timing(ttl_s=1e6)
    counted(tmp_path, timing=timing)
    file = tmp_path / "state" / "count" / name
    file.write_text(file.read_text()[:-9])
    damaged(tmp_path, lambda: Counting(tmp_path, timing=timing), file, "expected JSON")
    file.write_text(json.dumps(["other"]))
    damaged(tmp_path, lambda: Counting(tmp_path, timing=timing), file, "expected")


def test_a_run_that_was_copied_to_another_place_reads_its_own_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 50)
    counting = counted(tmp_path / "old")
    shutil.copytree(tmp_path / "old" / "state", tmp_path / "new" / "state")
    shutil.rmtree(tmp_path / "old")
    assert found(tmp_path / "new") == expected()
    there = Counting(tmp_path / "new", batch=counting.batch)
    assert there.run([*KEYS, 101]) == dict.fromkeys(KEYS, 30) | {101: 1}
