from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_modules import benchmark_module


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return benchmark_module("_report")


def test_file_and_section_are_made_where_missing(report: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "docs" / "benchmarks.md"
    report.write_section(file, "planning", "## Planning\n\nfast\n")
    assert file.read_text() == ("# Benchmarks\n\n<!-- planning:begin -->\n## Planning\n\nfast\n<!-- planning:end -->\n")


def test_a_section_is_replaced_and_others_stay(report: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text("# Ours\n\nby hand\n")
    report.write_section(file, "one", "first")
    report.write_section(file, "two", "second")
    file.write_text(file.read_text() + "\nby hand too\n")
    report.write_section(file, "one", "third")
    assert file.read_text() == (
        "# Ours\n\nby hand\n\n<!-- one:begin -->\nthird\n<!-- one:end -->\n\n"
        "<!-- two:begin -->\nsecond\n<!-- two:end -->\n\nby hand too\n"
    )


def test_a_section_without_end_is_left_alone(report: ModuleType, tmp_path: Path) -> None:
    file = tmp_path / "benchmarks.md"
    file.write_text("<!-- one:begin -->\nhalf")
    with pytest.raises(ValueError, match=r"expected '<!-- one:end -->' after"):
        report.write_section(file, "one", "new")
    assert file.read_text() == "<!-- one:begin -->\nhalf"


def test_facts_do_not_name_the_host(report: ModuleType, tmp_path: Path) -> None:
    facts = report.machine_facts("no-such-package")
    assert set(facts) == {"cores", "processor", "system", "python", "numpy", "no-such-package"}
    assert facts["no-such-package"] == "not installed"
    report.write_json(tmp_path / "new" / "facts.json", facts)
    assert json.loads((tmp_path / "new" / "facts.json").read_text()) == facts


@pytest.fixture
def repository(report: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit, whose benchmarks are those that the reports know."""
    texts = {
        "benchmarks/speed.py": "from _shared import x\n",
        "benchmarks/_shared.py": 'import _deeper\nJOB = "a_job.py"\n',
        **dict.fromkeys(("benchmarks/_deeper.py", "benchmarks/a_job.py", "benchmarks/_unused.py"), "first\n"),
        **dict.fromkeys(("benchmarks/other.py", "src/package.py", "docs/page.md"), "first\n"),
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "-q")
    commit_all(tmp_path)
    monkeypatch.setattr(report, "_HERE", tmp_path / "benchmarks")
    return tmp_path


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=folder, check=True)


def commit_all(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "change")


@pytest.mark.parametrize(
    ("changed", "current"),
    [
        *((name, True) for name in ("docs/page.md", "benchmarks/other.py", "benchmarks/_unused.py")),
        *((f"benchmarks/{name}.py", False) for name in ("speed", "_shared", "_deeper", "a_job")),
        ("src/package.py", False),
    ],
)
def test_a_result_holds_until_its_code_changes(
    report: ModuleType, repository: Path, changed: str, current: bool
) -> None:
    found = {"name": "speed", "commit": report.commit()}
    (repository / changed).write_text("second\n")
    commit_all(repository)
    assert report.is_current(found) is current


def test_code_of_a_benchmark_is_what_it_runs(report: ModuleType) -> None:
    assert {"_flink.py", "flink_keyed_job.py", "keyed_state.py", "rescale_gap.py"} <= set(report.code_of("keyed_flink"))
    assert {"_field.py", "_connector.py", "field_jobs"} <= set(report.code_of("field"))
    assert not {"_health_runs.py", "field_jobs"} & set(report.code_of("throughput"))


@pytest.mark.parametrize("commit", ["unknown", "1234567", "HEAD+changes"])
def test_a_result_of_an_unknown_commit_is_not_current(report: ModuleType, repository: Path, commit: str) -> None:
    assert not report.is_current({"name": "speed", "commit": commit})
