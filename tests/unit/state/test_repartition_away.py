"""Another number of partitions of a state that is in an object store: the same state, and one who works on it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from counted_state import Counting, counted, expected, found
from object_stores import keep_in_memory
from typer.testing import CliRunner

from foretide.cli import app
from foretide.depot import objects, open_depot
from foretide.errors import ConfigError, ForetideError
from foretide.spark.driver.reign import Reign
from foretide.state.repartition import repartition_state

PLACE = "s3://bucket/run"


@pytest.fixture(autouse=True)
def away(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the run be in an object store, and what its drivers keep on this machine in a folder of the test."""
    keep_in_memory(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shape = {"reads": [], "queues": [], "keeps state of": ["count"]}
    open_depot(PLACE).put("topology.json", json.dumps({"stages": {"in": shape}, "operators": {}}).encode())


def described() -> dict[str, Any]:
    return dict(json.loads(open_depot(PLACE).read("state/count/state.json")))


def told(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["repartition", *map(str, words)])
    return result.exit_code, " ".join(result.output.split())


def left() -> set[str]:
    """Return the folders in which a state has files."""
    store = objects._store("s3://bucket")
    paths = [str(item["path"]) for part in store.list("run/state/count") for item in part]
    return {path.removeprefix("run/state/count/").partition("/")[0] for path in paths}


@pytest.mark.parametrize("least_rows", [50, 10**6], ids=["snapshots", "changelog alone"])
def test_a_state_goes_on_in_other_partitions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_rows: int) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", least_rows)
    counting = counted(tmp_path, place=PLACE)
    for number, wanted in enumerate((3, 64, 8), start=1):
        done = repartition_state(PLACE, "count", wanted)
        assert (done.after, done.keys) == (wanted, 11)
        assert found(PLACE) == expected(29 + number)
        counting = Counting(tmp_path, partitions=wanted, batch=counting.batch, place=PLACE)
        before = counting.run([*range(10), 100, 101], tasks=3, commit=False)
        assert before == dict.fromkeys(range(10), 29 + number) | {100: 0, 101: 1}
        counting.run(list(range(10)), tasks=2)
    assert found(PLACE) == expected(33)
    assert left() == {"3", "state.json"}


def test_whoever_fails_at_any_moment_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", 50)
    counted(tmp_path, place=PLACE)
    stood, moment = set[str](), 0

    class AwayError(Exception):
        """The store is away from a call on."""

    def failing(call: Callable[..., Any], calls: list[int]) -> Callable[..., Any]:
        def asked(*given: Any, **named: Any) -> Any:
            calls[0] -= 1
            if calls[0] < 0:
                raise AwayError
            return call(*given, **named)

        return asked

    while True:
        before, calls = described()["partitions"], [moment]
        with monkeypatch.context() as broken:
            for name in ("put", "put_if_absent", "delete"):
                broken.setattr(objects.ObjectDepot, name, failing(getattr(objects.ObjectDepot, name), calls))
            try:
                repartition_state(PLACE, "count", 11 - before)
            except AwayError:
                pass
            else:
                break
        after = described()["partitions"]
        stood.add("before" if after == before else "after")
        assert found(PLACE) == expected()
        moment += 1
    assert stood == {"before", "after"} and found(PLACE) == expected()
    assert left() == {"state.json", described()["home"]}


def test_the_command_takes_the_uri_of_a_run(tmp_path: Path) -> None:
    counted(tmp_path, place=PLACE)
    code, output = told(PLACE, "--partitions", 12)
    assert code == 0 and "count: 8 partitions became 12, with 11 keys as before write state_partitions=12" in output
    assert json.loads(told(PLACE, "count", "--partitions", 12, "--json")[1])["before"] == 12
    assert open_depot(PLACE).names("drivers") == []
    code, output = told("s3://bucket/other", "--partitions", 12)
    assert code == 2 and "the --path of a run whose operators keep state, got s3://bucket/other" in output


def test_a_state_that_spark_keeps_there_is_refused() -> None:
    code, output = told(PLACE, "--partitions", 12)
    assert code == 2 and "state of operator 'count'" in output and "a checkpoint in a directory" in output


def test_a_run_that_is_under_way_is_left_alone(tmp_path: Path) -> None:
    counted(tmp_path, place=PLACE)
    driver = Reign(open_depot(PLACE))
    code, output = told(PLACE, "--partitions", 12)
    assert code == 2 and "expected a run that has ended, got one that is under way: process" in output
    driver._looked_s = -1e9
    driver.check()
    driver.release()
    note("elsewhere", 1)
    code, output = told(PLACE, "--partitions", 12)
    assert code == 2 and "process 1 on elsewhere" in output and f"remove {PLACE}/drivers/000000009" in output
    assert described()["partitions"] == 8
    done = subprocess.Popen([sys.executable, "-c", ""])
    done.wait()
    note(socket.gethostname(), done.pid)
    assert told(PLACE, "--partitions", 12)[0] == 0


def note(host: str, pid: int, **more: Any) -> None:
    driver = {"host": host, "pid": pid, "since": "then", **more}
    open_depot(PLACE).put("drivers/000000009", json.dumps(driver).encode())


def test_nobody_starts_where_a_state_is_being_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    rest = Reign(open_depot(PLACE), alone=True)
    with pytest.raises(ConfigError, match=r"expected one that nobody is changing, got one whose state .* rewrites"):
        Reign(open_depot(PLACE))
    rest.check()
    rest.release()
    driver = Reign(open_depot(PLACE))
    driver._looked_s = -1e9
    with pytest.raises(ForetideError, match="got one that is under way"):
        Reign(open_depot(PLACE), alone=True)
    driver.check()
    driver.release()
    # Of those who come at the same moment, one may have a lower number.
    with monkeypatch.context() as late:
        listed = iter([["000000005"], ["000000001", "000000006"]])
        late.setattr(objects.ObjectDepot, "names", lambda *given, **named: next(listed))
        open_depot(PLACE).put("drivers/000000001", json.dumps({"host": "here", "pid": 1, "since": "then"}).encode())
        late.setattr(objects.ObjectDepot, "put_if_absent", lambda *given: True)
        with pytest.raises(ConfigError, match="got one that is under way: process 1 on here"):
            Reign(open_depot(PLACE), alone=True)
    open_depot(PLACE).delete(["drivers/000000001"])
    # One that cannot have ended is told with what to remove.
    note("elsewhere", 1, alone=True)
    with pytest.raises(ConfigError, match="remove s3://bucket/run/drivers/000000009"):
        Reign(open_depot(PLACE))
    assert open_depot(PLACE).names("drivers") == ["000000009"]
