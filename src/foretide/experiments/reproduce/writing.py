"""From outcomes to files: a page, a figure and numbers for each experiment, and the index of all in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from foretide.errors import ConfigError
from foretide.experiments.reproduce.contract import Experiment, Result, Scope
from foretide.experiments.reproduce.figures import to_svg
from foretide.experiments.reproduce.markdown import index_page, result_page
from foretide.files import replace_file

__all__ = ["write_index", "write_result"]


def write_result(folder: Path, experiment: Experiment, result: Result, scope: Scope) -> tuple[Path, ...]:
    """Write the page, the figure and the numbers of an experiment, each whole or not at all; return their paths."""
    data = {
        "name": experiment.name,
        "title": experiment.title,
        "paper": experiment.source,
        "seeds": scope.seeds,
        "first_s": scope.first_s,
        **result.to_data(),
    }
    contents = {
        f"{experiment.name}.svg": to_svg(result.panels) if result.panels else "",
        f"{experiment.name}.json": json.dumps(data, indent=1, ensure_ascii=False) + "\n",
        f"{experiment.name}.md": result_page(experiment, result, scope),
    }
    return tuple(_write(folder / name, content) for name, content in contents.items() if content)


def write_index(folder: Path, experiments: Mapping[str, Experiment]) -> Path:
    """Write the index of every experiment whose numbers are in the folder."""
    entries = []
    for name, experiment in experiments.items():
        checks = _checks(folder / f"{name}.json")
        if checks is not None:
            entries.append((experiment, checks))
    return _write(folder / "README.md", index_page(entries))


def _checks(file: Path) -> list[tuple[str, bool]] | None:
    """Return the statements of an experiment and whether each holds; None where it has not been run, or not by us."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return [(str(check["claim"]), bool(check["holds"])) for check in found["checks"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, content: str) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        reason = f"{str(path)!r}: {(error.strerror or str(error)).lower()}"
        raise ConfigError(
            "--out", expected="a folder that can be written to", got=reason, remedy="choose another"
        ) from error
    return path
