"""The features of workers and machines (SPEC I3): each with its name, its unit, its meaning and its origin.

[IDRNN]_ names some of its 24 worker and 57 machine features and leaves out the rest. These cover all that it names and
what its tools (pidstat and sar) print besides. A worker is an executor: its JVM together with the Python processes
that run its tasks. A feature that a system cannot provide is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from foretide.records import Floats
from foretide.store import FeatureSample

__all__ = [
    "MACHINE_FEATURES",
    "MACHINE_NAMES",
    "TARGETS",
    "WORKER_FEATURES",
    "WORKER_NAMES",
    "Feature",
    "Level",
    "machine_sample",
    "worker_sample",
]

Level: TypeAlias = Literal["worker", "machine"]

#: How a value comes from two readings: the later one, growth per second, or growth by growth of something else.
How: TypeAlias = Literal["level", "rate", "part"]


@dataclass(frozen=True)
class Feature:
    """One feature.

    Parameters
    ----------
    name, unit, about : str
        Its name, its unit and its meaning.
    group : str
        What it belongs to: ``stream`` for what tasks measure about events, else the resource.
    how : {"level", "rate", "part"}
        Whether it is a counter's value, its growth per second, or its growth by that of `of`.
    of, by : str
        The counter; for ``part`` what its growth is divided by.
    scale : float
        What the result is multiplied by.
    """

    name: str
    unit: str
    about: str
    group: str
    how: How = "level"
    of: str = ""
    by: str = ""
    scale: float = 1.0

    def value(self, before: Mapping[str, float], after: Mapping[str, float], seconds: float) -> float:
        """Return its value from two readings `seconds` apart; NaN if they do not determine it.

        >>> busy = Feature("cpu", "%", "time on a core", "cpu", "rate", "busy_s", scale=100.0)
        >>> busy.value({"busy_s": 1.0}, {"busy_s": 3.0}, 4.0)
        50.0
        """
        if self.of not in after:
            return np.nan
        if self.how == "level":
            return after[self.of] * self.scale
        if self.of not in before or seconds <= 0:
            return np.nan
        # A counter that was reset, or a process that is gone, must not count as negative growth.
        grown = max(0.0, after[self.of] - before[self.of])
        if self.how == "rate":
            return grown / seconds * self.scale
        against = after.get(self.by, np.nan) - before.get(self.by, np.nan)
        if against > 0:
            return grown / against * self.scale
        # A mean over no events is not known; a share of a resource that nobody used is 0.
        return 0.0 if against == 0 and self.group != "stream" else np.nan


def _stream(name: str, unit: str, about: str, of: str, by: str = "", scale: float = 1.0) -> Feature:
    return Feature(name, unit, about, "stream", "part" if by else "rate", of, by, scale)


def _rate(group: str, name: str, unit: str, about: str, of: str, scale: float = 1.0) -> Feature:
    return Feature(name, unit, about, group, "rate", of, "", scale)


def _level(group: str, name: str, unit: str, about: str, of: str, scale: float = 1.0) -> Feature:
    return Feature(name, unit, about, group, "level", of, "", scale)


#: What a worker is described by.
WORKER_FEATURES: tuple[Feature, ...] = (
    _stream("execution_ms", "ms", "mean execution time of one event in an operator", "busy_s", "rows_in", 1e3),
    _stream("inbound_rate", "1/s", "events that came to operators", "rows_in"),
    _stream(
        "queueing_ms", "ms", "mean time from the instant an event was due to its operator", "waited_s", "rows_in", 1e3
    ),
    _stream("sending_ms", "ms", "mean time to pack and hand on an outbound batch of rows", "sending_s", "parcels", 1e3),
    _stream("outbound_batch_rate", "1/s", "outbound batches of rows", "parcels"),
    _stream("outbound_rate", "1/s", "events that left operators", "rows_out"),
    _stream("failed_rate", "1/s", "events that operators gave up on", "failed"),
    _stream("task_rate", "1/s", "tasks done", "tasks"),
    _stream(
        "task_ms", "ms", "mean time from the start of a round of tasks to the end of one here", "task_s", "tasks", 1e3
    ),
    _stream(
        "start_ms", "ms", "mean time from the start of a round of tasks to that of one here", "start_s", "tasks", 1e3
    ),
    _level("jvm", "heap_used_kib", "KiB", "heap in use", "jvm.heap_used", 1 / 1024),
    _level("jvm", "heap_committed_kib", "KiB", "heap that the JVM holds", "jvm.heap_committed", 1 / 1024),
    _level("jvm", "nonheap_used_kib", "KiB", "metaspace and class space in use", "jvm.nonheap_used", 1 / 1024),
    _rate("jvm", "gc_share", "%", "time in garbage collection", "jvm.gc_s", 100.0),
    _rate("jvm", "gc_rate", "1/s", "garbage collections", "jvm.gc_count"),
    _level("jvm", "jvm_threads", "", "live threads of the JVM", "jvm.threads"),
    _level("jvm", "jvm_classes", "", "classes loaded", "jvm.classes"),
    _rate("cpu", "cpu", "%", "CPU usage: time on a core, of JVM and Python together", "cpu_s", 100.0),
    _rate("cpu", "cpu_user", "%", "time on a core in user mode", "user_s", 100.0),
    _rate("cpu", "cpu_system", "%", "time on a core in the kernel", "system_s", 100.0),
    _rate("cpu", "cpu_python", "%", "time on a core of the Python processes alone", "python.cpu_s", 100.0),
    _rate("cpu", "cpu_wait", "%", "time that main threads were ready but had no core", "run_queue_s", 100.0),
    _level("memory", "rss_kib", "KiB", "physical memory, of JVM and Python together", "rss_kib"),
    _level("memory", "python_rss_kib", "KiB", "physical memory of the Python processes alone", "python.rss_kib"),
    _level("memory", "virtual_kib", "KiB", "virtual memory", "virtual_kib"),
    _level("memory", "swap_kib", "KiB", "memory swapped out", "swap_kib"),
    _level("memory", "memory_share", "%", "physical memory, of the machine's", "memory_share", 100.0),
    _rate("memory", "minor_faults", "1/s", "page faults served without a disk", "minor_faults"),
    _rate("memory", "major_faults", "1/s", "page faults that took a disk", "major_faults"),
    _rate("disk", "disk_read", "B/s", "read from disk", "read_bytes"),
    _rate("disk", "disk_written", "B/s", "written to disk", "written_bytes"),
    _rate("disk", "read_calls", "1/s", "calls to read", "read_calls"),
    _rate("disk", "write_calls", "1/s", "calls to write", "write_calls"),
    _rate("disk", "io_delay", "%", "time held up by a disk", "io_delay_s", 100.0),
    _rate("context", "voluntary_switches", "1/s", "context switches of main threads that waited", "voluntary"),
    _rate(
        "context", "involuntary_switches", "1/s", "context switches of main threads that were displaced", "involuntary"
    ),
    _level("context", "threads", "", "threads, of JVM and Python together", "threads"),
    _level("context", "processes", "", "processes: the JVM, Python's daemon and workers", "processes"),
)

_CPU = {
    "user": "in user mode",
    "nice": "in user mode at low priority",
    "system": "in the kernel",
    "idle": "idle",
    "iowait": "idle while a disk was waited for",
    "irq": "serving interrupts",
    "softirq": "serving soft interrupts",
    "steal": "taken by the hypervisor",
    "guest": "running virtual machines",
}
_MEMORY = {
    "total": ("MemTotal", "memory"),
    "free": ("MemFree", "memory not in use"),
    "available": ("MemAvailable", "memory that programs can have without swapping"),
    "buffers": ("Buffers", "buffers of block devices"),
    "cached": ("Cached", "page cache"),
    "active": ("Active", "memory used recently"),
    "inactive": ("Inactive", "memory not used recently"),
    "anonymous": ("AnonPages", "memory of programs that no file backs"),
    "mapped": ("Mapped", "files mapped into programs"),
    "shared": ("Shmem", "shared memory"),
    "dirty": ("Dirty", "pages to be written to disk"),
    "writeback": ("Writeback", "pages being written to disk"),
    "slab": ("Slab", "memory of the kernel's own objects"),
    "page_tables": ("PageTables", "memory of page tables"),
    "committed": ("Committed_AS", "memory promised to programs"),
    "swap_free": ("SwapFree", "swap space not in use"),
}
_PAGING = {
    "paged_in": ("pgpgin", "KiB/s", "read from disks by paging"),
    "paged_out": ("pgpgout", "KiB/s", "written to disks by paging"),
    "faults": ("pgfault", "1/s", "page faults"),
    "major_faults": ("pgmajfault", "1/s", "page faults that took a disk"),
    "pages_freed": ("pgfree", "1/s", "pages freed"),
    "pages_scanned": ("pgscan", "1/s", "pages looked at to be reclaimed"),
    "pages_stolen": ("pgsteal", "1/s", "pages reclaimed"),
    "swapped_in": ("pswpin", "1/s", "pages swapped in"),
    "swapped_out": ("pswpout", "1/s", "pages swapped out"),
}
_NETWORK = {"bytes": "B/s", "packets": "1/s", "errors": "1/s", "drops": "1/s"}
_TCP = {
    "tcp_opened": ("Tcp.ActiveOpens", "connections opened from here"),
    "tcp_accepted": ("Tcp.PassiveOpens", "connections accepted"),
    "tcp_in": ("Tcp.InSegs", "TCP segments received"),
    "tcp_out": ("Tcp.OutSegs", "TCP segments sent"),
    "tcp_retransmitted": ("Tcp.RetransSegs", "TCP segments sent again"),
    "udp_in": ("Udp.InDatagrams", "UDP datagrams received"),
    "udp_out": ("Udp.OutDatagrams", "UDP datagrams sent"),
}

#: What a machine is described by.
MACHINE_FEATURES: tuple[Feature, ...] = (
    *(
        Feature(
            f"cpu_{kind}", "%", f"share of the cores' time {about}", "cpu", "part", f"cpu.{kind}", "cpu.total", 100.0
        )
        for kind, about in _CPU.items()
    ),
    _level("cpu", "cpu_busiest", "%", "share of its time that the busiest core was busy", "busiest", 100.0),
    _level("cpu", "cpu_idlest", "%", "share of its time that the least busy core was busy", "idlest", 100.0),
    _level("cpu", "cores", "", "cores", "cores"),
    _rate("context", "switches", "1/s", "context switches", "ctxt"),
    _rate("context", "interrupts", "1/s", "interrupts", "intr"),
    _rate("context", "soft_interrupts", "1/s", "soft interrupts", "softirq"),
    _rate("context", "forks", "1/s", "processes and threads created", "processes"),
    _level("load", "running", "", "processes that run or could", "procs_running"),
    _level("load", "blocked", "", "processes held up by a disk", "procs_blocked"),
    _level("load", "load1", "", "load average of a minute", "load1"),
    _level("load", "load5", "", "load average of five minutes", "load5"),
    _level("load", "load15", "", "load average of a quarter of an hour", "load15"),
    _level("load", "tasks", "", "threads of all processes", "tasks"),
    *(
        _rate(
            "load",
            f"pressure_{kind}",
            "%",
            f"time in which some task was held up for lack of {of}",
            f"pressure.{kind}.some",
            1e-4,
        )
        for kind, of in {"cpu": "a core", "memory": "memory", "io": "a disk"}.items()
    ),
    *(_level("memory", f"memory_{name}_kib", "KiB", about, f"mem.{of}") for name, (of, about) in _MEMORY.items()),
    *(_rate("paging", name, unit, about, f"vm.{of}") for name, (of, unit, about) in _PAGING.items()),
    _rate("disk", "disk_reads", "1/s", "reads of disks", "disk.reads"),
    _rate("disk", "disk_writes", "1/s", "writes to disks", "disk.writes"),
    _rate("disk", "disk_read", "B/s", "read from disks", "disk.read_bytes"),
    _rate("disk", "disk_written", "B/s", "written to disks", "disk.write_bytes"),
    _rate("disk", "disk_busy", "%", "time in which disks had something to do, added up", "disk.busy_ms", 0.1),
    _rate("disk", "disk_queue", "", "mean number of requests under way", "disk.queue_ms", 1e-3),
    Feature("disk_wait_ms", "ms", "mean time of a request", "disk", "part", "disk.served_ms", "disk.operations"),
    *(
        _rate("network", f"{way}_{kind}", unit, f"{kind} {words}, loopback apart", f"net.{way}_{kind}")
        for way, words in {"rx": "received", "tx": "sent"}.items()
        for kind, unit in _NETWORK.items()
    ),
    _rate("network", "loopback_bytes", "B/s", "bytes over loopback", "net.lo_bytes"),
    _rate("network", "loopback_packets", "1/s", "packets over loopback", "net.lo_packets"),
    *(_rate("network", name, "1/s", about, of) for name, (of, about) in _TCP.items()),
    _level("network", "sockets", "", "sockets in use", "sockets.used"),
    _level("network", "tcp_sockets", "", "TCP sockets in use", "TCP.inuse"),
    _level("network", "tcp_waiting", "", "TCP connections that wait for late segments", "TCP.tw"),
)

WORKER_NAMES: tuple[str, ...] = tuple(feature.name for feature in WORKER_FEATURES)
MACHINE_NAMES: tuple[str, ...] = tuple(feature.name for feature in MACHINE_FEATURES)

#: What the model predicts of a worker (SPEC I4): CPU usage, queueing time, sending time.
TARGETS: tuple[str, ...] = ("cpu", "queueing_ms", "sending_ms")


def worker_sample(at_s: float, worker: str, machine: str, values: Floats) -> FeatureSample:
    """Return the features of a worker, in the order of `WORKER_FEATURES`, as the store takes them."""
    return FeatureSample(at_s, "worker", worker, machine, WORKER_NAMES, values)


def machine_sample(at_s: float, machine: str, values: Floats) -> FeatureSample:
    """Return the features of a machine, in the order of `MACHINE_FEATURES`, as the store takes them."""
    return FeatureSample(at_s, "machine", machine, machine, MACHINE_NAMES, values)
