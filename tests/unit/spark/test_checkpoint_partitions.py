"""Partitions of a state that Spark keeps: a topology that declares others is refused, wherever the checkpoint is."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from foretide.compile.stages import StageGraph, compile_stages
from foretide.errors import ConfigError
from foretide.spark.driver.repartition import check_partitions
from foretide.store.workspace import Workspace
from foretide.topology import flow

OFFSETS = 'v1\n{"conf": {"spark.sql.shuffle.partitions": "3"}}\n{}'


def counting(partitions: int | None) -> StageGraph:
    job = flow("counting")
    declared: dict[str, Any] = {} if partitions is None else {"state_partitions": partitions}
    job.source("in", "trace", trace="pasps_dns").operator(
        "count", lambda rows: rows, mode="dataframe", stateful=True, **declared
    ).sink("out")
    return compile_stages(job.build())


def write(folder: Path) -> None:
    (folder / "offsets").mkdir(parents=True)
    for batch in ("9", "10"):
        (folder / "offsets" / batch).write_text(OFFSETS if batch == "10" else "v1\n{}\n{}")


@pytest.mark.parametrize("apart", [False, True], ids=["in the run", "apart"])
def test_other_partitions_than_those_of_a_checkpoint_are_refused(tmp_path: Path, apart: bool) -> None:
    workspace, given = Workspace(tmp_path / "run"), str(tmp_path / "apart") if apart else ""
    [stage] = counting(3).stages
    write(Path(given) / stage.id if apart else workspace.checkpoint(stage.id))
    for same in (3, None):
        check_partitions(counting(same), workspace, SimpleNamespace(), given)  # type: ignore[arg-type]
    what = "start a run of its own" if apart else r"foretide repartition \S+ count --partitions 4"
    with pytest.raises(
        ConfigError, match=rf"'count'.*as its state has, 3, got 4; write state_partitions=3, or .*{what}"
    ):
        check_partitions(counting(4), workspace, SimpleNamespace(), given)  # type: ignore[arg-type]


def test_a_checkpoint_in_another_file_system_is_asked_by_spark(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, "hdfs://there/run")

    class Files:
        """What Hadoop says of a file system."""

        def exists(self, path: str) -> bool:
            return path.startswith("hdfs://there/run/stages/") and path.endswith("/checkpoint/offsets")

        def listStatus(self, path: str) -> list[Any]:  # noqa: N802
            names = ["9", "10", ".10.crc", "10.tmp"]
            return [SimpleNamespace(getPath=lambda name=name: SimpleNamespace(getName=lambda: name)) for name in names]

        def open(self, path: str) -> Any:
            return SimpleNamespace(path=path, close=lambda: None)

    class HadoopPath(str):
        def __new__(cls, *parts: str) -> HadoopPath:
            return super().__new__(cls, "/".join(parts))

        def getFileSystem(self, settings: object) -> Files:  # noqa: N802
            return Files()

    def text(stream: Any, encoding: str) -> str:
        return OFFSETS if stream.path.endswith("/offsets/10") else "v1\n{}\n{}"

    hadoop = SimpleNamespace(fs=SimpleNamespace(Path=HadoopPath))
    commons = SimpleNamespace(io=SimpleNamespace(IOUtils=SimpleNamespace(toString=text)))
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=hadoop, commons=commons)))
    context = SimpleNamespace(_jvm=jvm, _jsc=SimpleNamespace(hadoopConfiguration=lambda: None))
    spark: Any = SimpleNamespace(sparkContext=context)
    check_partitions(counting(3), workspace, spark)
    with pytest.raises(ConfigError, match=r"as its state has, 3, got 4; .*Spark cannot divide a checkpoint in hdfs://"):
        check_partitions(counting(4), workspace, spark)
    # Nothing has run there yet.
    check_partitions(counting(4), Workspace(tmp_path, "hdfs://elsewhere/run"), spark)
