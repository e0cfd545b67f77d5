from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from foretide.errors import ConfigError
from foretide.store import Override, RuntimeConfig, RuntimeStore

READER = """
import sys
from foretide.store import RuntimeStore

store = RuntimeStore(sys.argv[1])
seen = []
while not seen or seen[-1] < int(sys.argv[2]):
    config = store.read()
    # A mixture of two configurations would show: every value of one is its version.
    assert set(config.replicas.values()) <= {config.version}, config
    assert len(config.replicas) in (0, 200), config
    if not seen or config.version != seen[-1]:
        seen.append(config.version)
        print(config.version, flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> RuntimeStore:
    return RuntimeStore(tmp_path / "deep" / "runtime.json")


def test_without_a_file_the_configuration_is_empty(store: RuntimeStore) -> None:
    assert store.read() == RuntimeConfig()


def test_changes_merge_into_mappings_and_replace_the_rest(store: RuntimeStore) -> None:
    store.change(replicas={"a": 1, "b": 2}, groupings={"x": {"weights": [1, 2]}}, paused=True)
    config = store.change(replicas={"b": 3}, groupings={"y": {}}, paused=False)
    assert config.replicas == {"a": 1, "b": 3}
    assert config.groupings == {"x": {"weights": [1, 2]}, "y": {}}
    assert (config.paused, config.version) == (False, 2)


def test_versions_count_on_whoever_writes(store: RuntimeStore) -> None:
    store.change(paused=True)
    other = RuntimeStore(store.path)
    assert other.change(paused=False).version == 2
    assert store.read().version == 2
    assert store.change(version=99).version == 3


def test_a_file_that_did_not_change_is_not_read_again(store: RuntimeStore) -> None:
    store.change(replicas={"a": 1})
    assert store.read() is store.read()


def test_nothing_but_the_file_is_left_behind(store: RuntimeStore) -> None:
    for number in range(3):
        store.change(replicas={"a": number})
    assert [path.name for path in store.path.parent.iterdir()] == ["runtime.json"]


def test_a_configuration_that_cannot_be_written_leaves_the_old_one(store: RuntimeStore) -> None:
    store.change(replicas={"a": 1})
    with pytest.raises(TypeError):
        store.change(groupings={"x": {"weights": object()}})
    assert RuntimeStore(store.path).read().replicas == {"a": 1}
    assert [path.name for path in store.path.parent.iterdir()] == ["runtime.json"]


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"replica": {}}', '"text"'])
def test_a_malformed_file_is_named_and_the_way_out_told(store: RuntimeStore, content: str) -> None:
    store.path.parent.mkdir()
    store.path.write_text(content)
    with pytest.raises(ConfigError, match=r"runtime\.json.*expected a run-time configuration in JSON.*remove the file"):
        store.read()


def test_a_file_that_was_mended_is_read_again(store: RuntimeStore) -> None:
    store.path.parent.mkdir()
    store.path.write_text("{")
    with pytest.raises(ConfigError):
        store.read()
    store.path.write_text('{"version": 7, "replicas": {"a": 2}}')
    assert store.read() == RuntimeConfig(7, {"a": 2})


def test_a_reader_in_another_process_sees_whole_configurations_only(store: RuntimeStore) -> None:
    store.change(paused=True)
    store.change(paused=False)
    command = [sys.executable, "-c", READER, str(store.path), "302"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None and reader.stdout.readline() == "2\n"
        for version in range(3, 303):
            store.change(replicas={f"operator{number}": version for number in range(200)})
        seen, errors = reader.communicate(timeout=60)
    assert reader.returncode == 0, errors
    versions = [int(line) for line in seen.split()]
    assert versions == sorted(set(versions)) and versions[-1] == 302


def test_replicas_set_by_hand_win_until_they_end(store: RuntimeStore) -> None:
    store.change(replicas={"a": 1, "b": 2})
    config = store.override("b", Override(5, until_s=100.0, reason="load test"), now_s=40.0)
    assert config.replicas == {"a": 1, "b": 2}
    assert RuntimeStore(store.path).read().overrides == {"b": Override(5, 100.0, "load test")}
    assert config.active(99.9) == {"a": 1, "b": 5}
    assert config.active(100.0) == {"a": 1, "b": 2}
    assert (store.overridden(99.9), store.overridden(100.0)) == ({"b": 5}, {})


def test_setting_by_hand_drops_what_has_ended(store: RuntimeStore) -> None:
    store.override("a", Override(5, until_s=100.0), now_s=0.0)
    assert set(store.override("b", Override(5, until_s=300.0), now_s=200.0).overrides) == {"b"}
    assert store.override("b", None, now_s=200.0).overrides == {}
    assert store.override("b", None, now_s=200.0).overrides == {}


def test_a_plan_does_not_undo_what_was_set_by_hand(store: RuntimeStore) -> None:
    store.override("a", Override(5, until_s=100.0), now_s=0.0)
    assert store.change(replicas={"a": 1}, paused=True).active(50.0) == {"a": 5}


WRITER = """
import sys
from foretide.store import RuntimeStore

store = RuntimeStore(sys.argv[1])
for number in range(100):
    store.change(replicas={f"{sys.argv[2]}{number}": number})
"""


def test_no_change_of_several_writers_is_lost(store: RuntimeStore) -> None:
    store.change(paused=True)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(store.path), name], stderr=subprocess.PIPE)
        for name in ("a", "b")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    config = store.read()
    assert config.version == 201 and len(config.replicas) == 200
