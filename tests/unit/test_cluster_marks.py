"""Tests on clusters in namespaces are not left out unnoticed where every check counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import benchmark_module
from clusters import needs_clusters

TESTS = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("missing", "variables", "left_out"),
    [
        ("namespaces need root on Linux", {}, True),
        ("namespaces need root on Linux", {"CI": "1"}, False),
        ("", {}, False),
        ("", {"CI": "1"}, False),
    ],
)
def test_they_are_left_out_only_where_that_may_be(missing: str, variables: dict[str, str], left_out: bool) -> None:
    mark = needs_clusters(missing, variables).mark
    assert (mark.name, mark.args) == ("skipif", (left_out,))
    assert mark.kwargs["reason"] == missing


def test_one_that_is_not_left_out_says_what_the_machine_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    clusters: Any = benchmark_module("standalone_cluster")
    monkeypatch.setattr(clusters, "missing_for_clusters", lambda: "namespaces need root on Linux")
    with pytest.raises(RuntimeError, match="namespaces need root on Linux"), clusters.standalone_cluster():
        pass


def test_all_tests_on_such_clusters_go_by_that() -> None:
    files = [path for path in (TESTS / "spark").glob("test_*.py") if "missing_for_clusters" in path.read_text("utf-8")]
    assert files == []
    using = [path.name for path in (TESTS / "spark").glob("test_*.py") if "needs_clusters()" in path.read_text("utf-8")]
    assert sorted(using) == ["test_no_shared_disk.py", "test_scale_downs.py", "test_standalone_cluster.py"]
