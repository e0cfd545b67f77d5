"""The files that ``foretide init`` writes: a topology, its input, settings, a test, and a README."""

from __future__ import annotations

import math

__all__ = ["starter_files"]

_PIPELINE = '''"""A stream of web requests: which pages fail, and how often.

    foretide show pipeline.py                                  # check it and show it
    foretide simulate pipeline.py --trace traffic.csv          # try it in simulated time, without Spark
    foretide run pipeline.py --config foretide.toml            # run it on Spark, steered ahead of its load
"""

from __future__ import annotations

import time
from pathlib import Path

import pandas as pd

from foretide import flow

HERE = Path(__file__).resolve().parent
# How long the lookup takes for one request. It stands for a store in the network: nothing is computed meanwhile.
LOOKUP_S = 0.005


# An operator is a plain function. Foretide calls it in Spark's Python workers with a piece of the rows of its task: a
# pandas DataFrame here. mode="arrow" would give an Arrow batch, mode="rows" one dictionary at a time.
# The column event_time is Foretide's: pass it on, and latency is measured up to the sink.
def parse(lines: pd.DataFrame) -> pd.DataFrame:
    """Return page and status of every request line, such as '10.0.0.1 GET /news 200 6969'."""
    parts = lines["text"].str.split(" ")
    return pd.DataFrame(
        {"page": parts.str[2], "status": parts.str[3].astype("int32"), "event_time": lines["event_time"]}
    )


def lookup(requests: pd.DataFrame) -> pd.DataFrame:
    """Return the requests with the team in charge of the page."""
    time.sleep(LOOKUP_S * len(requests))
    return requests.assign(team=requests["page"].str[1:2].map(lambda letter: "a-m" if letter < "n" else "n-z"))


# An operator with a key keeps a row of state for each of its values. It gets all rows that a batch has for its keys and
# the states they have, indexed by key, with nulls where a key is new; it returns its output and the new states.
def count(requests: pd.DataFrame, totals: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Add requests and failures of every page to those it has had since the start, and return the new totals."""
    failed = requests.assign(failed=(requests["status"] >= 500).astype("int64"))
    came = failed.groupby(["team", "page"]).agg(requests=("status", "size"), failed=("failed", "sum"))
    totals = totals.fillna(0).astype("int64").add(came)
    return totals.reset_index(), totals


def build(store: str | Path = "out/pages.db"):
    """Return the topology; declaring it runs nothing."""
    job = flow("@NAME@")
    (
        # The recorded rate of traffic.csv with generated lines. Ten minutes of it pass in one (speed), at a tenth of
        # the rate, so that as many requests a second come as the file says.
        # Your own stream takes its place: job.source("lines", "kafka", ...), "files" and others, see the documentation.
        job.source("lines", "trace", trace=str(HERE / "traffic.csv"), payload="logs", speed=10, rate_scale=0.1)
        # execution_s: what one event takes, for planning and for the simulator. Left out, it is measured.
        # replicas: the least and the most of them.
        .operator(
            "parse",
            parse,
            mode="pandas",
            schema="page string, status int",
            execution_s=0.0002,
            replicas=(1, 2),
        )
        .operator(
            "lookup",
            lookup,
            mode="pandas",
            schema="page string, status int, team string",
            execution_s=LOOKUP_S,
            replicas=(1, 6),
        )
        # Equal keys meet in one task. Replicas change as those of the others do, and no state moves for it.
        .operator(
            "count",
            count,
            mode="pandas",
            key=["team", "page"],
            state="requests long, failed long",
            schema="team string, page string, requests long, failed long",
            execution_s=0.0001,
            replicas=(1, 2),
        )
        # "memory" keeps the rows, "parquet" and "postgres" write them elsewhere.
        .sink("pages", "sqlite", path=str(store), table="pages")
    )
    return job.build()


#: What the commands look for in this file.
topology = build()
'''

_SETTINGS = """# Settings that matter; `foretide run pipeline.py --config foretide.toml` reads them.
# For all settings see the page "Configuration" of the documentation, or `foretide docs configuration`.

# `foretide planners` lists the planners, `foretide forecast models` the forecasters.
planner = "foretide"
forecaster = "auto"

[loop]
# Seconds between two decisions. Short ones follow the load, long ones change less.
td_s = 5.0
# Decide and record, but change nothing: to see what it would do first.
advisory = false

[planners.foretide]
# How many times the unavoidable wait is acceptable: less keeps latency low, more saves replicas.
patience = 1.2

[guards]
# The part of their time that replicas are to be busy. The rest is headroom for the unexpected.
utilisation_target = 0.75
"""

_TEST = '''"""Runs the pipeline without Spark: its operators on known events, and the policy on the recorded traffic."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pipeline

from foretide import load_settings
from foretide.sim import simulate
from foretide.traces import load_trace
from foretide.traces.payloads import payload

HERE = Path(__file__).resolve().parent
EVENTS = 200


def lines() -> pd.DataFrame:
    """Return the first events of the stream: event 17 is always the same."""
    made = payload("logs")(np.arange(EVENTS)).to_pandas()
    return made.assign(event_time=pd.Timestamp("2024-05-01", tz="UTC"))


def no_totals(requests: pd.DataFrame) -> pd.DataFrame:
    """Return what an operator with a key is given at first: a row of nulls for each key."""
    keys = pd.MultiIndex.from_frame(requests[["team", "page"]].drop_duplicates())
    return pd.DataFrame({"requests": None, "failed": None}, index=keys, dtype="float64")


def test_the_operators_give_the_exact_result() -> None:
    given = pipeline.lookup(pipeline.parse(lines()))
    found, totals = pipeline.count(given, no_totals(given))
    parts = [line.split(" ") for line in lines()["text"]]
    requests = Counter(page for _, _, page, _, _ in parts)
    failed = Counter(page for _, _, page, status, _ in parts if int(status) >= 500)
    assert dict(zip(found["page"], found["requests"])) == requests
    assert {page: number for page, number in zip(found["page"], found["failed"]) if number} == failed
    assert set(found["team"]) == {"a-m", "n-z"}
    again, _ = pipeline.count(given, totals)
    assert (again["requests"] == 2 * found["requests"]).all()


def test_the_policy_keeps_up_with_the_traffic_and_saves_replicas() -> None:
    settings = load_settings(HERE / "foretide.toml")
    report = simulate(
        pipeline.topology,
        load_trace(HERE / "traffic.csv"),
        planner=settings.planner,
        forecaster=settings.forecaster,
        td_s=settings.loop.td_s,
    )
    assert report.metrics.processed > 0.99
    assert report.metrics.latency_mean_ms < 2_000
    assert report.metrics.saved > 0.2
'''

_README = """# @NAME@

A stream of web requests, steered ahead of its load by [Foretide](https://pypi.org/project/foretide/).

| File | What it is |
|---|---|
| `pipeline.py` | the topology: operators as plain functions, and how they are connected |
| `traffic.csv` | the input: events per second, one row for each five seconds; replace it with your own |
| `foretide.toml` | the few settings that matter |
| `test_pipeline.py` | the operators' exact result, and the policy in the simulator |

```sh
foretide show pipeline.py                                    # check it and show it
foretide simulate pipeline.py --trace traffic.csv --policy foretide --td 5 --html out/simulated.html
foretide compare --topology pipeline.py --traces traffic.csv --policies foretide:lr,pasps:lr,threshold,static --td 5
pytest                                                       # the tests, without Spark
foretide run pipeline.py --config foretide.toml --path out/run --html out/report.html    # on Spark, about a minute
foretide state out/run count --limit 5                       # what the last operator keeps
foretide serve                                               # the dashboard of recorded runs
```

`foretide doctor` says whether this machine has what Spark needs. Results are in `out/pages.db`:

```sh
sqlite3 out/pages.db 'SELECT page, max(requests), max(failed) FROM pages GROUP BY page ORDER BY 2 DESC LIMIT 5'
```
"""

_BIN_S, _BINS = 5, 120


def starter_files(name: str) -> dict[str, str]:
    """Return the content of each file of a starter project.

    Parameters
    ----------
    name : str
        What to call the topology.

    >>> sorted(starter_files("shop"))
    ['.gitignore', 'README.md', 'foretide.toml', 'pipeline.py', 'test_pipeline.py', 'traffic.csv']
    """
    files = {
        "pipeline.py": _PIPELINE,
        "traffic.csv": _traffic(),
        "foretide.toml": _SETTINGS,
        "test_pipeline.py": _TEST,
        "README.md": _README,
        ".gitignore": "out/\n__pycache__/\n.pytest_cache/\n",
    }
    return {file: content.replace("@NAME@", name) for file, content in files.items()}


def _traffic() -> str:
    """Return a day in ten minutes: a morning, a noon with a peak, an evening."""
    rows = ["second,events_per_second"]
    for number in range(_BINS):
        part = number / _BINS
        rate = 120 + 300 * math.exp(-(((part - 0.35) / 0.12) ** 2)) + 180 * math.exp(-(((part - 0.75) / 0.1) ** 2))
        ripple = 12 * math.sin(2.1 * number) + 8 * math.sin(0.37 * number)
        rows.append(f"{number * _BIN_S},{rate + ripple:.1f}")
    return "\n".join(rows) + "\n"
