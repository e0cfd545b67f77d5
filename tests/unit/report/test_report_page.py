from __future__ import annotations

import re

import numpy as np
import pytest

from foretide.errors import ConfigError
from foretide.report import DecisionMark, Expected, Figure, RunRecord, to_html
from foretide.report.figure import ROWS, run_figure


def record(steps: int = 10, **changes: object) -> RunRecord:
    at_s = np.arange(1.0, steps + 1)
    values: dict[str, object] = {
        "title": "words & <more>",
        "operators": ("split", "count"),
        "at_s": at_s,
        "input_per_s": 100.0 + at_s,
        "throughput_per_s": 99.0 + at_s,
        "replicas": np.tile([1, 2], (steps, 1)),
        "queued": np.tile([5.0, 7.0], (steps, 1)),
        "latency_at_s": at_s,
        "latency_ms": {"mean": at_s, "p50": at_s, "p95": 2 * at_s, "p99": 3 * at_s},
        "figures": (Figure("saved resources", "0.521", "mean of 1 − r/r_over"),),
        "facts": {"policy": "pasps"},
        "decisions": (
            DecisionMark(5.0, "5 s: 3 → 4 replicas", ("count 2 → 3: λ̂·et/td = 2.4 <b>",)),
            DecisionMark(8.0, "8 s: 4 replicas stay", (), changed=False),
        ),
        "counted_from_s": 3.0,
        "notes": ("1,000 events received.",),
        **changes,
    }
    return RunRecord(**values)  # type: ignore[arg-type]


def names(figure: object) -> list[str]:
    return [trace.name for trace in figure.data]  # type: ignore[attr-defined]


def test_every_part_is_plotted_over_the_same_time() -> None:
    expected = Expected(
        from_s=np.array([0.0, 5.0]),
        to_s=np.array([5.0, 10.0]),
        rate_per_s=np.array([100.0, 104.0]),
        low_per_s=np.array([90.0, 95.0]),
        high_per_s=np.array([110.0, 120.0]),
        band="10–90 %",
        made_by="lr",
    )
    figure = run_figure(record(expected=expected))
    found = names(figure)
    for name in ("input", "forecast (lr)", "forecast, 10–90 %", "split", "count", "in", "out", "latency p99"):
        assert name in found
    assert [title.text for title in figure.layout.annotations] == [title for title, _ in ROWS]
    assert figure.layout.yaxis5.type == "log"
    assert {figure.layout[f"xaxis{row}"].matches for row in ("", "2", "3", "4")} == {"x5"}
    [line] = [trace for trace in figure.data if trace.name == "forecast (lr)"]
    assert (list(line.x), list(line.y)) == ([0.0, 5.0, 10.0], [100.0, 104.0, 104.0])


def test_decisions_carry_their_reasons_where_the_pointer_rests() -> None:
    figure = run_figure(record())
    [changed] = [trace for trace in figure.data if trace.name == "decision, with its reasons"]
    assert changed.text == ("<b>5 s: 3 → 4 replicas</b><br>count 2 → 3: λ̂·et/td = 2.4 &lt;b&gt;",)
    assert list(changed.y) == [3]
    [idle] = [trace for trace in figure.data if trace.name == "decision that changed nothing"]
    assert list(idle.x) == [8.0]


def test_without_forecast_decisions_or_latency_the_rest_is_plotted() -> None:
    figure = run_figure(record(decisions=(), latency_at_s=np.empty(0), latency_ms={}))
    assert names(figure) == ["input", "split", "count", "in", "out", "split", "count"]


def test_a_long_run_is_thinned_and_keeps_its_peaks() -> None:
    queued = np.zeros((100_000, 2))
    queued[77_777, 1] = 1e6
    figure = run_figure(record(100_000, queued=queued))
    lines = [trace for trace in figure.data if trace.name == "count"]
    assert all(len(line.x) <= 4000 for line in lines)
    assert max(lines[-1].y) == 1e6
    [latency] = [trace for trace in figure.data if trace.name == "latency p99"]
    assert latency.y[-1] == 3 * 100_000


def test_the_page_needs_nothing_from_elsewhere_and_escapes_what_it_shows() -> None:
    page = to_html(record())
    outside = page.replace(re.search(r"<script>(.*?)</script></head>", page, re.DOTALL).group(1), "")  # type: ignore[union-attr]
    assert not re.search(r'(src|href)="?https?:', outside)
    assert "words &amp; &lt;more&gt;" in outside
    assert "words & <more>" not in outside
    assert "saved resources" in outside
    assert "0.521" in outside
    assert "1,000 events received." in outside


def test_the_page_has_both_themes() -> None:
    page = to_html(record())
    assert "prefers-color-scheme: dark" in page
    assert '"#12181f"' in page
    assert '"#ffffff"' in page


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"input_per_s": np.zeros(3)}, "report.input_per_s"),
        ({"replicas": np.ones((10, 3), dtype=int)}, "report.replicas"),
        ({"latency_ms": {"p50": np.zeros(2)}}, "report.latency_ms.p50"),
    ],
)
def test_series_that_do_not_fit_are_refused(changes: dict[str, object], name: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(name)):
        record(**changes)
