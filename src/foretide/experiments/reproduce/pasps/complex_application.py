"""The larger Twitter application of PA-SPS (its figure 11): eight operators, two branches that meet again."""

from __future__ import annotations

from typing import Any

from foretide.topology import Topology, flow

__all__ = ["COMPLEX_BASE_S", "COMPLEX_R_OVER", "complex_application"]

#: `r_over` of table 5: five replicas of each of eight operators.
COMPLEX_R_OVER = 40
#: The latency that table 5 prints for five replicas each, which leave no queue: it is all base latency.
COMPLEX_BASE_S = 0.032

# Replicas that each operator needs at the peak, with which the published saved resources come out.
_AT_PEAK = 2
_NEWS = 0.6
_POOL = 30


def complex_application(peak_rate: float) -> Topology:
    """Return the application, with execution times such that two replicas each are just enough at the peak.

    The paper prints neither execution times nor the split. Two replicas give its saved resources, though it defines
    `r_over` as what the highest peak needs and takes five; three of five tweets are taken for news.

    >>> [operator.id for operator in complex_application(20_000.0).operators]
    ['filter', 'kind', 'topic', 'source', 'sentiment', 'author', 'merge', 'store']
    """

    def declared(share: float) -> dict[str, Any]:
        # A hair less than the limit, or rounding would ask for a third.
        return {"execution_s": 0.999 * _AT_PEAK / (peak_rate * share), "replicas": (1, _POOL)}

    job = flow("twitter_complex")
    cleaned = job.source("tweets").operator("filter", **declared(1.0))
    kinds = cleaned.operator(
        "kind",
        outputs=("news", "opinion"),
        selectivity={"news": _NEWS, "opinion": 1.0 - _NEWS},
        **declared(1.0),
    )
    news = kinds["news"].operator("topic", **declared(_NEWS)).operator("source", **declared(_NEWS))
    opinion = kinds["opinion"].operator("sentiment", **declared(1.0 - _NEWS))
    opinion = opinion.operator("author", **declared(1.0 - _NEWS))
    merged = job.operator("merge", inputs=[news, opinion], **declared(1.0))
    merged.operator("store", **declared(1.0)).sink("database")
    return job.build()
