"""A standalone Spark cluster on this machine whose workers share neither disk nor network addresses.

python benchmarks/standalone_cluster.py -- foretide attach examples/plain_job.py   # MASTER is set for the command

A master, and workers each in mount, network and process namespaces of its own: a worker's ``/tmp`` and ``/var/tmp`` are
its own folder, a bridge joins them, and what a worker started ends with it. The driver runs outside, at the bridge's
address. Needs root.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pyspark

__all__ = ["StandaloneCluster", "missing_for_clusters", "standalone_cluster"]

_T = TypeVar("_T")
_SPARK_HOME = Path(pyspark.__file__).parent
_REPOSITORY = Path(__file__).resolve().parents[1]
_START_S = 120.0
_NUMBERS = itertools.count()
# Spark's own processes do little: a quick compiler and a small heap are enough.
_DAEMON = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.worker.cleanup.enabled=false",
    "SPARK_NO_DAEMONIZE": "1",
}
# What a worker does before it becomes Spark's: it waits for its network, then makes the folder its own. It knows its
# own name, and no server of names: the machine's cannot be reached from there, and every executor would ask it for ten
# seconds before it starts.
_WORKER = """
set -eu
echo made
read -r address
ip link set lo up
ip addr add "$address/24" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"
for place in $KEPT; do
    mkdir -p "$OWN$place"
    mount --bind "$place" "$OWN$place"
done
mkdir -p "$OWN/tmp" "$OWN/var/tmp"
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$(hostname)" > "$OWN/hosts"
: > "$OWN/resolv.conf"
for name in hosts resolv.conf; do
    if [ -e "/etc/$name" ]; then mount --bind "$OWN/$name" "/etc/$name"; fi
done
mount --rbind "$OWN/var/tmp" /var/tmp
mount --rbind "$OWN/tmp" /tmp
exec "$@" >&2
"""


@dataclass
class StandaloneCluster:
    """A cluster that runs; `standalone_cluster` makes one.

    Parameters
    ----------
    master : str
        Where drivers connect, ``spark://...``.
    address : str
        The bridge's address, at which workers reach this machine: drivers and brokers are to listen there.
    ui : str
        Where the master tells about itself.
    logs : Path
        The folder with the logs of the master and of each worker, and workers' own folders.
    workers : list of Popen
        The workers.
    """

    master: str
    address: str
    ui: str
    logs: Path
    workers: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings of a driver on this cluster."""
        return {"spark.driver.host": self.address, "spark.driver.bindAddress": self.address}

    def state(self) -> dict[str, Any]:
        """Return what the master knows: workers, applications."""
        with urllib.request.urlopen(f"{self.ui}/json/", timeout=5.0) as answer:
            return dict(json.load(answer))

    def cores_used(self) -> int:
        """Return how many cores executors hold, as the master counts."""
        return sum(int(worker["coresused"]) for worker in self.state()["workers"] if worker["state"] == "ALIVE")


def missing_for_clusters() -> str:
    """Return what this machine lacks for such a cluster, empty if nothing."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "namespaces need root on Linux"
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            return f"namespaces need '{program}' of the package {package}"
    tried = subprocess.run(["unshare", "-m", "-n", "-p", "--fork", "true"], capture_output=True, text=True, check=False)
    return f"namespaces are not allowed here: {tried.stderr.strip()}" if tried.returncode else ""


@contextmanager
def standalone_cluster(
    *,
    workers: int = 2,
    cores: int = 2,
    memory: str = "2g",
    shared: Sequence[Path] = (),
    logs: Path | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[StandaloneCluster]:
    """Start a cluster, and end all of it in the end.

    Parameters
    ----------
    workers, cores, memory
        How many workers, and what each of them lends.
    shared : sequence of Path
        Folders below ``/tmp`` that workers see all the same, such as that of a checkpoint; others are hidden.
    logs : Path, optional
        Where logs are kept; in a folder that is removed in the end if not given.
    settings : mapping of str to str
        Settings of the master and the workers, ``spark.deploy...``, ``spark.worker...``.

    Raises
    ------
    RuntimeError
        When the machine does not allow it, or a process does not come up.
    """
    if missing := missing_for_clusters():
        raise RuntimeError(f"cluster: expected namespaces, got none: {missing}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-"))) if logs is None else logs
        folder.mkdir(parents=True, exist_ok=True)
        bridge, address = stack.enter_context(_bridge())
        options = " ".join(f"-D{key}={value}" for key, value in (settings or {}).items())
        environment = os.environ | _DAEMON | {"SPARK_HOME": str(_SPARK_HOME), "SPARK_LOG_DIR": str(folder)}
        environment["SPARK_DAEMON_JAVA_OPTS"] += f" {options}"
        ui = _start_master(stack, folder, address, environment)
        cluster = StandaloneCluster(f"spark://{address}:7077", address, ui, folder)
        for number in range(1, workers + 1):
            place = _Place(number, bridge, address, folder / f"worker{number}", tuple(shared))
            cluster.workers.append(_start_worker(stack, place, [str(cores), memory, cluster.master], environment))

        def alive() -> bool:
            for number, process in enumerate(cluster.workers, 1):
                if process.poll() is not None:
                    _fail(folder / f"worker{number}.log", f"an end with exit code {process.returncode}")
            return sum(worker["state"] == "ALIVE" for worker in cluster.state()["workers"]) == workers

        _await(alive, folder / "worker1.log", f"{workers} workers")
        yield cluster


@contextmanager
def _bridge() -> Iterator[tuple[str, str]]:
    """Make a bridge with a network of its own; yield its name and address."""
    _sweep()
    name = f"ft{os.getpid()}n{next(_NUMBERS)}"
    taken = subprocess.run(["ip", "-4", "-o", "addr"], capture_output=True, text=True, check=True).stdout
    network = next(
        f"10.{200 + step // 250}.{step % 250}"
        for step in range(os.getpid() % 5000, 12_500)
        if f" 10.{200 + step // 250}.{step % 250}." not in taken
    )
    _ip("link", "add", name, "type", "bridge")
    try:
        _ip("addr", "add", f"{network}.1/24", "dev", name)
        _ip("link", "set", name, "up")
        yield name, f"{network}.1"
    finally:
        _remove(name)


def _sweep() -> None:
    """Remove what processes that were killed have left."""
    for link in Path("/sys/class/net").glob("ft*"):
        made = re.fullmatch(r"ft(\d+)n\d+(w\d+)?", link.name)
        if made is not None and not Path(f"/proc/{made.group(1)}").exists():
            _remove(link.name)


def _remove(link: str) -> None:
    """Remove a link, unless it has gone by itself."""
    subprocess.run(["ip", "link", "del", link], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: expected it to work, got {done.stderr.strip()}")


def _start_master(stack: ExitStack, folder: Path, address: str, environment: Mapping[str, str]) -> str:
    """Start the master; return where it tells about itself."""
    log = folder / "master.log"
    program = [str(_SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy.master.Master"]
    process = _start(
        stack,
        [*program, "--host", address, "--port", "7077", "--webui-port", "8080"],
        log,
        dict(environment) | {"SPARK_LOCAL_IP": address},
    )

    def started() -> str | None:
        if process.poll() is not None:
            _fail(log, f"an end with exit code {process.returncode}")
        found = re.search(r"MasterWebUI.* started at (http://\S+)", log.read_text(encoding="utf-8", errors="replace"))
        return None if found is None else found.group(1)

    return _await(started, log, "the master")


@dataclass(frozen=True)
class _Place:
    """Where a worker lives."""

    number: int
    bridge: str
    gateway: str
    folder: Path
    shared: tuple[Path, ...]

    @property
    def address(self) -> str:
        return f"{self.gateway.rpartition('.')[0]}.{self.number + 1}"

    @property
    def kept(self) -> str:
        """Folders in what is hidden that a worker needs: the code, the interpreter, and what is shared."""
        wanted = {_REPOSITORY, Path(sys.prefix).resolve(), _SPARK_HOME.resolve(), *map(Path.resolve, self.shared)}
        hidden = (Path("/tmp"), Path("/var/tmp"))
        return " ".join(str(path) for path in sorted(wanted) if any(root in path.parents for root in hidden))


def _start_worker(
    stack: ExitStack, place: _Place, lent: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    place.folder.mkdir(parents=True, exist_ok=True)
    cores, memory, master = lent
    program = [str(_SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy.worker.Worker"]
    program += ["--host", place.address, "--cores", cores, "--memory", memory, "--work-dir", "/tmp/work", master]
    process = _start(
        stack,
        ["unshare", "-m", "-n", "-p", "--mount-proc", "--kill-child", "sh", "-c", _WORKER, "worker", *program],
        place.folder.with_suffix(".log"),
        dict(environment)
        | {"SPARK_LOCAL_IP": place.address, "GATEWAY": place.gateway, "KEPT": place.kept, "OWN": str(place.folder)},
        talks=True,
    )
    assert process.stdin is not None and process.stdout is not None
    if process.stdout.readline().strip() != "made":
        _fail(place.folder.with_suffix(".log"), "no namespaces")
    outside = f"{place.bridge}w{place.number}"
    _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", str(process.pid))
    # It would go with the namespace, which connections that are being closed keep for a minute.
    stack.callback(_remove, outside)
    _ip("link", "set", outside, "master", place.bridge, "up")
    process.stdin.write(f"{place.address}\n")
    process.stdin.close()
    return process


def _start(
    stack: ExitStack, command: Sequence[str], log: Path, environment: Mapping[str, str], *, talks: bool = False
) -> subprocess.Popen[str]:
    """Start a process that ends with this one, at the latest at the end of the stack."""
    pipe = subprocess.PIPE if talks else None
    with log.open("ab") as kept:
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", *command],
            stdin=pipe or subprocess.DEVNULL,
            stdout=pipe or kept,
            stderr=kept,
            env=dict(environment),
            text=True,
            start_new_session=True,
        )
    stack.callback(_end, process)
    return process


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and its group; a worker's namespace takes all that runs in it along."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _await(look: Callable[[], _T], log: Path, what: str) -> _T:
    """Return what is found by looking for it, once it is there."""
    deadline_s = time.monotonic() + _START_S
    while True:
        try:
            if found := look():
                return found
        except (OSError, ValueError):  # not listening yet
            pass
        if time.monotonic() > deadline_s:
            _fail(log, f"not {what} within {_START_S:g} s")
        time.sleep(0.1)


def _fail(log: Path, got: str) -> NoReturn:
    said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:] if log.exists() else []
    raise RuntimeError(
        f"cluster: expected it to start, got {got}; {log.name} ends with: {' | '.join(said) or 'nothing'}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command beside a cluster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cores", type=int, default=2, help="cores of a worker (default 2)")
    parser.add_argument("--memory", default="2g", help="memory of a worker (default 2g)")
    parser.add_argument("--shared", type=Path, action="append", default=[], help="a folder below /tmp workers see")
    parser.add_argument("--logs", type=Path, help="where logs are kept")
    parser.add_argument("command", nargs="+", help="what to run; MASTER and ADDRESS are set in its environment")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that all of it ends then, too
    with standalone_cluster(
        workers=given.workers, cores=given.cores, memory=given.memory, shared=given.shared, logs=given.logs
    ) as cluster:
        environment = os.environ | {"MASTER": cluster.master, "ADDRESS": cluster.address}
        # A driver listens where workers reach it.
        environment["SPARK_LOCAL_IP"] = cluster.address
        return subprocess.run(given.command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
