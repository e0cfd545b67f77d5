"""HDFS on this machine: Hadoop's mini cluster in a process of its own, from Maven Central."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.etree import ElementTree

from foretide.errors import ForetideError
from foretide.kafka.jars import fetch, find_program

__all__ = ["HadoopCluster"]

_START_S = 120.0
_FLAGS = ("-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# Hadoop's own tests are among what it starts with, and name it.
_JUNIT = "org.junit.jupiter:junit-jupiter-api:5.12.2"
_SETTINGS = {
    "dfs.replication": "1",
    "dfs.namenode.fs-limits.min-block-size": "0",
}


class HadoopCluster:
    """A NameNode and a DataNode; a context.

    Parameters
    ----------
    folder : path
        Where its files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        #: What HADOOP_CONF_DIR is to be for its clients.
        self.conf = folder / "conf"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The root of its file system."""
        found = ElementTree.parse(self.conf / "core-site.xml").getroot()
        names = {one.findtext("name"): one.findtext("value") for one in found}
        return str(names["fs.defaultFS"]).rstrip("/")

    def start(self) -> None:
        """Start it, and return once it is up.

        Raises
        ------
        ForetideError
            When it does not come up.
        """
        self.conf.mkdir(parents=True, exist_ok=True)
        written = self._folder / "config.xml"
        command = [find_program("java", "Hadoop"), *_FLAGS, f"-Dtest.build.data={self._folder / 'data'}"]
        command += ["-cp", os.pathsep.join(map(str, fetch([_minicluster(), _JUNIT])))]
        command += ["org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format", "-datanodes", "1"]
        command += ["-writeConfig", str(written)]
        settings = {**_SETTINGS, "hadoop.tmp.dir": str(self._folder / "tmp")}
        command += [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            # It writes its configuration once everything has started.
            if written.exists() and written.read_bytes().rstrip().endswith(b"</configuration>"):
                for name in ("core-site.xml", "hdfs-site.xml"):
                    shutil.copy(written, self.conf / name)
                return
            time.sleep(0.1)
        self.stop()
        said = (self._folder / "log").read_text(errors="replace").strip().splitlines()
        raise ForetideError(f"Hadoop's mini cluster: expected it to start, got {' | '.join(said[-5:])}")

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _minicluster() -> str:
    """Return the package of the version of Hadoop that PySpark comes with."""
    import pyspark

    [jar] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    version = re.sub(r"hadoop-client-api-(.*)\.jar", r"\1", jar.name)
    return f"org.apache.hadoop:hadoop-client-minicluster:{version}"
