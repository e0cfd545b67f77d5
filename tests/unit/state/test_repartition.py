"""Another number of partitions of a state by key: the same state, whoever is killed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import counted_state
import numpy as np
import pyarrow as pa
import pytest
from counted_state import Counting, counted, expected, found, partitions
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from foretide.cli import app
from foretide.errors import ConfigError
from foretide.grouping import hash_columns
from foretide.spark.driver.repartition import finish_exchange
from foretide.state.changes import EXPIRES, KEY
from foretide.state.clock import Timing
from foretide.state.errors import StateError
from foretide.state.keys import encode_keys, hash_keys
from foretide.state.repartition import _check_same, _Divided, repartition_state
from foretide.store.workspace import Workspace

KINDS = {
    "numbers": st.integers(-(2**63), 2**63 - 1),
    "floats": st.floats(),
    "flags": st.booleans(),
    "texts": st.text(max_size=5),
    "bytes": st.binary(max_size=5),
    "days": st.dates(),
    "instants": st.datetimes(),
}


@given(st.data(), st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3))
def test_the_bytes_of_a_key_have_the_hash_of_its_columns(data: st.DataObject, kinds: list[str]) -> None:
    count = data.draw(st.integers(1, 4))
    columns = [pa.array(data.draw(st.lists(st.none() | KINDS[kind], min_size=count, max_size=count))) for kind in kinds]
    assert hash_keys(encode_keys(columns)).tolist() == hash_columns(columns).tolist()


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_every_unit_and_narrow_columns_have_the_hash_of_their_columns(unit: str) -> None:
    columns = [pa.array([1, -5, None], pa.timestamp(unit)), pa.array([1.5, 2.0, None], pa.float32())]
    columns += [pa.array(["a", "b", "a"]).dictionary_encode(), pa.array([1, 2, None], pa.int8()), pa.nulls(3)]
    assert hash_keys(encode_keys(columns)).tolist() == hash_columns(columns).tolist()


@pytest.mark.parametrize("least_rows", [50, 10**6], ids=["snapshots", "changelog alone"])
def test_a_state_goes_on_in_other_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_rows: int) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", least_rows)
    counting = counted(tmp_path)
    for number, wanted in enumerate((3, 64, 8), start=1):
        done = repartition_state(tmp_path, "count", wanted)
        assert (done.after, done.keys) == (wanted, 11)
        assert found(tmp_path) == expected(29 + number)
        # The views of a machine that worked on it before are there still.
        counting = Counting(tmp_path, partitions=wanted, batch=counting.batch)
        before = counting.run([*range(10), 100, 101], tasks=3, commit=False)
        assert before == dict.fromkeys(range(10), 29 + number) | {100: 0, 101: 1}
        counting.run(list(range(10)), tasks=2)
    assert found(tmp_path) == expected(33)
    # Nothing is left of what was before.
    assert {path.name for path in (tmp_path / "state" / "count").iterdir()} == {"3", "state.json"}


def test_a_batch_that_runs_again_begins_with_the_states_that_it_began_with(tmp_path: Path) -> None:
    counting = counted(tmp_path)
    repartition_state(tmp_path, "count", 5)
    # The last batch was committed, and Spark does not know.
    again = Counting(tmp_path, partitions=5, batch=counting.batch - 1)
    assert again.run(list(range(10)), tasks=3) == dict.fromkeys(range(10), 29)
    assert again.run([1, 101]) == {1: 30, 101: 1}
    # An earlier one is known to be there.
    assert again.ledger.log.begin("stage", 3).committed is not None


def test_a_state_that_is_empty_or_has_one_batch_can_be_divided_too(tmp_path: Path) -> None:
    Counting(tmp_path)
    assert repartition_state(tmp_path, "count", 5).keys == 0
    assert Counting(tmp_path, partitions=5).run([1, 2]) == {1: 0, 2: 0}
    assert repartition_state(tmp_path, "count", 6).keys == 2
    assert Counting(tmp_path, partitions=6).run([1, 2]) == {1: 0, 2: 0}  # the first batch once more
    assert Counting(tmp_path, partitions=6, batch=1).run([1, 2]) == {1: 1, 2: 1}


def test_ends_of_lives_stay(tmp_path: Path) -> None:
    counting = counted(tmp_path, batches=3)
    counting = Counting(tmp_path, timing=Timing(ttl_s=1e6), batch=counting.batch)
    counting.run([1, 2])
    counting.run([2])

    def ends(partitions: int, home: str = "") -> list[Any]:
        state = _Divided("count", str(tmp_path / "state" / "count" / home).rstrip("/"), partitions)
        return state.rows(state.log.end_offset()).sort_by(KEY)[EXPIRES].to_pylist()

    before = ends(8)
    assert len(set(before)) == 3  # those that never end, and those of two batches
    repartition_state(tmp_path, "count", 5)
    assert ends(5, "1") == before
    counting = Counting(tmp_path, partitions=5, timing=Timing(ttl_s=1e6), batch=counting.batch)
    assert counting.run([1, 2, 3]) == {1: 4, 2: 5, 3: 3}


def test_a_kill_at_any_moment_leaves_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    # In a process of its own, which has no threads yet and so may fork.
    program = Path(counted_state.__file__).with_name("killed_repartition.py")
    ran = subprocess.run([sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    kills, stood = json.loads(ran.stdout)
    # Some came too early to matter, and some too late.
    assert kills > 20 and stood == ["after", "before"]


def test_what_is_not_complete_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 50)
    counted(tmp_path)
    root = tmp_path / "state" / "count"

    def refused(message: str) -> None:
        with pytest.raises((StateError, ConfigError), match=message):
            repartition_state(tmp_path, "count", 5)
        assert partitions(tmp_path) == 8

    with monkeypatch.context() as full:
        full.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=10))
        refused(r"expected room for the state once more, .* MB, got 0 MB")
    with monkeypatch.context() as other:
        other.setattr("foretide.state.repartition.hash_keys", lambda keys: np.arange(len(keys)))
        refused(r"got \d+ keys that belong to other partitions")
    segment = next((root / "changes" / "segments").iterdir())
    content = segment.read_bytes()
    segment.write_bytes(content[:-1])
    refused(
        r"state of operator 'count': expected a segment of \d+ bytes of its changelog in \S+, got \d+ bytes; restore"
    )
    segment.write_bytes(content)
    snapshot = next((root / "snapshots").iterdir())
    snapshot.rename(tmp_path / "away")
    refused(r"partition \d: expected a snapshot of \d+ keys in \S+, got no such file; restore it from a copy")
    (tmp_path / "away").rename(snapshot)
    repartition_state(tmp_path, "count", 5)
    assert found(tmp_path) == expected()


def test_a_state_that_came_out_otherwise_is_refused() -> None:
    rows = pa.table({"partition": [0, 0], "key": [b"a", b"b"], "state.n": [float("nan"), 1.0]})
    moved = rows.set_column(0, "partition", pa.array([5, 6])).take([1, 0])
    _check_same("count", rows, moved)
    with pytest.raises(StateError, match="expected 2 keys and their states after it was divided anew, got 1 or other"):
        _check_same("count", rows, moved.slice(1))
    with pytest.raises(StateError):
        _check_same("count", rows, moved.set_column(2, "state.n", pa.array([2.0, 1.0])))


def told(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["repartition", *map(str, words)])
    return result.exit_code, " ".join(result.output.split())


def test_the_command_divides_a_state_while_nobody_runs(tmp_path: Path) -> None:
    counted(tmp_path)
    hold = Workspace(tmp_path).hold()
    code, output = told(tmp_path, "--partitions", 12)
    assert code == 2 and "expected a run that has ended, got one that is under way; stop it first" in output
    hold.release()
    code, output = told(tmp_path, "--partitions", 12)
    assert code == 0 and "count: 8 partitions became 12, with 11 keys as before write state_partitions=12" in output
    code, output = told(tmp_path, "--partitions", 12, "--json")
    assert json.loads(output) == {"operator": "count", "before": 12, "after": 12, "keys": 11}
    assert told(tmp_path, "count", "--partitions", 12) == (0, "count has 12 partitions already, with 11 keys")
    code, output = told(tmp_path, "cuont", "--partitions", 12)
    assert code == 2 and "expected one that keeps state: count, got cuont; did you mean 'count'?" in output
    code, output = told(tmp_path / "other", "--partitions", 12)
    assert code == 2 and "the --path of a run whose operators keep state" in output
    shutil.copytree(tmp_path / "state" / "count", tmp_path / "state" / "other")
    code, output = told(tmp_path, "--partitions", 5)
    assert code == 2 and "expected one that keeps state: count, other, got none; name one of them" in output


def test_many_run_in_a_directory_and_one_alone_changes_it(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "run")
    first, second = workspace.hold(), workspace.hold()
    first.release()
    with pytest.raises(ConfigError, match="got one that is under way"):
        workspace.hold(alone=True)
    second.release()
    alone = workspace.hold(alone=True)
    with pytest.raises(ConfigError, match="one that nobody is changing, got one whose state `foretide repartition`"):
        workspace.hold()
    alone.release()
    workspace.hold().release()


@pytest.mark.parametrize(("there", "left"), [("checkpoint new", "old"), ("old new", "new"), ("checkpoint old", "old")])
def test_an_exchange_of_checkpoints_that_was_cut_short_is_ended(tmp_path: Path, there: str, left: str) -> None:
    texts = {"checkpoint": "new" if there == "checkpoint old" else "old", "old": "old", "new": "new"}
    for name in there.split():
        folder = tmp_path / ("checkpoint" if name == "checkpoint" else f"checkpoint.{name}")
        folder.mkdir()
        (folder / "text").write_text(texts[name])
    finish_exchange(tmp_path / "checkpoint")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert (tmp_path / "checkpoint" / "text").read_text() == ("new" if there == "checkpoint old" else left)
