"""What every depot promises; add an implementation to the fixture and it is held to all of it."""

from __future__ import annotations

import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from object_stores import keep_in_memory

from foretide.commands.machine.s3_server import S3Server
from foretide.depot import Depot, open_depot


@pytest.fixture(params=["disk", "memory", *(pytest.param(name, marks=pytest.mark.slow) for name in ("s3", "hdfs"))])
def depot(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Depot:
    if request.param == "disk":
        return open_depot(tmp_path / "depot")
    if request.param == "memory":
        keep_in_memory(monkeypatch)
        return open_depot("s3://bucket/some/folder/")
    if request.param == "hdfs":
        return open_depot(f"{request.getfixturevalue('hdfs').uri}/{uuid.uuid4().hex}/")
    server: S3Server = request.getfixturevalue("s3")
    assert server.endpoint
    return open_depot(f"s3://runs/{uuid.uuid4().hex}")


def test_what_is_put_is_read_by_others(depot: Depot) -> None:
    depot.check()
    depot.put("a/b.json", b"first")
    depot.put("a/b.json", memoryview(b"second"))
    assert pickle.loads(pickle.dumps(depot)).read("a/b.json") == b"second"
    assert (depot.size("a/b.json"), depot.size("a/c.json"), depot.size("a")) in ((6, None, None), (6, None, 4096))
    assert depot.inside("a").read("b.json") == b"second"


def test_one_of_several_that_try_is_told_that_it_was_first(depot: Depot) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda number: depot.put_if_absent("claims/7", b"%d" % number), range(16)))
    assert sum(won) == 1
    assert depot.read("claims/7") == b"%d" % won.index(True)


def test_a_file_that_is_not_there_is_not_found(depot: Depot) -> None:
    with pytest.raises(FileNotFoundError):
        depot.read("nothing")
    with pytest.raises(FileNotFoundError):
        depot.read_ranges("no/thing", [(0, 1)])
    with pytest.raises(FileNotFoundError):
        depot.copy("nothing", "something")


def test_parts_are_read_by_their_bytes(depot: Depot) -> None:
    depot.put("digits", b"0123456789")
    assert [bytes(part) for part in depot.read_ranges("digits", [(2, 4), (0, 1), (7, 10)])] == [b"23", b"0", b"789"]


def test_a_folder_is_listed_in_order_without_what_lies_deeper(depot: Depot) -> None:
    for name in ("m/003", "m/001", "m/002", "m/deeper/000", "mm/004", "other"):
        depot.put(name, b"x" * 3)
    assert [name for name in depot.names("m") if name != "deeper"] == ["001", "002", "003"]
    assert [name for name in depot.names("m", after="001") if name != "deeper"] == ["002", "003"]
    found = depot.entries("m", after="002")
    assert [(entry.name, entry.bytes) for entry in found] == [("003", 3)]
    assert abs(found[0].written_s - depot.entries("m")[0].written_s) < 60
    assert depot.names("nowhere") == [] and depot.entries("nowhere") == []


def test_files_are_copied_and_deleted_as_far_as_they_are_there(depot: Depot) -> None:
    depot.put("from", b"content")
    depot.put("deep/to", b"old")
    depot.copy("from", "deep/to")
    assert depot.read("deep/to") == b"content"
    depot.delete(["from", "never", "deep/to"])
    depot.delete([])
    assert depot.names() in ([], ["deep"]) and depot.names("deep") == []


def test_large_files_come_back_whole(depot: Depot) -> None:
    content = bytes(range(256)) * 40_000  # above what clients send in one part
    depot.put("large", content)
    assert depot.size("large") == len(content)
    [part] = depot.read_ranges("large", [(9_999_990, 10_000_010)])
    assert bytes(part) == content[9_999_990:10_000_010]
