"""Applications on the command line: listed, and taken where a topology file is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from foretide.apps import APPS
from foretide.cli import app
from foretide.commands.topology_argument import load_topology_argument, parse_settings
from foretide.errors import ConfigError, TopologyError


class TestApps:
    def test_every_application_is_listed_with_what_it_follows(self, runner: CliRunner) -> None:
        lines = runner.invoke(app, ["apps"]).stdout.splitlines()
        for each in APPS.values():
            assert any(line.startswith(each.name) and each.spec[0] in line for line in lines), each.name

    def test_one_is_shown_with_its_options(self, runner: CliRunner) -> None:
        text = runner.invoke(app, ["apps", "twitter-classification"]).stdout
        assert "lookup_ms" in text and "3.0" in text and "out/twitter-classification.db" in text

    def test_as_json_it_names_operators_and_options(self, runner: CliRunner) -> None:
        found = {entry["name"]: entry for entry in json.loads(runner.invoke(app, ["apps", "--json"]).stdout)}
        assert set(found) == set(APPS)
        one = json.loads(runner.invoke(app, ["apps", "dns", "--json"]).stdout)
        assert one == found["dns"]
        assert one["operators"] == ["parse", "feature", "classify", "store"]
        assert one["options"]["store"]["default"] == "out/dns.db" and one["options"]["store"]["description"]

    def test_an_unknown_one_is_refused(self, runner: CliRunner) -> None:
        result = runner.invoke(app, ["apps", "dsn"])
        assert result.exit_code == 2 and "did you mean 'dns'?" in result.stderr

    def test_help_teaches_with_an_example(self, runner: CliRunner) -> None:
        assert "Example: foretide apps" in runner.invoke(app, ["apps", "--help"], env={"COLUMNS": "120"}).stdout


class TestArgument:
    @pytest.mark.parametrize("command", ["show", "plan-spark"])
    @pytest.mark.parametrize("name", APPS)
    def test_a_name_stands_for_a_topology(self, runner: CliRunner, command: str, name: str) -> None:
        result = runner.invoke(app, [command, name, "--json"])
        assert result.exit_code == 0, result.output
        assert name in result.stdout

    def test_options_reach_the_application(self, runner: CliRunner) -> None:
        shown = runner.invoke(app, ["show", "twitter-classification", "--json", "--set", "lookup_ms=5"]).stdout
        times = {operator["id"]: operator["execution_s"] for operator in json.loads(shown)["operators"]}
        assert times["author"] == pytest.approx(0.00501)

    def test_a_file_of_that_name_wins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "dns").write_text("name: other\n")
        with pytest.raises(TopologyError, match=r"a name ending in \.toml"):
            load_topology_argument("dns")

    def test_what_is_neither_names_applications_and_files(self) -> None:
        with pytest.raises(
            ConfigError,
            match=r"'topology': expected a \.toml, .* or \.py file, or an application: one of .*'log'; did you mean",
        ):
            load_topology_argument(Path("log"))

    def test_a_file_takes_no_options(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"'--set': expected an application, which has options, got the file"):
            load_topology_argument(tmp_path / "job.toml", ["seed=1"])

    @pytest.mark.parametrize("text", ["seed", "=1", ""])
    def test_an_option_is_a_name_and_a_value(self, text: str) -> None:
        with pytest.raises(ConfigError, match=r"'--set': expected name=value, such as 'lookup_ms=5'"):
            parse_settings([text])

    def test_an_option_is_given_once(self) -> None:
        with pytest.raises(ConfigError, match="expected 'seed' once, got twice"):
            parse_settings(["seed=1", "seed=2"])

    def test_run_refuses_an_unknown_application_before_spark_starts(self, runner: CliRunner) -> None:
        result = runner.invoke(app, ["run", "twitter-classificaton"])
        assert result.exit_code == 2 and "did you mean 'twitter-classification'?" in result.stderr
