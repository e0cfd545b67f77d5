"""The page of applications says what is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from foretide.apps import APPS

PAGE = Path(__file__).parents[3] / "docs" / "applications.md"
ROW = re.compile(r"^\| `([a-z-]+)` \| (\w+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_every_application_has_a_row_with_its_operators_and_store() -> None:
    rows = {name: (spec, operators, results) for name, spec, operators, results in ROW.findall(PAGE.read_text("utf-8"))}
    assert list(rows) == list(APPS)
    for name, (spec, operators, results) in rows.items():
        app, topology = APPS[name], APPS[name].build()
        assert spec == app.spec[0]
        assert sorted(re.findall(r"\w+", operators)) == sorted(topology.layout.operators), name
        store = app.read_options().store
        assert results.startswith("dropped" if store == "none" else f"`{store}`"), name


def test_the_examples_of_the_page_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted >= 5 and result.failed == 0
