"""Features from captured texts of /proc (SPEC I3)."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from foretide.health.features import (
    MACHINE_FEATURES,
    MACHINE_NAMES,
    TARGETS,
    WORKER_FEATURES,
    WORKER_NAMES,
)
from foretide.health.host import executor_of, read_machine, read_worker
from foretide.health.hsperf import jvm_counters, parse_hsperf
from foretide.health.procfs import parse_cpu, parse_disks, parse_network, parse_process
from foretide.health.readings import (
    Reading,
    WorkerReading,
    machine_features,
    machine_reading,
    stream_features,
    worker_features,
)

# Two readings of one machine, captured and shortened.
EARLY = {
    "stat": (
        "cpu  100 10 50 800 20 0 5 15 0 0\ncpu0 60 5 30 390 10 0 3 2 0 0\ncpu1 40 5 20 410 10 0 2 13 0 0\n"
        "intr 5000 1 2 3\nctxt 10000\nbtime 1700000000\nprocesses 300\nprocs_running 2\nprocs_blocked 0\n"
        "softirq 900 1 2\n"
    ),
    "loadavg": "0.50 0.40 0.30 2/300 4242\n",
    "meminfo": "MemTotal:       8000000 kB\nMemFree:        1000000 kB\nMemAvailable: 4000000 kB\nHugePages_Total: 0\n",
    "vmstat": "pgpgin 100\npgpgout 200\npgfault 1000\npgmajfault 1\npgscan_kswapd 3\npgscan_direct 4\n",
    "diskstats": (
        "   8       0 sda 100 0 2000 50 200 0 4000 100 0 120 150 0 0 0 0\n"
        "   8       1 sda1 90 0 1900 45 190 0 3900 95 0 110 140 0 0 0 0\n   7       0 loop0 9 0 9 9 9 0 9 9 0 9 9\n"
    ),
    "net/dev": (
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls\n"
        "    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0\n  eth0: 5000 50 1 2 0 0 0 0 7000 70 3 4 0 0 0 0\n"
    ),
    "net/snmp": "Tcp: RtoAlgorithm ActiveOpens InSegs\nTcp: 1 20 300\n",
    "net/sockstat": "sockets: used 112\nTCP: inuse 45 orphan 0 tw 18 alloc 60 mem 2\n",
    "pressure/cpu": "some avg10=1.00 avg60=2.00 avg300=3.00 total=1000000\nfull avg10=0.00 avg60=0.00 total=0\n",
}
LATER = EARLY | {
    "stat": (
        "cpu  180 10 70 880 20 0 5 35 0 0\ncpu0 150 5 40 390 10 0 3 2 0 0\ncpu1 30 5 30 490 10 0 2 33 0 0\n"
        "intr 7000 1 2 3\nctxt 14000\nprocesses 310\nprocs_running 5\nprocs_blocked 1\nsoftirq 1000 1 2\n"
    ),
    "diskstats": "   8       0 sda 110 0 2100 80 220 0 4400 140 0 620 300 0 0 0 0\n",
    "pressure/cpu": "some avg10=1.00 avg60=2.00 avg300=3.00 total=2500000\n",
}
STAT = (
    "77 (java) S 1 77 77 0 -1 4194560 {minor} 0 {major} 0 {user} {system} 0 0 20 0 {threads} 0 {started} 409600000 "
    "{pages} 1"
)


def by_name(names: tuple[str, ...], values: np.ndarray) -> dict[str, float]:
    return dict(zip(names, values.tolist(), strict=True))


def test_i3_there_are_enough_features_each_with_a_name_of_its_own() -> None:
    assert len(WORKER_FEATURES) >= 24
    assert len(MACHINE_FEATURES) >= 57
    assert len(set(WORKER_NAMES)) == len(WORKER_NAMES)
    assert len(set(MACHINE_NAMES)) == len(MACHINE_NAMES)
    assert all(each.about and each.group and each.of for each in (*WORKER_FEATURES, *MACHINE_FEATURES))
    assert set(TARGETS) <= set(WORKER_NAMES)


def test_i3_machine_features_from_two_readings_by_hand() -> None:
    values = by_name(MACHINE_NAMES, machine_features(machine_reading(100.0, EARLY), machine_reading(110.0, LATER)))
    # 200 ticks passed: 80 in user mode, 20 in the kernel, 80 idle, 20 stolen.
    assert values["cpu_user"] == pytest.approx(40.0)
    assert values["cpu_system"] == pytest.approx(10.0)
    assert values["cpu_idle"] == pytest.approx(40.0)
    assert values["cpu_steal"] == pytest.approx(10.0)
    assert values["cpu_busiest"] == pytest.approx(100.0)
    # The second core: 110 ticks less 10 that a counter went back, of which 80 idle.
    assert values["cpu_idlest"] == pytest.approx(20.0)
    assert values["cores"] == 2
    assert values["switches"] == pytest.approx(400.0)
    assert values["interrupts"] == pytest.approx(200.0)
    assert values["forks"] == pytest.approx(1.0)
    assert (values["running"], values["blocked"]) == (5, 1)
    assert (values["load1"], values["load15"], values["tasks"]) == (0.5, 0.3, 300)
    assert values["memory_available_kib"] == 4_000_000
    assert values["pages_scanned"] == 0
    # Ten reads and twenty writes took 70 ms; the disk was busy for half a second of ten.
    assert values["disk_reads"] == pytest.approx(1.0)
    assert values["disk_written"] == pytest.approx(400 * 512 / 10)
    assert values["disk_busy"] == pytest.approx(5.0)
    assert values["disk_wait_ms"] == pytest.approx(70 / 30)
    assert values["rx_bytes"] == 0
    assert values["pressure_cpu"] == pytest.approx(15.0)
    assert (values["sockets"], values["tcp_sockets"], values["tcp_waiting"]) == (112, 45, 18)
    # What the captured texts do not hold is not known.
    assert math.isnan(values["udp_in"])
    assert math.isnan(values["pressure_io"])


def test_a_first_reading_knows_levels_but_no_rates() -> None:
    values = by_name(MACHINE_NAMES, machine_features(None, machine_reading(0.0, EARLY)))
    assert values["load1"] == 0.5
    assert math.isnan(values["cpu_user"])
    assert math.isnan(values["switches"])
    assert math.isnan(values["cpu_busiest"])


@pytest.mark.parametrize("text", ["", "\n\n", "cpu", "cpu x y", "nonsense without numbers", "\x00\x01"])
def test_texts_that_make_no_sense_give_nothing(text: str) -> None:
    assert all(math.isfinite(value) for value in parse_cpu(text).values())
    assert parse_process({"stat": text}, 100.0, 4.0) == {}
    assert parse_network(text)["net.rx_bytes"] == 0
    assert parse_disks(text)["disk.count"] == 0
    assert machine_features(None, machine_reading(0.0, {name: text for name in EARLY})).shape == (len(MACHINE_NAMES),)


def process(
    minor: int = 0, major: int = 0, user: int = 0, system: int = 0, started: int = 5, pages: int = 100
) -> dict[str, float]:
    stat = STAT.format(minor=minor, major=major, user=user, system=system, threads=10, started=started, pages=pages)
    status = "voluntary_ctxt_switches:\t40\nnonvoluntary_ctxt_switches:\t4\nVmSwap:\t 0 kB\n"
    return parse_process({"stat": stat, "status": status, "io": "syscr: 7\nwrite_bytes: 4096\n"}, 100.0, 4.0)


def test_i3_worker_features_add_up_its_processes_by_hand() -> None:
    before = WorkerReading(0.0, {"77": process(user=100), "80": process(user=50)}, ("80",), {"mem_total_kib": 8000.0})
    after = WorkerReading(
        10.0,
        {"77": process(user=300, minor=20), "80": process(user=150, system=100), "81": process(user=50)},
        ("80", "81"),
        {"mem_total_kib": 8000.0, "jvm.heap_used": 2048.0},
    )
    values = by_name(WORKER_NAMES, worker_features(before, after))
    # 2 s + 1 s + .5 s (the new process) in user mode, 1 s in the kernel, over 10 s.
    assert values["cpu_user"] == pytest.approx(35.0)
    assert values["cpu_system"] == pytest.approx(10.0)
    assert values["cpu"] == pytest.approx(45.0)
    assert values["cpu_python"] == pytest.approx(25.0)
    assert values["rss_kib"] == 1200
    assert values["python_rss_kib"] == 800
    assert values["memory_share"] == pytest.approx(15.0)
    assert values["minor_faults"] == pytest.approx(2.0)
    assert values["processes"] == 3
    assert values["threads"] == 30
    assert values["heap_used_kib"] == 2
    assert math.isnan(values["execution_ms"])


def test_a_process_that_took_over_an_id_does_not_count_backwards() -> None:
    before = WorkerReading(0.0, {"1": process(user=100), "2": process(user=900, started=5)})
    after = WorkerReading(10.0, {"1": process(user=200), "2": process(user=10, started=99)})
    assert by_name(WORKER_NAMES, worker_features(before, after))["cpu_user"] == pytest.approx(11.0)


def test_i3_stream_features_by_hand() -> None:
    totals = {
        "rows_in": 200.0, "rows_out": 100.0, "failed": 2.0, "busy_s": 1.0, "waited_s": 40.0,
        "sending_s": 0.3, "parcels": 6.0, "tasks": 4.0, "task_s": 2.0, "start_s": 0.4,
    }  # fmt: skip
    values = stream_features(totals, 2.0).tolist()
    assert values == pytest.approx([5.0, 100.0, 200.0, 50.0, 3.0, 50.0, 1.0, 2.0, 500.0, 100.0])


def test_means_over_no_events_are_not_known() -> None:
    values = by_name(
        WORKER_NAMES[:10], stream_features(dict.fromkeys(("rows_in", "busy_s", "tasks", "task_s"), 0.0), 1.0)
    )
    assert math.isnan(values["execution_ms"])
    assert values["inbound_rate"] == 0


def test_readings_survive_json() -> None:
    reading = machine_reading(3.0, EARLY)
    assert Reading.from_json(reading.to_json()) == reading
    worker = WorkerReading(1.0, {"7": process(user=3)}, ("7",), {"jvm.threads": 4.0})
    assert WorkerReading.from_json(worker.to_json()) == worker


def hsperf(entries: dict[str, int]) -> bytes:
    """Return a file as a JVM writes it, little-endian."""
    body = b""
    for name, value in entries.items():
        text = name.encode() + b"\0"
        padding = -(20 + len(text)) % 8
        head = struct.pack(
            "<iiiBBBBi", 20 + len(text) + padding + 8, 20, 0, ord("J"), 0, 1, 1, 20 + len(text) + padding
        )
        body += head + text + b"\0" * padding + struct.pack("<q", value)
    head = b"\xca\xfe\xc0\xc0" + bytes([1, 2, 0, 1]) + struct.pack("<iiqii", 32 + len(body), 0, 0, 32, len(entries))
    return head + body


def test_a_jvm_tells_about_heap_collections_and_threads() -> None:
    data = hsperf(
        {
            "sun.gc.generation.0.space.0.used": 1000,
            "sun.gc.generation.1.space.0.used": 500,
            "sun.gc.generation.0.space.0.capacity": 4000,
            "sun.gc.metaspace.used": 70,
            "sun.gc.collector.0.time": 3_000_000,
            "sun.gc.collector.0.invocations": 4,
            "sun.os.hrt.frequency": 1_000_000,
            "java.threads.live": 21,
        }
    )
    assert jvm_counters(parse_hsperf(data)) == {
        "jvm.heap_used": 1500.0,
        "jvm.heap_committed": 4000.0,
        "jvm.nonheap_used": 70.0,
        "jvm.gc_s": 3.0,
        "jvm.gc_count": 4.0,
        "jvm.threads": 21.0,
    }


@pytest.mark.parametrize("cut", [0, 10, 32, 60, 100])
def test_a_file_of_a_jvm_that_is_cut_short_is_no_error(cut: int) -> None:
    assert len(parse_hsperf(hsperf({"a": 1, "b": 2})[:cut])) <= 2


def write_process(proc: Path, pid: int, parent: int, words: list[str], children: str = "") -> None:
    (proc / str(pid) / "task" / str(pid)).mkdir(parents=True)
    stat = STAT.format(minor=0, major=0, user=10, system=0, threads=1, started=5, pages=1)
    (proc / str(pid) / "stat").write_text(stat.replace("77 (java) S 1", f"{pid} (x) S {parent}"))
    (proc / str(pid) / "cmdline").write_bytes(b"\0".join(word.encode() for word in words) + b"\0")
    (proc / str(pid) / "task" / str(pid) / "children").write_text(children)


def test_an_executor_is_found_above_a_task(tmp_path: Path) -> None:
    (tmp_path / "self").mkdir()
    write_process(tmp_path, 10, 1, ["/usr/bin/java", "-cp", "x", "Backend", "--executor-id", "3", "--cores", "1"])
    write_process(tmp_path, 11, 10, ["python", "-m", "daemon"], "12 13")
    write_process(tmp_path, 12, 11, ["python", "-m", "daemon"])
    write_process(tmp_path, 13, 11, ["python", "-m", "daemon"])
    found = executor_of(12, tmp_path)
    assert (found.id, found.jvm, found.daemon) == ("3", 10, 11)
    reading = read_worker(found, tmp_path)
    assert sorted(reading.processes) == ["10", "11", "12", "13"]
    assert reading.python == ("11", "12", "13")


def test_a_driver_that_runs_tasks_and_a_process_without_a_jvm(tmp_path: Path) -> None:
    write_process(tmp_path, 10, 1, ["/usr/bin/java", "SparkSubmit"])
    write_process(tmp_path, 11, 10, ["python"])
    write_process(tmp_path, 20, 1, ["python"])
    assert executor_of(11, tmp_path).id == "driver"
    assert executor_of(20, tmp_path).jvm == 20


def test_this_machine_tells_something_with_and_without_proc(tmp_path: Path) -> None:
    for proc in (Path("/proc"), tmp_path / "none"):
        values = by_name(MACHINE_NAMES, machine_features(None, read_machine(proc)))
        assert values["memory_total_kib"] > 0
        assert values["load1"] >= 0


def test_the_document_lists_every_feature() -> None:
    text = Path(__file__).parents[3].joinpath("docs", "health.md").read_text(encoding="utf-8")
    for features in (WORKER_FEATURES, MACHINE_FEATURES):
        rows = [f"| `{each.name}` | {each.unit} | {each.group} | {each.about} |" for each in features]
        table = "\n".join(["| feature | unit | group | what it says |", "|---|---|---|---|", *rows])
        assert table in text, f"expected this table in docs/health.md:\n{table}"
    counts = re.search(r"(\d+) features of a worker and (\d+) of a machine", text)
    assert counts is not None
    assert (int(counts[1]), int(counts[2])) == (len(WORKER_FEATURES), len(MACHINE_FEATURES))
