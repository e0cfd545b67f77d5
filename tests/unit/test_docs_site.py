"""The documentation's site: its hooks, and that its navigation has every page."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


site = load("docs_site")
docstrings = load("docs_docstrings")


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w./-]+\.md", CONFIG.partition("\nnav:")[2]))
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    by_itself = ("decisions/", "experiments/", "reproduction/", "README.md")
    assert {name for name in written if not name.startswith(by_itself)} - listed == set()


def test_every_package_of_the_reference_exists() -> None:
    for name in site.PACKAGES:
        assert importlib.util.find_spec(name) is not None, name


def test_links_lead_to_where_pages_are_on_the_site() -> None:
    text = (
        "[a](docs/spark.md#run) [b](LICENSE) [c](CHANGELOG.md) [d](examples/) [e](https://a.org/x.md) ![f](docs/a.png)"
    )
    expected = "[a](spark.md#run) [b](repository/LICENSE) [c](changelog.md) d [e](https://a.org/x.md) ![f](a.png)"
    assert site.rewritten(text, "README.md", "index.md") == expected
    assert site.rewritten("[a](../../README.md)", "docs/howto/x.md", "howto/x.md") == "[a](../index.md)"


def test_code_is_left_as_it_is() -> None:
    text = "```text\n[a](LICENSE)\n```\n"
    assert site.rewritten(text, "README.md", "index.md") == text


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://cdn.example/x.js"></script>', ["https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example/a.css">', ["//fonts.example/a.css"]),
        ('<img src="http://a.example/a.png">', ["http://a.example/a.png"]),
        ('<a href="https://a.example">a</a><link rel="canonical" href="https://a.example"><img src="a.png">', []),
    ],
)
def test_what_is_loaded_from_elsewhere_is_found(html: str, found: list[str]) -> None:
    assert site.loaded(html) == found


def test_bare_examples_are_marked() -> None:
    text = "Add.\n\n>>> 1 + 1\n2\n\nMore.\n\nExamples\n--------\n>>> 2\n2\n"
    expected = "Add.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.\n\nExamples\n--------\n>>> 2\n2"
    assert docstrings.marked(text) == expected


def test_examples_after_parameters_get_a_section_of_their_own() -> None:
    text = "Add.\n\nParameters\n----------\na : int\n    One.\n\n>>> 1\n1"
    assert docstrings.marked(text).endswith("    One.\n\nExamples\n--------\n>>> 1\n1")
