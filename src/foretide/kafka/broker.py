"""A real Kafka broker on this machine: one node, KRaft, for developers and tests."""

from __future__ import annotations

import base64
import json
import logging
import os
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from foretide.extras import needs_extra
from foretide.files import replace_json
from foretide.kafka.client import Cluster
from foretide.kafka.errors import BrokerError, KafkaError
from foretide.kafka.jars import BROKER_PACKAGES, cache_directory, fetch, find_program

with needs_extra("kafka", "a Kafka broker"):
    import psutil

__all__ = ["Broker", "BrokerInfo", "default_directory", "find_broker", "free_port"]

_LOG = logging.getLogger(__name__)

_LOOPBACK = "127.0.0.1"
_START_S = 120.0
_STOP_S = 30.0
_PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
num.partitions=4
group.initial.rebalance.delay.ms=0
message.max.bytes=67108864
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.retention.check.interval.ms=5000
log.cleaner.backoff.ms=2000
log.initial.task.delay.ms=1000
"""
_LOGGING = """rootLogger.level=INFO
rootLogger.appenderRef.file.ref=file
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={log}
appender.file.filePattern={log}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c: %m%n
appender.file.policies.type=Policies
appender.file.policies.size.type=SizeBasedTriggeringPolicy
appender.file.policies.size.size=20MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=3
"""


@dataclass(frozen=True)
class BrokerInfo:
    """A broker that runs: its process, where to reach it, where its data are."""

    pid: int
    servers: str
    directory: str

    @property
    def log(self) -> Path:
        """What the broker writes about itself."""
        return Path(self.directory) / "broker.log"


def default_directory() -> Path:
    """Return where a developer's broker keeps its data."""
    return cache_directory() / "kafka"


def free_port(host: str = _LOOPBACK) -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as place:
        place.bind((host, 0))
        return int(place.getsockname()[1])


def find_broker(directory: str | Path | None = None) -> BrokerInfo | None:
    """Return the broker that runs in a directory; None where none does."""
    file = Path(directory or default_directory()) / "broker.json"
    try:
        info = BrokerInfo(**json.loads(file.read_text(encoding="utf-8")))
        words = psutil.Process(info.pid).cmdline()
    except (FileNotFoundError, ValueError, psutil.Error):
        return None
    return info if any("kafka.Kafka" in word for word in words) else None


class Broker:
    """A single-node Kafka broker, started and stopped from Python.

    Its packages come from Maven Central once. It listens at one address alone. Data outlast a stop: the same directory
    gives the same topics.

    Parameters
    ----------
    directory : path, optional
        Where data and log are; in the user's cache folder by default.
    port : int
        Where clients connect; 0 takes a free one.
    heap_mb : int
        Memory of the Java heap.
    host : str
        The address of this machine at which clients reach it: loopback unless they run elsewhere. It asks nobody for a
        password.
    settings : mapping of str to str, optional
        Settings of Kafka's that go before those it would have, such as further listeners.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        port: int = 9092,
        *,
        heap_mb: int = 512,
        host: str = _LOOPBACK,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = Path(directory or default_directory()).absolute()
        self.host = host
        self.port = port or free_port(host)
        self._controller = self._known_controller() or free_port()
        self._heap_mb, self._settings = heap_mb, dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        """What the broker writes about itself."""
        return self.directory / "broker.log"

    def start(self) -> BrokerInfo:
        """Start it and wait until it answers.

        Raises
        ------
        ConfigError
            When Java or Maven is missing.
        KafkaError
            When one runs in the directory already, the port is taken, or it does not come up.
        """
        if (running := find_broker(self.directory)) is not None:
            raise KafkaError(
                f"broker in {self.directory}: expected none yet, got one at {running.servers} (process {running.pid}); "
                "use it, stop it (foretide kafka down), or choose another --dir"
            )
        self._check_port()
        jars = ":".join(str(jar) for jar in fetch(BROKER_PACKAGES))
        self._prepare(jars)
        with (self.directory / "console.log").open("wb") as console:
            self._process = subprocess.Popen(
                [*self._java(jars), "kafka.Kafka", str(self.directory / "server.properties")],
                stdout=console,
                stderr=console,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        info = BrokerInfo(self._process.pid, self.servers, str(self.directory))
        replace_json(self.directory / "broker.json", asdict(info))
        try:
            self._await_answer()
        except BaseException:
            # Nobody would know of a broker that was given up while it started.
            self.stop(kill=True)
            raise
        return info

    def stop(self, *, kill: bool = False) -> None:
        """Stop it cleanly, or at once as a power failure would; nothing happens if it does not run."""
        if self._process is not None:
            # Its command line, by which `find_broker` knows it, is not there yet in the moment of its start.
            if self._process.poll() is None:
                end_process(self._process.pid, kill=kill)
            self._process.wait()
            self._process = None
        if (info := find_broker(self.directory)) is not None:
            end_process(info.pid, kill=kill)
        (self.directory / "broker.json").unlink(missing_ok=True)

    def wait(self) -> int:
        """Return its exit code once it has ended."""
        return 0 if self._process is None else self._process.wait()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _known_controller(self) -> int | None:
        """Return the controller's port of an earlier start: the storage remembers it."""
        try:
            text = (self.directory / "server.properties").read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        return int(text.partition("CONTROLLER://127.0.0.1:")[2].splitlines()[0])

    def _check_port(self) -> None:
        with socket.socket() as place:
            place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                place.bind((self.host, self.port))
            except OSError as error:
                raise KafkaError(
                    f"port {self.port}: expected it to be free, got {error.strerror}; stop what listens there, or "
                    "choose another one with --port"
                ) from error

    def _prepare(self, jars: str) -> None:
        """Write the configuration; format the storage unless it is."""
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        properties = _PROPERTIES.format(host=self.host, port=self.port, controller=self._controller, data=data)
        # Of two lines with one name, the later one counts.
        more = "".join(f"{name}={value}\n" for name, value in self._settings.items())
        (self.directory / "server.properties").write_text(properties + more, encoding="utf-8")
        (self.directory / "log4j2.properties").write_text(_LOGGING.format(log=self.log), encoding="utf-8")
        if (data / "meta.properties").exists():
            return
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        command = [*self._java(jars), "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "--standalone"]
        command += ["--config", str(self.directory / "server.properties")]
        # Nothing is lost by a second try; the first was seen to fail once, and not again with the same words.
        for left in (1, 0):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if not done.returncode:
                return
            # Lines of a stack trace are indented; the last of the others names the cause.
            told = (done.stderr or done.stdout).strip().splitlines()
            got = [line for line in told if not line[:1].isspace()][-1:]
            if not left:
                raise KafkaError(f"broker in {self.directory}: expected its storage to be formatted, got {got}")
            _LOG.warning("broker in %s: its storage is formatted once more, after %s", self.directory, got)

    def _java(self, jars: str) -> list[str]:
        heap = [f"-Xms{min(128, self._heap_mb)}m", f"-Xmx{self._heap_mb}m", "-XX:+UseSerialGC"]
        logging = f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"
        return [find_program("java", "the Kafka broker"), *heap, logging, "-cp", jars]

    def _await_answer(self) -> None:
        cluster = Cluster(self.servers, "foretide kafka", patience_s=1.0)
        deadline_s = time.monotonic() + _START_S
        assert self._process is not None
        while True:
            if (code := self._process.poll()) is not None:
                self._fail(f"an end with exit code {code}")
            try:
                cluster.retry(lambda: cluster.admin().list_topics(timeout=1.0))
                return
            except BrokerError:
                if time.monotonic() >= deadline_s:
                    self._fail(f"no answer within {_START_S:g} s")

    def _fail(self, got: str) -> NoReturn:
        said = (self.directory / "console.log").read_text(encoding="utf-8", errors="replace").strip()
        last = said.splitlines()[-1] if said else "nothing"
        raise KafkaError(
            f"broker in {self.directory}: expected it to answer at {self.servers}, got {got} (it said: {last[:300]}); "
            f"see {self.log}, or try another --dir"
        )


def end_process(pid: int, *, kill: bool = False) -> None:
    """End a broker by its process, and wait until it is gone."""
    try:
        process = psutil.Process(pid)
        os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(_STOP_S)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return
