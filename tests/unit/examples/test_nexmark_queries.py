"""The queries of Nexmark as files: each is there under its name, on the page, and with the module that workers need."""

from __future__ import annotations

import re
from pathlib import Path

from foretide.compile.stages import compile_stages
from foretide.spark.session.shipping import modules_beside
from foretide.topology import load_topology

ROOT = Path(__file__).parents[3]
QUERIES = ROOT / "examples" / "nexmark" / "queries.py"


def test_every_query_of_the_page_can_be_run() -> None:
    names = re.findall(r"^\| `(q\d+)` \|", (ROOT / "docs" / "nexmark.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert names == [f"q{number}" for number in (*range(10), 11, 12)]
    topologies = [load_topology(f"{QUERIES}:{name}") for name in names]
    assert [topology.name for topology in topologies] == [f"nexmark-{name}" for name in names]
    assert all(len(compile_stages(topology).stages) == 1 for topology in topologies)
    assert [path.name for path in modules_beside(QUERIES)] == ["generator.py"]
