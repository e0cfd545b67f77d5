"""What the service can take: forecasts a second and their latency, and what live data costs.

Run ``python benchmarks/service.py [--quick] [--repeats N]``.

The service and a bare FastAPI route that sends back what it gets run in processes of their own, with one event loop
each. Both get the same body, 100 samples, over connections that are kept open. For the latency requests leave at even
distances, whatever became of those before; it counts from the instant at which each was due. For the ratio each side
answers as fast as it can for a few seconds, in turn.

For live data a run of 50 operators is recorded, a measurement each second and a decision every ten, while one reader
follows it. The delay is from the end of a batch to the arrival of its figures; CPU is that of the service's process.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import psutil

from _harness import Measured, Ratio, alternate, between, parse_options, progress, report

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

RATE_PER_S = 200
P99_TARGET_MS = 50.0
RATIO_TARGET = 0.5
DELAY_TARGET_S = 1.0
CPU_TARGET = 0.01
OPERATORS = 50
CONNECTIONS = 8
SAMPLES = np.random.default_rng(20_240_501).uniform(50, 150, 100).round(3).tolist()
BODY = json.dumps({"samples": SAMPLES, "horizon": 30}).encode()
BODY_WITH_QUANTILES = json.dumps({"samples": SAMPLES, "horizon": 30, "quantiles": [0.1, 0.5, 0.9]}).encode()


def main() -> None:
    options = parse_options(__doc__, repeats=5, quick_repeats=1)
    stretch_s, turn_s, follow_s = options.size((6.0, 4.0, 15), quick=(3.0, 1.0, 5), smoke=(0.3, 0.1, 3))
    with tempfile.TemporaryDirectory() as folder:
        store = str(Path(folder) / "runs.db")
        with server("service", store) as service, server("echo", store) as echo:
            paced = [
                asyncio.run(_paced(service.url, "/v1/forecast/lr", RATE_PER_S, stretch_s))
                for _ in range(options.repeats)
            ]
            for one in paced:
                progress(f"  {RATE_PER_S}/s for {stretch_s:g} s: p50 {one.p50_ms:.1f} ms, p99 {one.p99_ms:.1f} ms")
            flat_out = alternate(
                {
                    "forecasts": lambda: asyncio.run(_flat_out(service.url, "/v1/forecast/lr", turn_s)),
                    "echo": lambda: asyncio.run(_flat_out(echo.url, "/echo", turn_s)),
                    "with quantiles": lambda: asyncio.run(
                        _flat_out(service.url, "/v1/forecast/lr", turn_s, BODY_WITH_QUANTILES)
                    ),
                },
                options.repeats,
                warm_up=options.warm_up,
                show=lambda rate: f"{rate:,.0f}/s",
            )
            live = [follow(service, store, follow_s) for _ in range(options.repeats)]
    with_quantiles = between(flat_out["with quantiles"], flat_out["echo"])
    note = "Where nothing is compared, the figure itself stands for the ratio: of each stretch."
    lines = [
        Measured(
            "p99 of 200 `lr` forecasts a second, ms",
            "",
            "at most",
            P99_TARGET_MS,
            _figures(p.p99_ms for p in paced),
            note,
        ),
        Measured(
            "`lr` forecasts a second",
            "bare echo route",
            "at least",
            RATIO_TARGET,
            between(flat_out["forecasts"], flat_out["echo"]),
            f"With three quantiles of each of the 30 steps the ratio is {with_quantiles.median:.2f}.",
        ),
        Measured(
            "batch to reader at 50 operators, longest, s",
            "",
            "at most",
            DELAY_TARGET_S,
            _figures(one.longest_s for one in live),
        ),
        Measured("CPU of live data, part of a core", "", "at most", CPU_TARGET, _figures(one.cpu for one in live)),
    ]
    details = {"paced": [vars(one) for one in paced], "per_second": flat_out, "live": [vars(one) for one in live]}
    report("service", "Service", lines, details, options)


def _figures(values: Iterable[float]) -> Ratio:
    return Ratio(tuple(float(f"{value:.3g}") for value in values))


@dataclass(frozen=True)
class Paced:
    """Requests that left at even distances."""

    requests: int
    answered_per_s: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    worst_ms: float


@dataclass(frozen=True)
class Live:
    """What following a run took."""

    measurements: int
    median_s: float
    longest_s: float
    cpu: float
    idle_cpu: float


@dataclass(frozen=True)
class Server:
    """A server in a process of its own."""

    url: str
    process: psutil.Process


@contextmanager
def server(role: str, store: str) -> Iterator[Server]:
    """Run a server, and end it."""
    command = [sys.executable, __file__, "--role", role, store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        try:
            yield Server(process.stdout.readline().strip(), psutil.Process(process.pid))
        finally:
            process.stdin.close()
            process.wait(20)


def run_role(role: str, store: str) -> None:
    """Serve until the input ends."""
    import uvicorn

    # The protocol is named, as the service does: without it asyncio leaves small answers to wait for one another.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    config = uvicorn.Config(
        _app(role, store), log_level="warning", access_log=False, server_header=False, ws="none", timeout_keep_alive=60
    )
    served = uvicorn.Server(config)
    thread = threading.Thread(target=served.run, args=([listening],))
    thread.start()
    while not served.started:
        time.sleep(0.01)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    sys.stdin.read()
    served.should_exit = True
    thread.join()


def _app(role: str, store: str) -> Any:
    if role == "service":
        from foretide.service import ServiceSettings, create_app
        from foretide.store import RunStore

        return create_app(RunStore(store), ServiceSettings(rate_per_s=1e6, burst=1_000_000))
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/echo")
    async def echo(body: dict[str, Any]) -> dict[str, Any]:
        return body

    return app


class Connection:
    """A connection that is kept open, with as little around it as can be: the client must not be what is measured."""

    def __init__(self, url: str, path: str, body: bytes = BODY) -> None:
        self._host = urlsplit(url).netloc
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def open(self) -> Connection:
        """Connect."""
        host, _, port = self._host.partition(":")
        self._reader, self._writer = await asyncio.open_connection(host, int(port))
        return self

    async def ask(self) -> bool:
        """Send the request, read the answer, and tell whether it is a good one."""
        self._writer.write(self._request)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        await self._reader.readexactly(length)
        return head.startswith(b"HTTP/1.1 200")

    async def close(self) -> None:
        """Disconnect."""
        self._writer.close()
        await self._writer.wait_closed()


@asynccontextmanager
async def _connected(number: int, url: str, path: str, body: bytes = BODY) -> AsyncIterator[list[Connection]]:
    """Give so many connections; close them."""
    every = [await Connection(url, path, body).open() for _ in range(number)]
    try:
        yield every
    finally:
        for connection in every:
            await connection.close()


async def _paced(url: str, path: str, rate_per_s: float, seconds: float) -> Paced:
    """Send requests at even distances; one that finds all connections busy waits, and that counts."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    took_s: list[float] = []

    async def one(due: float) -> None:
        connection = await free.get()
        _accept(await connection.ask(), path)
        free.put_nowait(connection)
        took_s.append(time.perf_counter() - due)

    async with _connected(4 * CONNECTIONS, url, path) as every:
        for connection in every:
            _accept(await connection.ask(), path)
            free.put_nowait(connection)
        began = time.perf_counter() + 0.1
        async with asyncio.TaskGroup() as tasks:
            for number in range(int(rate_per_s * seconds)):
                due = began + number / rate_per_s
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.create_task(one(due))
        spent_s = time.perf_counter() - began
    took_ms = 1e3 * np.array(took_s)
    p50, p95, p99 = np.quantile(took_ms, (0.5, 0.95, 0.99)).tolist()
    return Paced(len(took_s), len(took_s) / spent_s, p50, p95, p99, float(took_ms.max()))


def _accept(good: bool, path: str) -> None:
    """Raise where a request failed: a refusal is quick, and must not count as an answer."""
    if not good:
        raise RuntimeError(f"{path}: expected status 200, got another one; the figures would be those of refusals")


async def _flat_out(url: str, path: str, seconds: float, body: bytes = BODY) -> float:
    """Return the requests a second that are answered when each connection asks again at once."""
    counts = [0] * CONNECTIONS

    async def go_on(number: int, connection: Connection) -> None:
        while time.perf_counter() - began < seconds:
            _accept(await connection.ask(), path)
            counts[number] += 1

    async with _connected(CONNECTIONS, url, path, body) as every:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number, connection in enumerate(every):
                tasks.create_task(go_on(number, connection))
        spent_s = time.perf_counter() - began
    return sum(counts) / spent_s


def follow(service: Server, path: str, seconds: int) -> Live:
    """Record a run in real time while a reader follows it, and return how late and how dear that was."""
    from simulated_recording import Recording, record_simulation

    from foretide.clock import SystemClock
    from foretide.sim.options import SimulationOptions
    from foretide.store import RunStore
    from foretide.topology import flow
    from foretide.traces import RateTrace

    job = flow("line")
    stream = job.source("in")
    for number in range(OPERATORS):
        stream = stream.operator(f"operator{number}", execution_s=0.002, replicas=(1, 8))
    topology, trace = job.build(), RateTrace("even", bin_s=1, rates=[200.0] * (seconds + 60))
    options = SimulationOptions.of({"planner": "pasps", "forecaster": "lr", "td_s": 10.0, "warm_up_s": 0.0})
    with tempfile.TemporaryDirectory() as folder, RunStore(Path(folder) / "runs.db") as warm_up:
        # What is compiled at the first step must not look like a late batch.
        record_simulation(warm_up, topology, trace, options, Recording(seconds=20.0))
    idle = _cpu(service.process, 2.0)
    with RunStore(path) as store:
        recording, before = Recording(seconds=seconds + 4.0, clock=SystemClock()), len(store.runs())
        args = (store, topology, trace, options, recording)
        thread = threading.Thread(target=record_simulation, args=args)
        thread.start()
        try:
            while len(store.runs()) == before:
                time.sleep(0.05)
            delays, cpu = asyncio.run(_read(service, seconds))
        finally:
            thread.join()
    progress(f"  live: {len(delays)} batches, {np.median(delays):.2f} s, at most {max(delays):.2f} s, CPU {cpu:.2%}")
    return Live(len(delays), float(np.median(delays)), max(delays), cpu, idle)


async def _read(service: Server, seconds: int) -> tuple[list[float], float]:
    """Follow the latest run for so many measurements; return how late each was, and the CPU of the service."""
    host, _, port = urlsplit(service.url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /v1/runs/latest/stream HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    delays: list[float] = []
    began, before = time.perf_counter(), sum(service.process.cpu_times()[:2])
    kind = b""
    while len(delays) < seconds:
        line = await reader.readline()
        assert line, "the stream ended"
        if line.startswith(b"event: "):
            kind = line
        elif line.startswith(b"data: ") and kind == b"event: measurement\n":
            # The clock of the run is the system's: this is the time from the end of the batch.
            delays.append(time.time() - json.loads(line[6:])["at_s"])
    cpu = (sum(service.process.cpu_times()[:2]) - before) / (time.perf_counter() - began)
    writer.close()
    return delays, cpu


def _cpu(process: psutil.Process, seconds: float) -> float:
    before = sum(process.cpu_times()[:2])
    time.sleep(seconds)
    return float(sum(process.cpu_times()[:2]) - before) / seconds


if __name__ == "__main__":
    if sys.argv[1:2] == ["--role"]:
        run_role(*sys.argv[2:4])
    else:
        main()
