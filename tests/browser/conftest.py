"""A headless Chromium, and a service with runs to look at."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from simulated_recording import Recording, record_simulation

from foretide.clock import SystemClock
from foretide.events import Event
from foretide.health.features import MACHINE_NAMES, WORKER_NAMES
from foretide.plan.planners.foretide import Foretide
from foretide.service import BackgroundService, ServiceSettings
from foretide.sim.options import SimulationOptions
from foretide.sim.settings import MicroBatch, SimulationSettings
from foretide.store import FeatureSample, RunRecorder, RunStore, RuntimeStore, StoreSettings
from foretide.topology import Topology, flow
from foretide.traces import RateTrace

if not os.environ.get("CI"):
    pytest.importorskip("selenium")
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

_FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--force-color-profile=srgb"),
)
HOSTILE = "<img src=x onerror=document.title='taken'>"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium and its driver")


def tweets() -> Topology:
    """Return eight operators in two branches that meet again."""
    job = flow("tweets")
    split = (
        job.source("tweets", "kafka")
        .operator("parse", execution_s=0.012, replicas=(1, 8))
        .operator(
            "split",
            execution_s=0.008,
            outputs=("news", "opinion"),
            selectivity={"news": 0.6, "opinion": 0.4},
            replicas=(1, 6),
        )
    )
    news = split["news"].operator("topic", execution_s=0.03, replicas=(1, 8))
    news = news.operator("category", execution_s=0.02, replicas=(1, 8))
    opinion = split["opinion"].operator("sentiment", execution_s=0.04, replicas=(1, 8))
    opinion = opinion.operator("author", execution_s=0.02, replicas=(1, 8), stateful=True, grouping="fields:author")
    merge = job.operator("merge", inputs=[news, opinion], execution_s=0.006, replicas=(1, 8))
    merge.operator("store", execution_s=0.01, replicas=(1, 4), queued=True).sink("database", "postgres")
    return job.build()


def words() -> Topology:
    """Return two operators that share the slots of their stage."""
    job = flow("words")
    job.source("in").operator("split", execution_s=0.002, replicas=(1, 8)).operator("count", execution_s=0.01)
    return job.build()


def waves(seconds: int) -> RateTrace:
    at = np.arange(seconds)
    noise = np.random.default_rng(7).normal(0, 8, seconds)
    rates = 130 + 80 * np.sin(2 * np.pi * at / 300) + 30 * np.sin(2 * np.pi * at / 90) + noise
    return RateTrace("waves", bin_s=1, rates=np.clip(rates, 5, None))


def workers(recorder: RunRecorder, now_s: float) -> None:
    """Record what workers and machines would tell of themselves, every five seconds."""
    if int(now_s) % 5:
        return
    if 500 <= now_s < 505:
        reason = "execution takes 4.2 times as long as with the others"
        data = {"worker": "executor-4", "reason": reason}
        recorder.emit(Event(now_s, "health.bypassed", f"worker executor-4: {reason}", "warning", data))
        times = {"policy": "predicted-slowdown", "measured": {"queueing_ms": 120}, "predicted": {"queueing_ms": 340}}
        recorder.emit(Event(now_s, "health.judged", "4 workers judged", data={"workers": {"executor-1": times}}))
    rng = np.random.default_rng(int(now_s))
    for number in range(1, 5):
        told = dict(zip(WORKER_NAMES, rng.uniform(1, 40, len(WORKER_NAMES)).tolist(), strict=True))
        told |= {"cpu": 45.0 + 12 * number + rng.uniform(-4, 4), "memory_share": 30.0 + number, "gc_share": 2.0}
        sample = FeatureSample.of(now_s, "worker", f"executor-{number}", f"host-{(number + 1) // 2}", told)
        recorder.features([sample])
    for number in (1, 2):
        values = rng.uniform(1, 60, len(MACHINE_NAMES))
        recorder.features([FeatureSample(now_s, "machine", f"host-{number}", f"host-{number}", MACHINE_NAMES, values)])


def hostile(recorder: RunRecorder, now_s: float) -> None:
    recorder.emit(Event(now_s, HOSTILE, HOSTILE, data={HOSTILE: HOSTILE}))


def options(planner: str, td_s: float = 10.0) -> SimulationOptions:
    forecaster = "holt-damped" if planner == "pasps" else None
    return SimulationOptions.of({"planner": planner, "forecaster": forecaster, "td_s": td_s})


def promised() -> SimulationOptions:
    """Return the options of a run on batches, with a promise."""
    batches = SimulationSettings(micro_batch=MicroBatch(fixed_s=0.1, trigger_s=0.5))
    planner = Foretide(slo="p95<2s")
    return SimulationOptions.of({"planner": planner, "forecaster": "basic", "td_s": 10.0, "settings": batches})


@dataclass(frozen=True)
class Shown:
    """A service to look at, and the runs that it has."""

    url: str
    store: RunStore
    static: str
    pasps: str
    hostile: str
    promised: str


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    path = tmp_path_factory.mktemp("dashboard") / "runs.db"
    with RunStore(path) as store:
        bad = record_simulation(
            store, tweets(), waves(60), options("static"), Recording(name=HOSTILE, seconds=40, on_sample=hostile)
        )
        kept = record_simulation(store, words(), waves(60), promised())
        static = record_simulation(store, tweets(), waves(600), options("ds2"))
        pasps = record_simulation(store, tweets(), waves(600), options("pasps"), Recording(on_sample=workers))
        with BackgroundService(store, ServiceSettings(port=0)) as service:
            yield Shown(service.url, store, static, pasps, bad, kept)


class Live:
    """A run that goes on in real time, in a thread, until it is told to end."""

    def __init__(self, folder: Path) -> None:
        self.store = RunStore(folder / "runs.db", StoreSettings(flush_s=0.25))
        self.runtime = RuntimeStore(folder / "runtime.json")
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        recording = Recording(seconds=120, clock=SystemClock(), runtime=self.runtime, on_sample=self._look)
        try:
            record_simulation(self.store, tweets(), waves(300), options("pasps", td_s=2.0), recording)
        except InterruptedError:
            pass

    def _look(self, recorder: RunRecorder, now_s: float) -> None:
        if self._stop.is_set():
            raise InterruptedError

    def end(self) -> None:
        self._stop.set()
        self._thread.join(20)
        self.store.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    made = Live(tmp_path)
    yield made
    made.end()


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None:
        if os.environ.get("CI"):
            pytest.fail("Chromium and its driver are not installed: apt-get install chromium chromium-driver")
        pytest.skip("Chromium and its driver are not installed: apt-get install chromium chromium-driver")
    chosen = webdriver.ChromeOptions()
    chosen.binary_location = browser
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}", "--window-size=1440,1000"):
        chosen.add_argument(flag)
    chosen.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=chosen, service=Service(driver))
    found.set_script_timeout(30)
    yield found
    found.quit()
