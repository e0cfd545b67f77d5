"""YARN on this machine: a ResourceManager and a NodeManager in processes of their own, from Maven Central."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from xml.etree import ElementTree

from hadoop_cluster import hadoop_version

from foretide.errors import ForetideError
from foretide.kafka.broker import free_port
from foretide.kafka.jars import fetch, find_program

__all__ = ["YarnCluster"]

_START_S = 120.0
_FLAGS = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "--add-opens", "java.base/java.lang=ALL-UNNAMED")
_SERVER = "org.apache.hadoop.yarn.server"
_SERVICES = ("resourcemanager.ResourceManager", "nodemanager.NodeManager")
_HOST = "127.0.0.1"
_LOG = """log4j.rootLogger=WARN,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%p %c{2}: %m%n
"""


class YarnCluster:
    """A ResourceManager and one NodeManager, which has room for a handful of containers.

    Parameters
    ----------
    folder : path
        Where its files are.
    file_system : str
        What paths without a scheme are on, such as ``hdfs://127.0.0.1:8020``.
    """

    def __init__(self, folder: Path, file_system: str) -> None:
        self._folder, self._file_system = folder, file_system
        self._web = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def settings(self) -> Path:
        """The folder of its settings: ``HADOOP_CONF_DIR`` of its clients."""
        return self._folder / "conf"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start it, and return once its node is there.

        Raises
        ------
        ForetideError
            When it does not come up.
        """
        self._configure()
        version = hadoop_version()
        parts = ("resourcemanager", "nodemanager", "timelineservice")
        jars = fetch([f"org.apache.hadoop:hadoop-yarn-server-{part}:{version}" for part in parts])
        path = os.pathsep.join(map(str, (self.settings, *jars)))
        for service in _SERVICES:
            command = [find_program("java", "YARN"), *_FLAGS, "-cp", path, f"{_SERVER}.{service}"]
            with (self._folder / f"{service}.log").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
                )
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s and all(one.poll() is None for one in self._processes):
            if self._nodes():
                return
            time.sleep(0.2)
        self.stop()
        said = [(self._folder / f"{service}.log").read_text(errors="replace")[-1000:] for service in _SERVICES]
        raise ForetideError(f"YARN: expected it to start, got {' | '.join(said)}")

    def stop(self) -> None:
        """Stop it, containers included."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait()
        self._processes.clear()

    def _nodes(self) -> int:
        """Return how many nodes are running."""
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self._web}/ws/v1/cluster/nodes", timeout=5) as answer:
                nodes = (json.load(answer).get("nodes") or {}).get("node", [])
        except OSError:
            return 0
        return sum(node["state"] == "RUNNING" for node in nodes)

    def _configure(self) -> None:
        self.settings.mkdir(parents=True)
        ports = {name: f"{_HOST}:{free_port()}" for name in ("", "scheduler.", "resource-tracker.", "admin.")}
        manager = {f"yarn.resourcemanager.{name}address": place for name, place in ports.items()}
        node = {f"yarn.nodemanager.{name}address": f"{_HOST}:0" for name in ("", "localizer.", "webapp.")}
        folders = {f"yarn.nodemanager.{name}-dirs": str(self._folder / name) for name in ("local", "log")}
        self._write(
            "yarn-site.xml",
            {
                "yarn.resourcemanager.hostname": _HOST,
                "yarn.resourcemanager.webapp.address": f"{_HOST}:{self._web}",
                **manager,
                "yarn.nodemanager.hostname": _HOST,
                **node,
                **folders,
                "yarn.nodemanager.resource.memory-mb": "8192",
                "yarn.nodemanager.resource.cpu-vcores": "8",
                "yarn.nodemanager.vmem-check-enabled": "false",
                "yarn.nodemanager.disk-health-checker.enable": "false",
                "yarn.scheduler.minimum-allocation-mb": "256",
            },
        )
        self._write("core-site.xml", {"fs.defaultFS": self._file_system, "hadoop.tmp.dir": str(self._folder / "tmp")})
        self._write(
            "capacity-scheduler.xml",
            {
                "yarn.scheduler.capacity.root.queues": "default",
                "yarn.scheduler.capacity.root.default.capacity": "100",
                "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
            },
        )
        (self.settings / "log4j.properties").write_text(_LOG)

    def _write(self, name: str, settings: Mapping[str, str]) -> None:
        root = ElementTree.Element("configuration")
        for key, value in settings.items():
            one = ElementTree.SubElement(root, "property")
            ElementTree.SubElement(one, "name").text = key
            ElementTree.SubElement(one, "value").text = value
        ElementTree.ElementTree(root).write(self.settings / name)
