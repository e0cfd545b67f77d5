"""The extras: what is imported is declared, and the core does without what they install."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from foretide.errors import ConfigError, MissingExtraError
from foretide.extras import EXTRAS, extra_with, missing_modules, needs_extra

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = {"dev", "docs"}


def package(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None, requirement
    return found[0].lower().replace("_", "-")


known_packages = cache(packages_distributions)


def packages(modules: set[str]) -> dict[str, set[str]]:
    """Return the packages that install each module."""
    known = known_packages()
    return {module: {name.lower().replace("_", "-") for name in known[module]} for module in modules}


def imported() -> set[str]:
    """Return every module that the package imports, by its first name, wherever the import stands."""
    found: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"foretide"}


def test_what_is_imported_is_declared_and_nothing_else() -> None:
    core = {package(each) for each in PROJECT["dependencies"]}
    extras = {
        package(each)
        for extra, needed in PROJECT["optional-dependencies"].items()
        if extra not in {*FOR_DEVELOPERS, "all"}
        for each in needed
    }
    # The client of Kafka is imported by its name as text; `zoneinfo` of the standard library reads tzdata by itself.
    by = packages(imported() | {"confluent_kafka", "tzdata"})
    assert not [module for module, names in by.items() if not names & (core | extras)]
    assert core | extras == set().union(*(names & (core | extras) for names in by.values()))
    optional = {module for modules in EXTRAS.values() for module in modules}
    assert {module for module, names in by.items() if not names & core} == optional


def test_every_extra_installs_the_modules_that_the_code_expects_of_it() -> None:
    declared = {extra: {package(each) for each in needed} for extra, needed in PROJECT["optional-dependencies"].items()}
    assert set(declared) == {*EXTRAS, *FOR_DEVELOPERS, "all"}
    for extra, modules in EXTRAS.items():
        by = packages(set(modules))
        assert all(names & declared[extra] for names in by.values()), extra
        assert len(declared[extra]) == len(modules), extra


def test_all_is_every_extra_for_users() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    assert set(everything.removeprefix("foretide[").removesuffix("]").split(",")) == set(EXTRAS)


@pytest.mark.parametrize("module", ["plotly", "plotly.subplots"])
def test_a_missing_module_names_its_extra(module: str) -> None:
    with pytest.raises(ConfigError, match=r"report: expected plotly .*; pip install 'foretide\[plots\]'") as caught:
        with needs_extra("plots", "report"):
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
    assert isinstance(caught.value, MissingExtraError) and isinstance(caught.value, ImportError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.extra) == (str(caught.value), "plots")


def test_a_package_that_lacks_a_library_of_its_own_says_which() -> None:
    with (
        pytest.raises(MissingExtraError, match="got no pq wrapper available; pip install"),
        needs_extra("postgres", "x"),
    ):
        raise ImportError("no pq wrapper available.\nlong story".replace(".", ""))


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'mine'", name="mine"),
        ImportError("cannot import name 'x'", name="foretide.plan"),
        MissingExtraError("Kafka", "kafka", ("psutil",)),
        ValueError("no"),
    ],
)
def test_other_errors_pass(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, needs_extra("plots", "report"):
        raise error
    assert caught.value is error


def test_modules_are_looked_up_by_extra_and_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.extras.EXTRAS", {"mine": ("no_such_module", "json")})
    assert (missing_modules("mine"), missing_modules("other")) == (("no_such_module",), ())
    assert (extra_with("json.decoder"), extra_with("os"), extra_with(None)) == ("mine", None, None)


CORE = """
import json, sys
import numpy as np
from typer.testing import CliRunner
from foretide import flow, make_forecaster
from foretide.cli import app
from foretide.forecast import Series
from foretide.forecast.registry import FORECASTERS
from foretide.store import RunSpec, RunStore

job = flow("words")
job.source("in", "trace", trace="pasps_logs").operator("count", replicas=(1, 4)).sink("out")
with RunStore("runs.db") as store, store.begin_run(RunSpec(topology=job.build(), td_s=3.0)) as recorder:
    recorder.finish()
series = Series(100 + 50 * np.sin(np.arange(80) / 6))
found = {}
for name, model in FORECASTERS.items():
    if model.needs is None:
        found[name] = float(make_forecaster(name).fit(series).predict(3).mean[0]) > 0
    else:
        try:
            make_forecaster(name)
        except ImportError as error:
            found[name] = f"foretide[{model.needs}]" in str(error)
answers = {}
for line in json.loads(sys.stdin.read()):
    result = CliRunner().invoke(app, line.split())
    answers[line] = [result.exit_code, result.output]
print(json.dumps([found, answers]))
"""

WORKS = (
    "--help",
    "doctor",
    "warm-up",
    "demo",
    "planners",
    "show TOPOLOGY",
    "plan-spark TOPOLOGY",
    "steer words --path run",
    "runs list",
    "forecast models",
    "simulate pasps --trace short.csv --policy pasps --forecaster lr --td 30",
    "reproduce --list",
)
NAMES_AN_EXTRA = {
    "run TOPOLOGY": "spark",
    "apps": "spark",
    "show twitter-complex": "spark",
    "profile TOPOLOGY": "spark",
    "experiment split": "spark",
    "serve": "service",
    "kafka status": "kafka",
    "simulate pasps --trace short.csv --policy pasps --forecaster lr --td 30 --html x.html": "plots",
    "simulate pasps --trace short.csv --policy pasps --forecaster ann --td 30": "statistics",
    "runs list --store postgresql://localhost/x": "postgres",
}


@pytest.fixture(scope="module")
def without_extras(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bool], dict[str, tuple[int, str]]]:
    """Return what forecasters and commands do in a process that finds no module of any extra."""
    folder = tmp_path_factory.mktemp("core")
    (folder / "core.py").write_text(CORE, encoding="utf-8")
    (folder / "short.csv").write_text("second,events_per_second\n" + "".join(f"{second},20\n" for second in range(90)))
    lines = [line.replace("TOPOLOGY", str(ROOT / "examples" / "fig6.yaml")) for line in (*WORKS, *NAMES_AN_EXTRA)]
    support = ROOT / "tests" / "support" / "without_extras.py"
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "FORETIDE_STORE": str(folder / "runs.db"), "COLUMNS": "200"}
    ran = subprocess.run(
        [sys.executable, str(support), str(folder / "core.py")],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    models, answers = json.loads(ran.stdout.splitlines()[-1])
    return models, dict(zip((*WORKS, *NAMES_AN_EXTRA), answers.values(), strict=True))


@pytest.mark.parametrize("line", WORKS)
@pytest.mark.slow
def test_the_core_works_without_extras(line: str, without_extras: tuple[object, dict[str, tuple[int, str]]]) -> None:
    code, output = without_extras[1][line]
    assert code == 0, output


@pytest.mark.parametrize(("line", "extra"), NAMES_AN_EXTRA.items())
def test_what_needs_an_extra_names_it(
    line: str, extra: str, without_extras: tuple[object, dict[str, tuple[int, str]]]
) -> None:
    code, output = without_extras[1][line]
    assert (code, f"pip install 'foretide[{extra}]'" in output) == (2, True), output


def test_forecasters_work_or_name_their_extra(without_extras: tuple[dict[str, bool], object]) -> None:
    assert without_extras[0] and all(without_extras[0].values()), without_extras[0]
