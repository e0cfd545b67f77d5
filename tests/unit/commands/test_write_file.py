from __future__ import annotations

import os
from pathlib import Path

import pytest

from foretide.commands.group import check_writable, write_file
from foretide.errors import ConfigError


def test_a_file_is_replaced_as_a_whole_and_can_be_read_by_others(tmp_path: Path) -> None:
    file = tmp_path / "new" / "out.json"
    before = os.umask(0o022)
    try:
        write_file(file, "first", "--json")
        write_file(file, "second", "--json")
    finally:
        os.umask(before)
    assert file.read_text() == "second"
    assert file.stat().st_mode & 0o777 == 0o644
    assert [path.name for path in file.parent.iterdir()] == ["out.json"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.json"
    file.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ConfigError, match=r"setting '--json': expected a file that can be written.*no space left"):
        write_file(file, "new", "--json")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_device_is_written_to_as_it_is() -> None:
    write_file(Path("/dev/null"), "gone", "--json")
    check_writable(Path("/dev/null"), "--json")
    assert not Path("/dev/null").is_file()


def test_what_cannot_be_written_is_known_before(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "out.json"):
        with pytest.raises(ConfigError, match="expected a file that can be written"):
            check_writable(path, "--json")
    check_writable(None, "--json")
    check_writable(tmp_path / "deep" / "out.json", "--json")
    assert list((tmp_path / "deep").iterdir()) == []
