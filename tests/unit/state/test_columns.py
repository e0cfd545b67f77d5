"""Columns of a state that change: those that are added are null in older rows, and everything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from counted_state import Counting, counted, found

from foretide.errors import ConfigError
from foretide.state.columns import added_columns
from foretide.state.repartition import repartition_state
from foretide.state.task import _made

MORE = "n long, last long"
KEYS = list(range(10))


def described(root: Path) -> str:
    return str(json.loads((root / "state" / "count" / "state.json").read_text())["columns"])


@pytest.mark.parametrize("least_rows", [50, 10**6], ids=["snapshots", "changelog alone"])
@pytest.mark.parametrize("views", ["views", "elsewhere"])
def test_a_column_that_is_added_is_null_in_older_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, least_rows: int, views: str
) -> None:
    monkeypatch.setattr("foretide.state.ledger._LEAST_ROWS", least_rows)
    before = counted(tmp_path)
    more = Counting(tmp_path, views=views, batch=before.batch, columns=MORE)
    assert more.run([1, 2]) == {1: 30, 2: 30}
    _made.clear()
    assert more.run([2, 3, 101], tasks=3) == {2: 31, 3: 30, 101: 1}
    expected = {key: {"n": 30, "last": None} for key in KEYS}
    expected |= {
        1: {"n": 31, "last": 32},
        2: {"n": 32, "last": 33},
        3: {"n": 31, "last": 33},
        101: {"n": 2, "last": 33},
    }
    assert found(tmp_path) == [{"key": key, **state} for key, state in sorted(expected.items())]
    assert repartition_state(tmp_path, "count", 5).keys == 11
    assert found(tmp_path) == [{"key": key, **state} for key, state in sorted(expected.items())]
    more = Counting(tmp_path, views=views, batch=more.batch, columns=MORE, partitions=5)
    for _ in range(20):
        more.run(KEYS)
    assert {row["last"] for row in found(tmp_path) if row["key"] != 101} == {more.batch - 1}
    anew = Counting(tmp_path, views="anew", batch=more.batch, columns=MORE, partitions=5)
    assert anew.run([1, 101]) == {1: 51, 101: 2}


def test_what_was_added_stays_once_a_batch_has_written_it(tmp_path: Path) -> None:
    counting = counted(tmp_path, batches=2)
    # A start that comes to nothing binds nobody.
    Counting(tmp_path, columns=MORE)
    assert described(tmp_path) == "n long"
    counting = Counting(tmp_path, batch=counting.batch)
    counting.run([1])
    Counting(tmp_path, batch=counting.batch, columns=MORE).run([1])
    assert described(tmp_path) == MORE
    with pytest.raises(
        ConfigError, match="expected columns as its run began with, and new ones after them: n long, la"
    ):
        Counting(tmp_path)


def test_columns_that_a_batch_had_no_time_to_describe_do_no_harm(tmp_path: Path) -> None:
    counting = counted(tmp_path, batches=2)
    more = Counting(tmp_path, batch=counting.batch, columns=MORE)
    more.run(KEYS)
    file = tmp_path / "state" / "count" / "state.json"
    file.write_text(file.read_text().replace(MORE, "n long"))
    _made.clear()
    again = Counting(tmp_path, views="elsewhere", batch=more.batch)
    assert again.run(KEYS) == dict.fromkeys(KEYS, 3)


@pytest.mark.parametrize(
    ("now", "got"),
    [
        ("last long, n long", "last long, n long"),
        ("n double, last long", "n double, last long"),
        ("last long", "last long"),
        ("n int", "n int"),
        ("n long, last long not null", "n long, last long not null"),
    ],
)
def test_other_changes_are_refused_with_what_to_do(tmp_path: Path, now: str, got: str) -> None:
    Counting(tmp_path)
    remedy = "keep those, with their names, types and order; or start a run of its own"
    with pytest.raises(ConfigError) as caught:
        Counting(tmp_path, columns=now)
    assert caught.value.expected == "columns as its run began with, and new ones after them: n long"
    assert caught.value.got == got and remedy in str(caught.value) and "state of operator 'count'" in str(caught.value)
    assert described(tmp_path) == "n long"


@pytest.mark.parametrize(
    ("before", "now", "added"),
    [
        ("n long", "n LONG", []),
        ("n long, at timestamp", "n bigint,at  timestamp", []),
        ("n: int", "`n` integer not null, `a b` string comment 'x, y'", None),
        ("n int", "`n` integer, `a b` string comment 'x, y'", ["`a b` string comment 'x, y'"]),
        (
            "p struct<a: int, b: decimal(4, 2)>",
            "p struct<a:int,b:dec(4,2)>, q map<string, int>",
            ["q map<string, int>"],
        ),
        ("p struct<a: int>", "p struct<a: int, b: int>", None),
        ("n long", "n long, N long", None),
        ("n long, m long", "n long", None),
        ("n long", "m long", None),
    ],
)
def test_columns_are_compared_by_what_they_mean(before: str, now: str, added: list[str] | None) -> None:
    assert added_columns(before, now) == added
