"""Settings of Spark's and of the engine, by options and in the file of --config."""

from __future__ import annotations

from pathlib import Path

import pytest

from foretide.commands.running.attach_request import AttachRequest
from foretide.commands.running.request import RunRequest
from foretide.errors import ConfigError

FILE = """
[engine]
edges = "kafka"
kafka_servers = "broker:9092"
failed_share = 0.25

[spark]
executor.memory = "2g"
executor.cores = 2
ui.enabled = true
"jars.packages" = ["a:b:1", "c:d:2"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(FILE)
    return path


def test_the_command_line_wins_over_the_file_and_the_file_over_defaults(file: Path) -> None:
    request = RunRequest(named="job.py", config=file, engine=["kafka_servers=other:9092", "letter_bytes=20_000"])
    found = request.engine_settings({"trigger_s": 0.25, "failed_share": 0.1}, {"queue_bound": 9})
    assert (found.edges, found.kafka_servers, found.failed_share) == ("kafka", "other:9092", 0.25)
    assert (found.trigger_s, found.letter_bytes, found.queue_bound) == (0.25, 20_000, 9)


def test_settings_of_spark_have_their_full_names(file: Path) -> None:
    request = RunRequest(named="job.py", config=file, conf=["spark.executor.memory=4g", "spark.x=a=b"])
    assert request.spark_settings() == {
        "spark.executor.memory": "4g",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "true",
        "spark.jars.packages": "a:b:1,c:d:2",
        "spark.x": "a=b",
    }


def test_neither_is_recorded_with_a_run(file: Path) -> None:
    recorded = RunRequest(named="job.py", config=file).settings.model_dump(mode="json")
    assert not {"engine", "spark"} & set(recorded)


def test_an_unknown_setting_of_the_engine_in_the_file_is_refused_with_the_nearest_name(file: Path) -> None:
    file.write_text("[engine]\nkafka_server = 'x'\n")
    with pytest.raises(ConfigError, match=r"'engine.kafka_server': .* did you mean 'kafka_servers'"):
        RunRequest(named="job.py", config=file).engine_settings({}, {})


def test_a_job_that_is_attached_to_has_its_own_session(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"no tables \[engine\] and \[spark\]"):
        _ = AttachRequest(config=file).values
