"""Options that nobody reads are refused when a topology is built."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from foretide.errors import ConfigError, TopologyError, TopologyErrors
from foretide.spark.kafka_options import KafkaSinkPlan, KafkaSourcePlan
from foretide.spark.sinks.contract import open_sink
from foretide.spark.sinks.postgres import PostgresSinkSettings
from foretide.topology import Flow, KindOptions, flow, register_sink_kind, register_source_kind
from foretide.topology.options import SINK_OPTIONS, SOURCE_OPTIONS
from foretide.traces.options import Options
from foretide.traces.plan import TracePlan


def errors_of(job: Flow) -> list[TopologyError]:
    with pytest.raises(TopologyErrors) as caught:
        job.build()
    return list(caught.value.errors)


def line(
    source: tuple[Any, dict[str, Any]] = ("none", {}),
    operator: dict[str, Any] | None = None,
    sink: tuple[Any, dict[str, Any]] = ("none", {}),
) -> Flow:
    job = flow("line")
    stream = job.source("in", source[0], **source[1]).operator("a", **(operator or {}))
    stream.sink("out", sink[0], **sink[1])
    return job


@pytest.mark.parametrize(
    ("job", "element", "got", "remedy"),
    [
        (line(source=("trace", {"trace": "pasps_dns", "sped": 20})), "source 'in'", "'sped'", "did you mean 'speed'?"),
        (line(source=("kafka", {"topics": "t"})), "source 'in'", "'topics'", "did you mean 'topic'?"),
        (line(source=("none", {"rate": 1})), "source 'in'", "'rate'", "correct its name, or remove it"),
        (line(operator={"kee": "h"}), "operator 'a'", "'kee'", "did you mean 'key'?"),
        (line(operator={"replica": (1, 8)}), "operator 'a'", "'replica'", "did you mean 'replicas'?"),
        (line(operator={"grouped": "fields:h"}), "operator 'a'", "'grouped'", "did you mean 'grouping'?"),
        (line(operator={"mode": "dataframe", "outputmode": "update"}), "operator 'a'", "'outputmode'", "'output_mode'"),
        (line(operator={"mode": "dataframe", "tables": {}}), "operator 'a'", "'tables'", ""),
        (line(sink=("sqlite", {"path": "x", "tabel": "y"})), "sink 'out'", "'tabel'", "did you mean 'table'?"),
        (line(sink=("postgres", {"url": "x", "key": "y"})), "sink 'out'", "'key'", "did you mean 'keys'?"),
        (line(sink=("memory", {"size": 1})), "sink 'out'", "'size'", "remove it"),
    ],
)
def test_an_option_that_nobody_reads_is_refused_with_the_nearest_name(
    job: Flow, element: str, got: str, remedy: str
) -> None:
    [error] = errors_of(job)
    assert (error.element, error.got) == (element, f"the unknown option {got}")
    assert remedy in error.remedy
    assert error.declared is not None and error.declared.file == "test_options.py"


def test_all_of_them_are_told_at_once() -> None:
    job = line(("trace", {"sped": 2}), {"kee": "h", "nonsense": 7}, ("parquet", {"pth": "x"}))
    assert [error.got.split()[-1] for error in errors_of(job)] == ["'sped'", "'kee'", "'nonsense'", "'pth'"]


@pytest.mark.parametrize("name", ["rate_scale", "rateScale", "RATESCALE"])
def test_options_of_a_trace_may_be_written_either_way(name: str) -> None:
    line(("trace", {"trace": "pasps_dns", name: 2.0})).build()


def test_a_misspelt_kind_is_refused_and_one_of_others_is_left_to_them() -> None:
    [error] = errors_of(line(("trce", {"trace": "pasps_dns"})))
    assert (error.got, error.remedy) == ("'trce'", "did you mean 'trace'?")
    [error] = errors_of(line(sink=("sqlit", {})))
    assert error.remedy == "did you mean 'sqlite'?"
    line(("mqtt", {"host": "h"}), sink=("redis", {"host": "h"})).build()


def test_a_kind_of_another_package_can_be_made_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foretide.topology.options.SOURCE_OPTIONS", SOURCE_OPTIONS.copy())
    monkeypatch.setattr("foretide.topology.options.SINK_OPTIONS", SINK_OPTIONS.copy())
    register_source_kind("mqtt", KindOptions(("host", "port")))
    register_sink_kind("redis", KindOptions(("host",), passes_on=True))
    line(("mqtt", {"host": "h"}), sink=("redis", {"host": "h", "retries": 3})).build()
    [error] = errors_of(line(("mqtt", {"hots": "h"})))
    assert error.remedy == "did you mean 'host'?"


def test_options_of_files_go_to_the_reader_of_spark() -> None:
    line(("files", {"path": "in", "format": "csv", "header": True})).build()


class TestFunctions:
    """The options of a user's function are its own parameters."""

    def test_a_source_takes_what_its_parameters_name(self) -> None:
        def read(spark: Any, folder: str, *, header: bool = True) -> Any: ...

        line((read, {"folder": "in", "header": False})).build()
        [error] = errors_of(line((read, {"foldr": "in"})))
        assert (error.expected, error.remedy) == ("an option among folder, header", "did you mean 'folder'?")
        line((lambda spark, **options: None, {"anything": 1})).build()

    def test_a_sink_gets_them_with_every_batch(self) -> None:
        seen: list[Any] = []

        def write(table: pa.Table, batch_id: int, folder: str) -> None:
            seen.append((table.num_rows, batch_id, folder))

        [sink] = line(sink=(write, {"folder": "out"})).build().sinks
        open_sink(sink).commit(3, (), pa.table({"id": [1, 2]}))
        assert seen == [(2, 3, "out")]
        [error] = errors_of(line(sink=(write, {"batch_id": 4})))
        assert error.got == "the unknown option 'batch_id'"


class TestOneTruth:
    """Those who read options know the same ones as those who check them."""

    def test_a_trace_reads_all_that_are_declared_and_no_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read: set[str] = set()
        original = Options.optional

        def optional(self: Options, name: str) -> str | None:
            read.add(name.lower())
            return original(self, name)

        monkeypatch.setattr(Options, "optional", optional)
        TracePlan.of_source("in", {"trace": "pasps_dns", "started_at": 5})
        assert read == {name.replace("_", "") for name in SOURCE_OPTIONS["trace"].names}

    def test_postgres_has_the_settings_that_are_declared(self) -> None:
        assert set(SINK_OPTIONS["postgres"].names) == set(PostgresSinkSettings.model_fields)

    @pytest.mark.parametrize(
        ("read", "names"),
        [(KafkaSourcePlan.of, SOURCE_OPTIONS["kafka"].names), (KafkaSinkPlan.of, SINK_OPTIONS["kafka"].names)],
    )
    def test_kafka_reads_all_that_are_declared(self, read: Any, names: tuple[str, ...]) -> None:
        class Seen(dict[str, Any]):
            def get(self, name: str, default: Any = None) -> Any:
                asked.add(name)
                return super().get(name, default)

        asked = set[str]()
        read(
            "x",
            Seen(
                {"servers": "localhost:1", "topic": "t", "schema": "id long"}
                if "schema" in names
                else {"servers": "localhost:1", "topic": "t"}
            ),
        )
        assert asked == set(names)

    @pytest.mark.parametrize("options", [{"trace": "pasps_dns", "sped": "2"}, {"trace": "pasps_dns", "Rate_Scal": "2"}])
    def test_the_data_source_refuses_the_same(self, options: dict[str, str]) -> None:
        with pytest.raises(ConfigError, match=r"foretide-trace: option .*expected an option among.*did you mean"):
            TracePlan.from_options("foretide-trace", options)
