"""``foretide attach``: its command line, and scripts that run as if Python itself ran them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from foretide.cli import app
from foretide.commands.running import attach as command
from foretide.commands.running.attach import launcher_path, prepare
from foretide.commands.running.attach_request import AttachRequest
from foretide.control.settings import attached_control
from foretide.errors import ConfigError

SUPPORT = Path(__file__).parents[2] / "support"
# Stands for the part that needs Spark.
RUN = "import sys; from pathlib import Path; from foretide.commands.running.script import run_script; " + (
    "run_script(Path(sys.argv[1]), sys.argv[2:])"
)
JOB = """
import os, signal, sys, threading
from helper import NAME

class Own:
    pass

print(__name__, sys.argv[1:], NAME, os.path.basename(__file__), sys.modules["__main__"].Own is Own, flush=True)
what = sys.argv[1]
if what == "exit":
    sys.exit(7)
if what == "raise":
    def fail():
        raise ValueError("no such topic")
    fail()
if what == "interrupt":
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(30)
if what == "syntax":
    compile("a b", "x.py", "exec")
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    (tmp_path / "helper.py").write_text("NAME = 'beside'\n")
    path = tmp_path / "job.py"
    path.write_text(JOB)
    return path


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


class TestScript:
    @pytest.mark.parametrize("what", ["exit", "raise", "interrupt", "syntax"])
    def test_it_ends_as_under_python_itself(self, job: Path, what: str) -> None:
        ours = run("-c", RUN, "job.py", what, "--x", "--", "1", cwd=job.parent)
        plain = run("job.py", what, "--x", "--", "1", cwd=job.parent)
        assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
        assert "__main__" in ours.stdout and "beside job.py True" in ours.stdout

    def test_a_folder_or_nothing_is_refused(self, tmp_path: Path) -> None:
        for path, got in ((tmp_path, "the folder"), (tmp_path / "none.py", "no such file")):
            with pytest.raises(ConfigError, match=f"a Python script, got .*{got}"):
                prepare_checked(path)


def prepare_checked(path: Path) -> None:
    from foretide.commands.running.script import check_script

    check_script(path)


class TestCommandLine:
    def invoked(
        self, runner: CliRunner, monkeypatch: pytest.MonkeyPatch, *arguments: str, env: dict[str, str] | None = None
    ) -> list[str]:
        became: list[str] = []
        monkeypatch.setattr(os, "execv", lambda program, given: became.extend([program, *given]))
        done = runner.invoke(app, ["attach", *arguments], env=env)
        assert done.exit_code == 0, done.output
        return became

    def test_it_becomes_the_launcher_with_the_same_options(
        self, runner: CliRunner, monkeypatch: pytest.MonkeyPatch, job: Path
    ) -> None:
        given = ("--executors", "1:4", "--slo", "p95<10s", "--advisory", str(job), "--executors", "-x", "--", "y")
        program, python, launcher, *rest = self.invoked(runner, monkeypatch, *given)
        assert (program, python, launcher) == (sys.executable, sys.executable, str(launcher_path()))
        assert rest == [*given[:5], "--", str(job), *given[6:]]

    def test_the_environment_says_the_same_as_options_which_win(
        self, runner: CliRunner, monkeypatch: pytest.MonkeyPatch, job: Path
    ) -> None:
        env = {"FORETIDE_EXECUTORS": "2:6", "FORETIDE_TD": "20", "FORETIDE_ADVISORY": "1", "FORETIDE_POLICY": "pasps"}
        found = self.invoked(runner, monkeypatch, "--td", "5", str(job), env=env)
        assert found[3:-2] == ["--executors", "2:6", "--policy", "pasps", "--td", "5.0", "--advisory"]

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            (["--executors", "4"], "the fewest and the most, such as 1:4, got '4'"),
            (["--executors", "4:1"], "maximum of at least minimum"),
            (["--slo", "fast"], "'--slo': expected a quantile and a latency"),
            (["--policy", "foretise"], "did you mean 'foretide'"),
            (["--forecaster", "lrr"], "lr"),
            (["--td", "0"], "greater than 0"),
            (["--config", "none.toml"], "a readable settings file"),
            (["--json", "/"], "a file that can be written"),
        ],
    )
    def test_what_is_wrong_is_said_before_anything_starts(
        self, runner: CliRunner, job: Path, options: list[str], said: str
    ) -> None:
        done = runner.invoke(app, ["attach", *options, str(job)])
        assert done.exit_code == 2
        assert said in " ".join(done.output.split())

    def test_where_prints_the_launcher(self, runner: CliRunner) -> None:
        done = runner.invoke(app, ["attach", "--where"])
        assert Path(done.stdout.strip()) == launcher_path() and launcher_path().exists()


class TestRequest:
    def test_a_file_wins_over_defaults_and_options_over_the_file(self, tmp_path: Path) -> None:
        file = tmp_path / "settings.toml"
        file.write_text(
            'planner = "pasps"\n[loop]\ntd_s = 20.0\n[executors]\nminimum = 2\nmaximum = 6\nrelease_after_s = 40.0\n'
        )
        plain, of_file = AttachRequest().values, AttachRequest(config=file).values
        assert (plain.control.loop.td_s, plain.control.loop.stale_after_s, plain.executors.maximum) == (5, 60, 8)
        assert (of_file.control.loop.td_s, of_file.control.loop.stale_after_s) == (20.0, 60.0)
        assert (of_file.control.planner, of_file.executors.maximum) == ("pasps", 6)
        found = AttachRequest(config=file, executors="1:3", td_s=0.5, policy="foretide:lr", advisory=True).values
        assert (found.executors.minimum, found.executors.maximum, found.executors.release_after_s) == (1, 3, 40.0)
        assert (found.control.loop.td_s, found.control.loop.sample_s, found.control.loop.advisory) == (0.5, 0.5, True)
        assert (found.control.planner, found.control.forecaster) == ("foretide", "lr")


class TestLauncher:
    def test_what_fails_later_costs_one_line_and_the_job_runs(
        self, job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def broken(self: Any) -> None:
            raise RuntimeError("a\nbroken part")

        monkeypatch.setattr(AttachRequest, "settings", broken)
        found = prepare(["--executors", "1:2", str(job), "exit"])
        assert (found.path, found.arguments) == (job, ("exit",))
        [line] = capsys.readouterr().err.splitlines()
        assert line == "foretide: not attached, the job runs as it is: RuntimeError: a broken part"

    @pytest.mark.parametrize(
        ("arguments", "status", "said"),
        [
            (["--executors", "x", "job.py"], 2, "Error: setting '--executors'"),
            (["--executers", "1:2", "job.py"], 2, "--executors"),
            ([], 2, "job.py"),
            (["--where"], 0, "launcher.py"),
        ],
    )
    def test_its_command_line_is_read_like_the_commands(
        self,
        job: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        arguments: list[str],
        status: int,
        said: str,
    ) -> None:
        monkeypatch.chdir(job.parent)
        with pytest.raises(SystemExit) as ended:
            prepare(arguments)
        printed = capsys.readouterr()
        assert ended.value.code == status
        assert said in printed.out + printed.err

    @pytest.mark.slow
    def test_without_pyspark_the_job_runs_as_it_is(self, job: Path) -> None:
        program = job.with_name("program.py")
        start = "import sys; from foretide.commands.running.launcher import main; main(sys.argv[2:])\n"
        program.write_text(start)
        done = run(str(SUPPORT / "without_extras.py"), "program.py", "job.py", "exit", cwd=job.parent)
        assert (done.returncode, done.stdout) == (7, "__main__ ['exit'] beside job.py True\n")
        [line] = done.stderr.splitlines()
        assert line.startswith("foretide: not attached, the job runs as it is:") and "foretide[spark]" in line


def test_the_command_has_the_signature_of_what_it_reads() -> None:
    assert command.attach.__wrapped__ is command._job_of  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["attach", "advise"])
def test_help_tells_how_often_is_decided(runner: CliRunner, name: str) -> None:
    said = runner.invoke(app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    assert f"{attached_control().loop.td_s:g} unless given" in said
