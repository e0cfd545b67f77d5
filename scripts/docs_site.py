"""Hooks of mkdocs: pages that are generated, links that leave docs/, and that nothing comes from elsewhere.

The Markdown files of this repository are written to be read as they are. What a site needs beyond them is made here:
the README as its first page, the reference of commands and of Python's public names, navigation of decisions and
reproductions, and copies of the source files that pages point to.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from typer.main import get_command

from foretide.cli import app
from foretide.commands.docs_view import commands_markdown

ROOT = Path(__file__).resolve().parents[1]
#: Pages of the site that come from somewhere else in the repository.
ELSEWHERE = {
    "index.md": "README.md",
    "pages.md": "docs/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
#: Packages in the reference, with what they are for.
PACKAGES = {
    "foretide": "The names that most programs need",
    "foretide.topology": "Operators and the streams between them",
    "foretide.control": "The loop that measures, forecasts, plans and acts",
    "foretide.plan": "Planners and guards",
    "foretide.forecast": "Forecasters and backtests",
    "foretide.grouping": "Groupings",
    "foretide.health": "Workers that misbehave",
    "foretide.spark": "Running on Spark",
    "foretide.sim": "The simulator",
    "foretide.traces": "Recorded input",
    "foretide.store": "The store of runs",
    "foretide.transport": "The log behind queued edges",
    "foretide.records": "Records",
    "foretide.events": "Events",
    "foretide.clock": "Clocks",
    "foretide.metrics": "Metrics of SPEC P8",
    "foretide.report": "Reports",
    "foretide.apps": "Applications",
    "foretide.service": "The service",
    "foretide.errors": "Errors",
}
COPIES = "repository"
_FENCE = re.compile(r"^(```|~~~)[^\n]*\n.*?^\1$", re.MULTILINE | re.DOTALL)
_MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(\]\()([^()\s#:]+)(#[^()\s]*)?(\))")


def on_config(config: Any) -> Any:
    """Fill in the parts of the navigation that follow what there is."""
    listed = {
        "Python": [{name: f"reference/{name}.md"} for name in PACKAGES],
        "Decisions": [{_title(path): f"decisions/{path.name}"} for path in sorted(_docs("decisions/*.md"))],
        "Reproductions": ["reproduction/README.md"]
        + [
            {path.stem: f"reproduction/{path.name}"}
            for path in sorted(_docs("reproduction/*.md"))
            if path.stem != "README"
        ],
    }
    listed["Experiments on Spark"] = [
        {path.stem: f"experiments/{path.name}"} for path in sorted(_docs("experiments/*.md"))
    ]
    for part in config.nav:
        for entries in part.values():
            entries[:] = [_filled(entry, listed) for entry in entries if _there(entry)]
    return config


def _filled(entry: Any, listed: Mapping[str, list[Any]]) -> Any:
    if isinstance(entry, dict) and list(entry.values()) == [[]]:
        [name] = entry
        return {name: listed[name]}
    return entry


def _there(entry: Any) -> bool:
    """Tell whether an entry leads somewhere: generated pages always do, others when they are written."""
    target = entry if isinstance(entry, str) else next(iter(entry.values()))
    generated = not isinstance(target, str) or target in ELSEWHERE or target.startswith("reference/")
    return generated or (ROOT / "docs" / target).exists()


def _docs(pattern: str) -> Iterator[Path]:
    return (ROOT / "docs").glob(pattern)


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are generated, and copies of files that pages point to."""
    readme = files.get_file_from_path("README.md")
    if readme is not None:
        files.remove(readme)
    for name, source in ELSEWHERE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    commands = commands_markdown(get_command(app))
    files.append(File.generated(config, "reference/cli.md", content=commands))
    for name, summary in PACKAGES.items():
        content = f"# {name}\n\n{summary}.\n\n::: {name}\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    for path in sorted(_pointed_at(files)):
        files.append(File.generated(config, f"{COPIES}/{path}", abs_src_path=str(ROOT / path)))
    return files


def _pointed_at(files: Files) -> set[str]:
    """Return the files outside docs/ that pages link to."""
    found: set[str] = set()
    for file in files.documentation_pages():
        source = _source_of(file.src_uri)
        if source is not None:
            for _, target, _, _ in _LINK.findall(_FENCE.sub("", (ROOT / source).read_text(encoding="utf-8"))):
                path = _resolved(source, target)
                if not path.startswith("docs/") and path not in ELSEWHERE.values() and (ROOT / path).is_file():
                    found.add(path)
    return found


def _source_of(page: str) -> str | None:
    """Return where in the repository a page comes from; None for one that is generated."""
    if page in ELSEWHERE:
        return ELSEWHERE[page]
    return f"docs/{page}" if (ROOT / "docs" / page).exists() else None


def _resolved(source: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), target))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to where their targets are on the site."""
    source = _source_of(page.file.src_uri)
    return markdown if source is None else rewritten(_MERMAID.sub("", markdown), source, page.file.src_uri)


def rewritten(markdown: str, source: str, page: str) -> str:
    """Return a page with its links changed; a link to a folder becomes its text.

    >>> rewritten("[a](docs/spark.md#run) [b](LICENSE) [c](CHANGELOG.md)", "README.md", "index.md")
    '[a](spark.md#run) [b](repository/LICENSE) [c](changelog.md)'
    >>> rewritten("[a](../README.md) [b](../spark.md)", "docs/howto/attach.md", "howto/attach.md")
    '[a](../pages.md) [b](../spark.md)'
    """
    pages = {where: name for name, where in ELSEWHERE.items()}

    def changed(found: re.Match[str]) -> str:
        path = _resolved(source, found[2])
        if path in pages:
            there = pages[path]
        elif path.startswith("docs/"):
            there = path.removeprefix("docs/")
        else:
            there = f"{COPIES}/{path}"
        return f"{found[1]}{posixpath.relpath(there, posixpath.dirname(page) or '.')}{found[3] or ''}{found[4]}"

    folders = re.compile(r"\[([^\]\n]*)\]\(([^()\s#:]+)\)")
    parts, last = [], 0
    for fence in [*_FENCE.finditer(markdown), None]:
        text = markdown[last : fence.start() if fence else None]
        text = folders.sub(lambda one: one[1] if (ROOT / _resolved(source, one[2])).is_dir() else one[0], text)
        parts += [_LINK.sub(changed, text), fence[0] if fence else ""]
        last = fence.end() if fence else last
    return "".join(parts)


def on_post_build(config: Any) -> None:
    """Refuse a site that would load anything from elsewhere."""
    site = Path(config.site_dir)
    found = {f"{path.relative_to(site)}: {url}" for path in site.rglob("*.html") for url in loaded(path.read_text())}
    if found:
        raise PluginError("pages load from elsewhere: " + "; ".join(sorted(found)[:10]))


def loaded(html: str) -> list[str]:
    """Return what a page loads from other servers; links that a reader may follow are none of it.

    >>> loaded('<a href="https://a.org">a</a><script src="https://b.org/x.js"></script><img src="c.png">')
    ['https://b.org/x.js']
    """
    reader = _Loads()
    reader.feed(html)
    return reader.found


class _Loads(HTMLParser):
    """Collects what scripts, styles, fonts and pictures come from."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        quiet = tag == "a" or (tag == "link" and given.get("rel") in {"canonical", "prev", "next"})
        for name in () if quiet else ("src", "href", "srcset", "data"):
            value = given.get(name) or ""
            if re.match(r"(https?:)?//", value):
                self.found.append(value)
