from __future__ import annotations

import errno
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from foretide.files import PART_PREFIX, claim_file, replace_file, replace_json, replacing


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def together(count: int, work: Callable[[int], None]) -> None:
    """Run `work` in `count` threads that begin at the same instant; raise what the first of them to fail raised."""
    start, errors = threading.Barrier(count), list[Exception]()

    def run(number: int) -> None:
        start.wait()
        try:
            work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("fsync", [False, True])
def test_a_file_takes_the_place_of_another_and_nothing_else_stays(tmp_path: Path, fsync: bool) -> None:
    path = tmp_path / "a.json"
    replace_json(path, {"before": "ü"}, fsync=fsync)
    replace_json(path, {"after": [1, None]}, fsync=fsync)
    assert json.loads(path.read_text()) == {"after": [1, None]}
    replace_file(path, "Grüße", fsync=fsync)
    assert path.read_bytes() == "Grüße".encode()
    assert names(tmp_path) == ["a.json"]


def test_a_full_disk_is_told_with_the_file_that_has_no_room(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with pytest.raises(OSError, match="No space left") as told, replacing(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # what writing and flushing say
    assert told.value.filename == str(path) and names(tmp_path) == []
    with pytest.raises(ConnectionError) as other, replacing(path):
        raise ConnectionResetError(errno.ECONNRESET, "gone")
    assert other.value.filename is None


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with replacing(path) as file:
        file.write(b"half")
        file.flush()
        assert path.read_text() == "old"
        [part] = [name for name in names(tmp_path) if name != "a"]
        assert part.startswith(PART_PREFIX)
    assert path.read_text() == "half" and names(tmp_path) == ["a"]


def test_a_failed_writer_leaves_the_old_file_and_no_part(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="no more"), replacing(path) as file:
        file.write(b"half")
        raise RuntimeError("no more")
    with pytest.raises(TypeError):
        replace_json(path, object())
    assert path.read_text() == "old" and names(tmp_path) == ["a"]


def test_parts_lie_in_another_folder_if_asked(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with replacing(tmp_path / "a", folder=scratch):
        assert names(tmp_path) == ["scratch"] and len(names(scratch)) == 1
    assert names(tmp_path) == ["a", "scratch"] and names(scratch) == []


def test_it_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        replace_file(tmp_path / "a", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_writers_of_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.json"

    def write(number: int) -> None:
        for turn in range(100):
            replace_json(path, [number] * turn)
            assert len(set(json.loads(path.read_text()))) <= 1

    together(3, write)
    assert names(tmp_path) == ["a.json"] and len(json.loads(path.read_text())) == 99


def test_of_those_who_claim_a_name_one_gets_it(tmp_path: Path) -> None:
    path, won = tmp_path / "a", list[int]()

    def claim(number: int) -> None:
        if claim_file(path, str(number), fsync=True):
            won.append(number)

    together(4, claim)
    [winner] = won
    assert path.read_text() == str(winner)
    assert claim_file(path, "later") is False
    assert names(tmp_path) == ["a"]
