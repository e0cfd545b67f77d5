"""Linux ``/proc`` texts as counters: pure functions of a file's content, testable with captured texts.

Every function returns flat counters by name, in the units of the file unless it says otherwise. A line that is
missing or cannot be parsed is left out: features that need it are then unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = [
    "Counters",
    "parse_cpu",
    "parse_disks",
    "parse_load",
    "parse_memory",
    "parse_network",
    "parse_paging",
    "parse_pressure",
    "parse_process",
    "parse_protocols",
    "parse_sockets",
]

Counters = Mapping[str, float]

_CPU_KINDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
_IDLE = ("idle", "iowait")
# Names of devices that only repeat what others count: partitions, loops, RAM, mapped and stacked ones.
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
_SECTOR_BYTES = 512


def parse_cpu(text: str) -> dict[str, float]:
    r"""Return the counters of ``/proc/stat``: ticks by kind, of each core busy and in all, switches, processes.

    >>> found = parse_cpu("cpu 10 0 5 80 5 0 0 0 0 0\ncpu0 10 0 5 80 5 0 0 0 0 0\nctxt 7\nprocs_running 2")
    >>> found["cpu.user"], found["cpu.total"], found["core.0.busy"], found["ctxt"]
    (10.0, 100.0, 15.0, 7.0)
    """
    found: dict[str, float] = {}
    for name, values in _rows(text):
        if name == "cpu":
            found |= {f"cpu.{kind}": value for kind, value in zip(_CPU_KINDS, values, strict=False)}
            found["cpu.total"] = sum(values[:8])  # user and nice include the guests' time
        elif name.startswith("cpu"):
            core = dict(zip(_CPU_KINDS, values[:8], strict=False))
            found[f"core.{name[3:]}.total"] = sum(core.values())
            found[f"core.{name[3:]}.busy"] = sum(value for kind, value in core.items() if kind not in _IDLE)
        elif values and name in ("ctxt", "intr", "softirq", "processes", "procs_running", "procs_blocked"):
            found[name] = values[0]
    return found


def parse_load(text: str) -> dict[str, float]:
    """Return the averages and task counts of ``/proc/loadavg``.

    >>> parse_load("0.50 0.25 0.10 2/345 6789")
    {'load1': 0.5, 'load5': 0.25, 'load15': 0.1, 'runnable': 2.0, 'tasks': 345.0}
    """
    parts = text.replace("/", " ").split()
    names = ("load1", "load5", "load15", "runnable", "tasks")
    return {name: float(part) for name, part in zip(names, parts, strict=False)}


def parse_memory(text: str) -> dict[str, float]:
    r"""Return the sizes of ``/proc/meminfo`` in KiB.

    >>> parse_memory("MemTotal:  1024 kB\nSwapFree: 8 kB")
    {'mem.MemTotal': 1024.0, 'mem.SwapFree': 8.0}
    """
    return {f"mem.{name}": values[0] for name, values in _rows(text.replace(":", " ")) if values}


def parse_paging(text: str) -> dict[str, float]:
    r"""Return the counters of ``/proc/vmstat``, scans and steals added up over their kinds.

    >>> found = parse_paging("pgpgin 4\npgscan_kswapd 2\npgscan_direct 3")
    >>> found["vm.pgpgin"], found["vm.pgscan"]
    (4.0, 5.0)
    """
    found = {f"vm.{name}": values[0] for name, values in _rows(text) if values}
    for kind in ("pgscan", "pgsteal"):
        parts = [found[name] for way in ("kswapd", "direct") if (name := f"vm.{kind}_{way}") in found]
        if parts:
            found[f"vm.{kind}"] = sum(parts)
    return found


def parse_disks(text: str) -> dict[str, float]:
    r"""Return the counters of ``/proc/diskstats`` added up over whole disks: operations, bytes, milliseconds.

    >>> line = "8 0 sda 10 0 100 20 30 0 200 40 1 50 60"
    >>> found = parse_disks(line + "\n 8 1 sda1 10 0 100 20 30 0 200 40 1 50 60")
    >>> found["disk.reads"], found["disk.read_bytes"], found["disk.busy_ms"]
    (10.0, 51200.0, 50.0)
    """
    disks = [parts for parts in map(str.split, text.splitlines()) if len(parts) >= 14 and _is_disk(parts[2])]
    names = {parts[2] for parts in disks}
    whole = [parts for parts in disks if not _is_partition(parts[2], names)]
    places = {"reads": 3, "read_ms": 6, "writes": 7, "write_ms": 10, "running": 11, "busy_ms": 12, "queue_ms": 13}
    found = {f"disk.{name}": sum(float(parts[place]) for parts in whole) for name, place in places.items()}
    found["disk.read_bytes"] = _SECTOR_BYTES * sum(float(parts[5]) for parts in whole)
    found["disk.write_bytes"] = _SECTOR_BYTES * sum(float(parts[9]) for parts in whole)
    found["disk.count"] = float(len(whole))
    found["disk.operations"] = found["disk.reads"] + found["disk.writes"]
    found["disk.served_ms"] = found["disk.read_ms"] + found["disk.write_ms"]
    return found


def parse_network(text: str) -> dict[str, float]:
    r"""Return the counters of ``/proc/net/dev``: loopback, and the sum over all other interfaces.

    >>> head = "Inter-| Receive\n face |bytes\n"
    >>> found = parse_network(head + "  lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\neth0: 7 2 0 0 0 0 0 0 9 3 0 0 0 0 0 0")
    >>> found["net.rx_bytes"], found["net.tx_packets"], found["net.lo_bytes"]
    (7.0, 3.0, 5.0)
    """
    kinds = {"rx_bytes": 0, "rx_packets": 1, "rx_errors": 2, "rx_drops": 3}
    kinds |= {name.replace("rx", "tx"): place + 8 for name, place in kinds.items()}
    found = dict.fromkeys((f"net.{kind}" for kind in kinds), 0.0)
    for line in text.splitlines():
        interface, colon, rest = line.partition(":")
        values = rest.split()
        if not colon or len(values) < 12:
            continue
        if interface.strip() == "lo":
            found["net.lo_bytes"], found["net.lo_packets"] = float(values[0]), float(values[1])
        else:
            for kind, place in kinds.items():
                found[f"net.{kind}"] += float(values[place])
    return found


def parse_protocols(text: str) -> dict[str, float]:
    r"""Return the counters of ``/proc/net/snmp``, by protocol and name.

    >>> parse_protocols("Tcp: InSegs OutSegs\nTcp: 3 4")
    {'Tcp.InSegs': 3.0, 'Tcp.OutSegs': 4.0}
    """
    found: dict[str, float] = {}
    lines = text.splitlines()
    for heads, values in zip(lines[::2], lines[1::2], strict=False):
        protocol, _, names = heads.partition(":")
        pairs = zip(names.split(), values.partition(":")[2].split(), strict=False)
        found |= {f"{protocol}.{name}": float(value) for name, value in pairs}
    return found


def parse_sockets(text: str) -> dict[str, float]:
    r"""Return the counts of ``/proc/net/sockstat``.

    >>> parse_sockets("sockets: used 9\nTCP: inuse 4 orphan 0 tw 2")["TCP.tw"]
    2.0
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        protocol, _, rest = line.partition(":")
        parts = rest.split()
        found |= {f"{protocol}.{name}": float(value) for name, value in zip(parts[::2], parts[1::2], strict=False)}
    return found


def parse_pressure(kind: str, text: str) -> dict[str, float]:
    r"""Return how long tasks were held up, in microseconds, from a file of ``/proc/pressure``.

    >>> parse_pressure("io", "some avg10=0.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 total=5")
    {'pressure.io.some': 12.0, 'pressure.io.full': 5.0}
    """
    found: dict[str, float] = {}
    for line in text.splitlines():
        what, _, rest = line.partition(" ")
        for part in rest.split():
            if part.startswith("total="):
                found[f"pressure.{kind}.{what}"] = float(part[6:])
    return found


def parse_process(texts: Mapping[str, str], ticks_per_s: float, page_kib: float) -> dict[str, float]:
    """Return the counters of one process from its files ``stat``, ``status``, ``io`` and ``schedstat``.

    Times are in seconds, sizes in KiB, what is read and written in bytes.

    >>> fields = "R 1 1 1 0 -1 0 20 0 3 0 150 50 0 0 20 0 7 0 900 4096000 250"
    >>> found = parse_process({"stat": f"42 (a (b) c) {fields}", "io": "read_bytes: 9"}, 100.0, 4.0)
    >>> found["started"], found["user_s"], found["threads"], found["rss_kib"], found["read_bytes"]
    (900.0, 1.5, 7.0, 1000.0, 9.0)
    """
    # The name may contain blanks and brackets: after the last bracket, fields count from 3.
    fields = texts.get("stat", "").rpartition(")")[2].split()
    if len(fields) < 22:
        return {}
    found = {
        "started": float(fields[19]),
        "minor_faults": float(fields[7]),
        "major_faults": float(fields[9]),
        "user_s": float(fields[11]) / ticks_per_s,
        "system_s": float(fields[12]) / ticks_per_s,
        "threads": float(fields[17]),
        "virtual_kib": float(fields[20]) / 1024,
        "rss_kib": float(fields[21]) * page_kib,
        "processes": 1.0,
    }
    if len(fields) > 39:
        found["io_delay_s"] = float(fields[39]) / ticks_per_s
    status = {"voluntary_ctxt_switches": "voluntary", "nonvoluntary_ctxt_switches": "involuntary", "VmSwap": "swap_kib"}
    for name, values in _rows(texts.get("status", "").replace(":", " ")):
        if name in status and values:
            found[status[name]] = values[0]
    calls = {"syscr": "read_calls", "syscw": "write_calls", "read_bytes": "read_bytes", "write_bytes": "written_bytes"}
    for name, values in _rows(texts.get("io", "").replace(":", " ")):
        if name in calls and values:
            found[calls[name]] = values[0]
    waited = texts.get("schedstat", "").split()
    if len(waited) >= 2:
        found["run_queue_s"] = float(waited[1]) / 1e9
    return found


def _rows(text: str) -> Iterable[tuple[str, list[float]]]:
    """Yield the name of each line with the numbers that follow it."""
    for line in text.splitlines():
        name, *rest = line.split() or [""]
        values: list[float] = []
        for part in rest:
            try:
                values.append(float(part))
            except ValueError:
                break
        yield name, values


def _is_disk(name: str) -> bool:
    return not name.startswith(_NOT_DISKS)


def _is_partition(name: str, names: set[str]) -> bool:
    """Return whether another device is the disk that this one is a part of: sda of sda1, nvme0n1 of nvme0n1p2."""
    stem = name.rstrip("0123456789")
    return stem != name and (stem in names or (stem.endswith("p") and stem[:-1] in names))
