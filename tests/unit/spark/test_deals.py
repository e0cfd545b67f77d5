"""How a batch was divided is kept until it is through, and no longer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from foretide.depot import open_depot
from foretide.errors import ConfigError
from foretide.grouping import make_grouping
from foretide.spark.batches.deals import Deal, DealBook


def deal(tasks: int, outlets: tuple[str, ...] = ("out",)) -> Deal:
    routes = {3: make_grouping("load-aware", tasks, speeds=np.arange(1.0, tasks + 1))}
    return Deal({"a": tasks}, tasks, tasks, 1, routes, {"count": np.arange(4) % tasks}, frozenset(outlets))


def book(path: Path) -> DealBook:
    return DealBook(open_depot(path), "a")


def test_a_batch_that_runs_again_is_divided_as_at_first(tmp_path: Path) -> None:
    first = book(tmp_path).settle(7, lambda: deal(2))
    again = book(tmp_path).settle(7, lambda: deal(5))
    assert first.tasks == again.tasks == 2
    assert again.replicas == {"a": 2} and again.partitions["count"].tolist() == [0, 1, 0, 1]
    keys = np.arange(1_000)
    taken = [each.routes[3].at_barrier(0).assign_together(keys).replicas.tolist() for each in (first, again)]
    assert taken[0] == taken[1]


def test_the_next_batch_is_divided_anew_and_the_last_one_forgotten(tmp_path: Path) -> None:
    kept = book(tmp_path)
    kept.settle(7, lambda: deal(2))
    assert kept.settle(8, lambda: deal(5)).tasks == 5
    assert open_depot(tmp_path).names() == ["000000008"]


def test_what_an_earlier_process_left_is_forgotten(tmp_path: Path) -> None:
    book(tmp_path).settle(7, lambda: deal(2))
    book(tmp_path).settle(9, lambda: deal(3))
    assert open_depot(tmp_path).names() == ["000000009"]


def test_without_outlets_nothing_is_written(tmp_path: Path) -> None:
    kept = book(tmp_path)
    assert [kept.settle(batch, lambda: deal(2, ())).tasks for batch in (0, 1)] == [2, 2]
    assert not open_depot(tmp_path).names()


@pytest.mark.parametrize(("then", "now"), [(("out",), ()), (("out",), ("out", "more")), (("out", "more"), ("out",))])
def test_a_batch_in_the_midst_of_which_the_writer_changes_is_refused(
    tmp_path: Path, then: tuple[str, ...], now: tuple[str, ...]
) -> None:
    book(tmp_path).settle(7, lambda: deal(2, then))
    with pytest.raises(ConfigError, match=r"stage 'a', whose batch 7 .*written_by='tasks'.*out.*back"):
        book(tmp_path).settle(7, lambda: deal(2, now))


def test_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    open_depot(tmp_path).put("000000007", b"\x80\x04\x8c\x0bno_such_mod\x8c\x01f\x93.")
    with pytest.raises(ConfigError, match=r"stage 'a'.*another version"):
        book(tmp_path).settle(7, lambda: deal(2))
