"""The dashboard for Grafana asks for nothing that the service does not give, and shows all that it gives of runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families
from stores import say_that_it_runs

from foretide.service import create_app
from foretide.store import RunStore

DASHBOARD = Path(__file__).parents[3] / "docs" / "grafana" / "foretide.json"
METRIC = re.compile(r"\bforetide_\w+")
LABELS = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"")
BY = re.compile(r"\bby \(([^)]*)\)")
LEGEND = re.compile(r"\{\{(\w+)\}\}")


@pytest.fixture(scope="module")
def dashboard() -> dict[str, Any]:
    return json.loads(DASHBOARD.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


@pytest.fixture
def exposed(tmp_path: Path, record_run: Callable[..., str]) -> dict[str, set[str]]:
    """Return the labels of every metric that the service prints, by name, while a run is alive."""
    found: dict[str, set[str]] = {}
    path = tmp_path / "runs.db"
    with RunStore(path, threaded=False) as store:
        say_that_it_runs(path, record_run(store))
        with TestClient(create_app(store), base_url="http://127.0.0.1") as client:
            assert client.post("/v1/forecast/lr", json={"samples": [1, 2, 3], "horizon": 2}).status_code == 200
            text = client.get("/metrics").text
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def targets(dashboard: dict[str, Any]) -> list[dict[str, str]]:
    return [target for panel in dashboard["panels"] for target in panel.get("targets", ())]


def queries(dashboard: dict[str, Any]) -> list[str]:
    variables = [one["query"]["query"] for one in dashboard["templating"]["list"] if isinstance(one["query"], dict)]
    return [*(target["expr"] for target in targets(dashboard)), *variables]


def test_every_metric_that_it_asks_for_is_there(dashboard: dict[str, Any], exposed: dict[str, set[str]]) -> None:
    asked = {name for query in queries(dashboard) for name in METRIC.findall(query)}
    assert asked and asked <= set(exposed)


def test_every_label_that_it_asks_for_is_there(dashboard: dict[str, Any], exposed: dict[str, set[str]]) -> None:
    for target in targets(dashboard):
        [metric] = set(METRIC.findall(target["expr"]))
        grouped = {label.strip() for part in BY.findall(target["expr"]) for label in part.split(",")}
        used = {*LABELS.findall(target["expr"]), *LEGEND.findall(target.get("legendFormat", "")), *grouped}
        assert used <= exposed[metric], target["expr"]


def test_it_shows_every_gauge_of_a_run(dashboard: dict[str, Any], exposed: dict[str, set[str]]) -> None:
    asked = {name for query in queries(dashboard) for name in METRIC.findall(query)}
    assert {name for name, labels in exposed.items() if "run" in labels} <= asked


def test_panels_do_not_overlap_and_have_ids_of_their_own(dashboard: dict[str, Any]) -> None:
    panels, taken = dashboard["panels"], set()
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, panel["title"]
                taken.add((x, y))


def test_it_names_no_server_of_anyones(dashboard: dict[str, Any]) -> None:
    sources = [panel["datasource"]["uid"] for panel in dashboard["panels"] if "datasource" in panel]
    assert set(sources) == {"${datasource}"}
