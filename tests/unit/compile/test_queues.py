"""Which queues a topology has on Spark, and what they may hold (SPEC P7)."""

from __future__ import annotations

import pytest

from foretide.compile.queues import QueueLimits, queue_limits
from foretide.compile.stages import compile_stages
from foretide.errors import ConfigError, TopologyError
from foretide.topology import Topology, flow

ANY = QueueLimits()


def words(**edge: float) -> Topology:
    job = flow("words")
    parsed = job.source("lines").operator("parse", queue_bound=500, timeout_s=9.0)
    parsed.operator("count", queued=True, **edge).operator("top").sink("out")  # type: ignore[arg-type]
    return job.build()


def test_events_wait_at_sources_and_on_queued_edges() -> None:
    found = queue_limits(compile_stages(words(queue_bound=20)), ANY)
    assert found == {
        "lines": QueueLimits(queue_bound=500, timeout_s=9.0),
        "parse.out-count": QueueLimits(queue_bound=20),
    }


def test_limits_by_name_win_over_those_of_edges_and_these_over_those_of_all() -> None:
    graph = compile_stages(words(queue_bound=20))
    everywhere, named = QueueLimits(queue_bound=7, timeout_s=30.0), {"parse -> count": QueueLimits(queue_bound=3)}
    assert queue_limits(graph, everywhere, named) == {
        "lines": QueueLimits(queue_bound=500, timeout_s=9.0),
        "parse.out-count": QueueLimits(queue_bound=3, timeout_s=30.0),
    }
    assert queue_limits(graph, everywhere)["parse.out-count"] == QueueLimits(queue_bound=20, timeout_s=30.0)


def test_a_name_that_is_no_queue_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ConfigError, match=r"'parse -> cont'.*lines, parse -> count, got .*did you mean 'parse -> count'"
    ):
        queue_limits(compile_stages(words()), ANY, {"parse -> cont": ANY})
    with pytest.raises(ConfigError, match=r"a source or a queued edge: lines, parse -> count, got .*nowhere else"):
        queue_limits(compile_stages(words()), ANY, {"count -> top": ANY})


@pytest.mark.parametrize("grouping", ["shuffle", "fields:word"])
def test_nothing_waits_between_operators_of_a_stage(grouping: str) -> None:
    job = flow("chained")
    job.source("lines").operator("parse").operator("count", grouping=grouping, timeout_s=3.0).sink("out")
    with pytest.raises(TopologyError, match=r"edge 'parse -> count' .*: expected no queue_bound .*timeout_s=3.*queued"):
        compile_stages(job.build())


def test_edges_of_one_source_share_its_queue() -> None:
    job = flow("both")
    lines = job.source("lines")
    lines.operator("parse", queue_bound=5)
    lines.operator("other")
    with pytest.raises(
        TopologyError, match=r"'lines -> other' .*expected the limits of 'lines -> parse' \(queue_bound=5\)"
    ):
        compile_stages(job.build())


def test_a_queued_edge_beside_an_inline_one_has_limits_of_its_own() -> None:
    job = flow("both")
    lines = job.source("lines")
    lines.operator("parse", queue_bound=5)
    lines.operator("other", queued=True, queue_bound=9)
    found = queue_limits(compile_stages(job.build()), ANY)
    assert found == {"lines": QueueLimits(queue_bound=5), "lines.out-other": QueueLimits(queue_bound=9)}
