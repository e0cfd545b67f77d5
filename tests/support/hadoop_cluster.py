"""HDFS on this machine: Hadoop's mini cluster in a process of its own, from Maven Central."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from xml.etree import ElementTree

from foretide.errors import ForetideError
from foretide.kafka.jars import fetch, find_program

__all__ = ["HadoopCluster", "hadoop_version"]

_START_S = 120.0
_FLAGS = ("-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_MINICLUSTER = "org.apache.hadoop:hadoop-client-minicluster"
# Hadoop's own tests are among what it starts with, and name it.
_JUNIT = "org.junit.jupiter:junit-jupiter-api:5.12.2"
_SETTINGS = {
    "dfs.replication": "1",
    "dfs.namenode.fs-limits.min-block-size": "0",
}


class HadoopCluster:
    """A NameNode and a DataNode.

    Parameters
    ----------
    folder : path
        Where its files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self._settings = folder, folder / "config.xml"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """The root of its file system."""
        found = ElementTree.parse(self._settings).getroot()
        names = {one.findtext("name"): one.findtext("value") for one in found}
        return str(names["fs.defaultFS"]).rstrip("/")

    def start(self) -> None:
        """Start it, and return once it is up.

        Raises
        ------
        ForetideError
            When it does not come up.
        """
        command = [find_program("java", "Hadoop"), *_FLAGS, f"-Dtest.build.data={self._folder / 'data'}"]
        command += ["-cp", os.pathsep.join(map(str, fetch([f"{_MINICLUSTER}:{hadoop_version()}", _JUNIT])))]
        command += ["org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format", "-datanodes", "1"]
        command += ["-writeConfig", str(self._settings)]
        settings = {**_SETTINGS, "hadoop.tmp.dir": str(self._folder / "tmp")}
        command += [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and self._process.poll() is None:
            # It writes its configuration once everything has started.
            written = self._settings.read_bytes() if self._settings.exists() else b""
            if written.rstrip().endswith(b"</configuration>"):
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


def hadoop_version() -> str:
    """Return the version of Hadoop that PySpark comes with."""
    import pyspark

    [jar] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return re.sub(r"hadoop-client-api-(.*)\.jar", r"\1", jar.name)
