"""Reading a host: ``/proc`` if there is one, otherwise what psutil offers.

Nothing here raises for what a system lacks or hides: features that depend on it are unknown.
"""

from __future__ import annotations

import getpass
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from foretide.health.hsperf import jvm_counters, parse_hsperf
from foretide.health.procfs import parse_process
from foretide.health.readings import Reading, WorkerReading, machine_reading

__all__ = ["Executor", "executor_of", "read_machine", "read_worker"]

_PROC = Path("/proc")
_MACHINE_FILES = (
    *("stat", "loadavg", "meminfo", "vmstat", "diskstats", "net/dev", "net/snmp", "net/sockstat"),
    *("pressure/cpu", "pressure/memory", "pressure/io"),
)
_PROCESS_FILES = ("stat", "status", "io", "schedstat")
_KIB = 1024.0


@dataclass(frozen=True)
class Executor:
    """The worker that a process works for.

    Parameters
    ----------
    id : str
        What Spark calls it; ``driver`` if the driver runs tasks itself.
    jvm : int
        The process id of its JVM; that of the process itself if there is no JVM above it.
    daemon : int, optional
        The process id of the Python daemon below the JVM that the process comes from.
    """

    id: str
    jvm: int
    daemon: int | None = None


def read_machine(proc: Path = _PROC) -> Reading:
    """Read the machine."""
    texts = {name: text for name in _MACHINE_FILES if (text := _text(proc / name)) is not None}
    return machine_reading(time.monotonic(), texts) if texts else _machine_by_psutil()


def read_worker(executor: Executor, proc: Path = _PROC) -> WorkerReading:
    """Read an executor: its JVM and the Python processes below it.

    Memory that processes share counts once for each of them.
    """
    if not (proc / "self").exists():
        return _worker_by_psutil(executor.jvm)
    below = [] if executor.daemon is None else [executor.daemon, *_children(executor.daemon, proc)]
    processes = {str(pid): found for pid in (executor.jvm, *below) if (found := _process(pid, proc))}
    perf = _bytes(Path(tempfile.gettempdir()) / f"hsperfdata_{_user()}" / str(executor.jvm))
    counters = jvm_counters(parse_hsperf(perf))
    memory = machine_reading(0.0, {"meminfo": _text(proc / "meminfo") or ""}).counters
    if "mem.MemTotal" in memory:
        counters["mem_total_kib"] = memory["mem.MemTotal"]
    python = tuple(str(pid) for pid in below if str(pid) in processes)
    return WorkerReading(time.monotonic(), processes, python, counters)


def executor_of(pid: int, proc: Path = _PROC) -> Executor:
    """Return the executor that a process works for.

    The nearest Java process above it is the executor; its command line names it. The JVM of a driver, which runs the
    tasks on ``local[n]``, is called ``driver``. If there is no JVM above, the process stands for itself.
    """
    daemon = None
    for above in _ancestors(pid, proc):
        words = _bytes(proc / str(above) / "cmdline").split(b"\0")
        if os.path.basename(words[0]).startswith(b"java"):
            at = words.index(b"--executor-id") + 1 if b"--executor-id" in words else len(words)
            return Executor(words[at].decode() if at < len(words) else "driver", above, daemon)
        daemon = above
    return Executor(os.environ.get("SPARK_EXECUTOR_ID", "driver"), pid)


def _process(pid: int, proc: Path) -> dict[str, float]:
    texts = {name: text for name in _PROCESS_FILES if (text := _text(proc / str(pid) / name)) is not None}
    return parse_process(texts, float(os.sysconf("SC_CLK_TCK")), os.sysconf("SC_PAGE_SIZE") / _KIB)


def _ancestors(pid: int, proc: Path) -> Iterable[int]:
    while pid > 1:
        yield pid
        fields = (_text(proc / str(pid) / "stat") or "").rpartition(")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0


def _children(pid: int, proc: Path) -> list[int]:
    """Return the processes that the main thread of a process has started; Python's daemon forks from there."""
    return list(map(int, (_text(proc / str(pid) / "task" / str(pid) / "children") or "").split()))


def _machine_by_psutil() -> Reading:
    """Read what psutil knows on every system, under the names of Linux."""
    import psutil

    found: dict[str, float] = {}
    times = psutil.cpu_times()._asdict()
    found |= {f"cpu.{kind}": float(value) for kind, value in times.items()}
    found["cpu.total"] = float(sum(times.values()))
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    found |= {"mem.MemTotal": memory.total / _KIB, "mem.MemAvailable": memory.available / _KIB}
    found |= {"mem.MemFree": memory.free / _KIB, "mem.SwapFree": swap.free / _KIB}
    found |= dict(zip(("load1", "load5", "load15"), psutil.getloadavg(), strict=True))
    stats = psutil.cpu_stats()
    found |= {"ctxt": float(stats.ctx_switches), "intr": float(stats.interrupts)}
    disks = psutil.disk_io_counters()
    if disks is not None:
        found |= {"disk.reads": float(disks.read_count), "disk.writes": float(disks.write_count)}
        found |= {"disk.read_bytes": float(disks.read_bytes), "disk.write_bytes": float(disks.write_bytes)}
    network = psutil.net_io_counters()
    if network is not None:
        found |= {"net.rx_bytes": float(network.bytes_recv), "net.tx_bytes": float(network.bytes_sent)}
        found |= {"net.rx_packets": float(network.packets_recv), "net.tx_packets": float(network.packets_sent)}
        found |= {"net.rx_errors": float(network.errin), "net.tx_errors": float(network.errout)}
        found |= {"net.rx_drops": float(network.dropin), "net.tx_drops": float(network.dropout)}
    return Reading(time.monotonic(), found)


def _worker_by_psutil(jvm: int) -> WorkerReading:
    import psutil

    processes: dict[str, dict[str, float]] = {}
    try:
        top = psutil.Process(jvm)
        for process in (top, *top.children(recursive=True)):
            with process.oneshot():
                times, memory, switches = process.cpu_times(), process.memory_info(), process.num_ctx_switches()
                processes[str(process.pid)] = {
                    "started": process.create_time(),
                    "user_s": times.user,
                    "system_s": times.system,
                    "rss_kib": memory.rss / _KIB,
                    "virtual_kib": memory.vms / _KIB,
                    "threads": float(process.num_threads()),
                    "voluntary": float(switches.voluntary),
                    "involuntary": float(switches.involuntary),
                    "processes": 1.0,
                }
    except psutil.Error:
        pass
    counters = {"mem_total_kib": psutil.virtual_memory().total / _KIB}
    return WorkerReading(time.monotonic(), processes, tuple(list(processes)[1:]), counters)


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
