"""The dashboard in a real browser: what it shows, what a click explains, and how it looks."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from foretide.service import BackgroundService, ServiceSettings

pytestmark = [pytest.mark.browser, pytest.mark.slow]
_WAIT_S = 40.0
Chrome = webdriver.Chrome


class Page:
    """The dashboard in a browser."""

    def __init__(self, chrome: Chrome, folder: Path) -> None:
        self.chrome, self._folder = chrome, folder

    def open(self, url: str, theme: str = "light", **asked: str) -> Page:
        """Show a run, and wait until it is drawn."""
        fragment = "&".join(f"{name}={value}" for name, value in asked.items())
        self.chrome.get("about:blank")
        self.chrome.get(f"{url}/static/icon.svg")
        self.script("localStorage.setItem('foretide-theme', arguments[0])", theme)
        self.chrome.get(f"{url}/#{fragment}")
        self.until("return document.body.dataset.at !== undefined")
        return self

    def script(self, text: str, *given: Any) -> Any:
        return self.chrome.execute_script(text, *given)

    def until(self, text: str, *given: Any) -> Any:
        """Wait until a script returns something that is true, and return it."""
        due_s = time.monotonic() + _WAIT_S
        while not (found := self.script(text, *given)):
            assert time.monotonic() < due_s, f"waited in vain for: {text}; notice: {self.text('#notice')}"
            time.sleep(0.05)
        return found

    def text(self, selector: str) -> str:
        return str(self.script("return document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def count(self, selector: str) -> int:
        return int(self.script("return document.querySelectorAll(arguments[0]).length", selector))

    def click(self, selector: str) -> None:
        self.chrome.find_element(By.CSS_SELECTOR, selector).click()

    def size(self, width: int, height: int, mobile: bool = False) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": mobile}
        self.chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def shoot(self, name: str, height: int | None = None) -> Path:
        """Take a picture of the whole page, or of the top of it."""
        width, whole = self.script("return [innerWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": width, "height": min(height or whole, whole), "scale": 1}
        given = {"captureBeyondViewport": True, "clip": clip}
        picture = base64.b64decode(self.chrome.execute_cdp_cmd("Page.captureScreenshot", given)["data"])
        path = self._folder / f"{name}.png"
        path.write_bytes(picture)
        return path

    def complaints(self) -> list[str]:
        """Return errors of the page since the last look."""
        return [str(entry["message"]) for entry in self.chrome.get_log("browser") if entry["level"] == "SEVERE"]  # type: ignore[no-untyped-call]


@pytest.fixture
def page(chromium: Chrome, tmp_path: Path) -> Iterator[Page]:
    folder = Path(os.environ.get("FORETIDE_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    chromium.get("about:blank")
    chromium.get_log("browser")  # type: ignore[no-untyped-call]
    found = Page(chromium, folder)
    found.size(1440, 1000)
    yield found
    chromium.get("about:blank")


#: How many different colours a canvas has: an empty one has one, axes alone a few shades of grey.
_COLOURS = """
const canvas = document.querySelector(arguments[0] + " canvas");
const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
return new Set(pixels).size;
"""


def test_a_run_is_shown_with_all_its_parts(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.pasps)
    assert "tweets" in page.text("#about h1") and "finished" in page.text("#status")
    assert page.count("#dag .operator") == 8 and page.count("#dag .source") == page.count("#dag .sink") == 1
    run = shown.store.run(shown.pasps)
    active = int(run.measurements(last=1)[0].replicas[0])
    label = page.script("return document.querySelector('#dag .operator').getAttribute('aria-label')")
    assert label.startswith(f"parse: {active} of 8 replicas, ")
    assert page.count("#dag .operator .pip.on") == int(run.measurements(last=1)[0].replicas.sum())
    for name in ("input", "slots", "queue", "latency"):
        assert page.script(_COLOURS, f"#chart-{name}") > 20, name
    assert page.count("#decisions tbody tr") == len(run.decisions())
    assert page.count("#workers tbody tr") == 6
    assert page.count("#workers .health") == 4 and page.text("#workers .health .chip") == "bypassed"
    assert "4.2 times" in page.text("#workers tr:nth-child(4) .health")
    judged = page.text("#workers tr:nth-child(1) .health")
    assert "fine by predicted-slowdown" in judged and "queueing 120 ms, next 340 ms predicted" in judged
    assert page.complaints() == []
    page.shoot("light")
    page.shoot("top", 1120)


def test_a_feature_of_all_workers_is_drawn_over_time(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.pasps)
    page.until("return document.querySelector('#chart-feature .legend').textContent.includes('executor-4')")
    assert page.script("return document.querySelector('#feature').value") == "worker queueing_ms"
    choose = (
        "const at = document.querySelector('#feature'); at.value = arguments[0]; at.dispatchEvent(new Event('change'))"
    )
    page.script(choose, "machine load1")
    page.until("return document.querySelector('#chart-feature .legend').textContent.includes('host-2')")
    assert "executor-4" not in page.text("#chart-feature .legend")
    assert page.script(_COLOURS, "#chart-feature") > 20
    assert page.complaints() == []


def test_a_promise_is_shown_beside_what_is_expected_and_kept(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.promised)
    tile = next(text for text in page.text("#tiles").split("\n\n") if "promise p95" in text)
    assert "promise p95 < 2" in tile and "of intervals kept" in tile and "expected" in tile
    outlook = page.script("return document.querySelector('#chart-latency').textContent")
    assert "promised" in outlook and "p95 expected" in outlook
    page.open(shown.url, run=shown.pasps)
    assert "promise" not in page.text("#tiles")
    assert page.complaints() == []


def test_nothing_is_loaded_from_elsewhere(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.pasps)
    names = page.script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert names and all(name.startswith(shown.url) for name in names)


def test_a_click_explains_a_decision_through_its_equations(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.pasps)
    page.script("document.querySelector('#decisions tbody tr .chip.good').closest('tr').click()")
    page.until("return document.querySelectorAll('#story[open] .steps li').length > 5")
    text = page.text("#story .steps")
    assert "P5 Eq. 4" in text and "P3 Eq. 1" in text and "λ̂" in text
    page.script("document.querySelectorAll('#story .choices button')[6].click()")
    assert page.until("return document.querySelectorAll('#story [aria-pressed=true]').length") == 1
    assert "merge" in page.text("#story [aria-pressed=true]")
    page.shoot("story", 900)
    page.click("#story header button")
    assert page.count("#story[open]") == 0


def test_a_decision_opens_by_keyboard(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.pasps)
    page.script(
        "const row = document.querySelector('#decisions tbody tr'); row.focus();"
        "row.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))"
    )
    page.until("return document.querySelector('#story').open")


def test_runs_are_switched_and_compared(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.pasps, range="")
    page.script(
        "const select = document.getElementById('compare'); select.value = arguments[0];"
        "select.dispatchEvent(new Event('change'))",
        shown.static,
    )
    page.until("return document.querySelectorAll('#comparison:not([hidden]) tbody tr').length > 8")
    assert page.count("#comparison td.best") > 3
    page.shoot("compare")
    page.script(
        "const select = document.getElementById('run'); select.value = arguments[0];"
        "select.dispatchEvent(new Event('change'))",
        shown.static,
    )
    page.until("return document.querySelector('#about').textContent.includes(arguments[0])", shown.static)


def test_dark_is_dark(page: Page, shown: Any) -> None:
    page.open(shown.url, theme="dark", run=shown.pasps, range="")
    lightness = (
        "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number).reduce((a, b) => a + b)"
    )
    assert page.script(lightness) < 150
    page.shoot("dark")
    page.click("#theme")
    assert page.script(lightness) > 600


def test_it_fits_a_phone(page: Page, shown: Any) -> None:
    page.size(390, 844, mobile=True)
    page.open(shown.url, run=shown.pasps)
    assert page.script("return document.documentElement.scrollWidth <= innerWidth")
    small = page.script(
        "return [...document.querySelectorAll('.bar select, .bar button:not([hidden])')]"
        ".filter((one) => one.getBoundingClientRect().height < 32).length"
    )
    assert small == 0
    page.shoot("phone")
    page.script("document.querySelector('#decisions tbody tr').click()")
    page.until("return document.querySelector('#story').open")
    assert page.script("return document.querySelector('#story').getBoundingClientRect().right <= innerWidth")
    page.shoot("phone-story", 844)


def test_what_comes_from_data_is_never_markup(page: Page, shown: Any) -> None:
    page.open(shown.url, run=shown.hostile)
    assert "<img src=x" in page.text("#about h1") and "<img src=x" in page.text("#events")
    assert page.count("main img") == 0 and page.script("return document.title") == "Foretide"


def test_a_store_without_runs_says_how_to_get_one(page: Page, tmp_path: Path) -> None:
    from foretide.store import RunStore

    with RunStore(tmp_path / "none.db") as store, BackgroundService(store, ServiceSettings(port=0)) as service:
        page.chrome.get(f"{service.url}/")
        page.until("return !document.getElementById('notice').hidden")
        assert "foretide run" in page.text("#notice")


def test_the_api_is_documented_without_help_from_elsewhere(page: Page, shown: Any) -> None:
    page.chrome.get(f"{shown.url}/docs")
    page.until("return document.querySelectorAll('#docs details').length > 15")
    page.script("document.querySelector('#docs details:nth-of-type(2)').open = true")
    assert "samples" in page.text("#docs") and "/v1/forecast/{model}" in page.text("#docs")
    assert page.complaints() == []
    page.shoot("docs", 900)


def test_a_token_is_asked_for_and_kept(page: Page, shown: Any) -> None:
    settings = ServiceSettings(port=0, token="0123456789abcdef")
    with BackgroundService(shown.store, settings) as service:
        page.chrome.get(f"{service.url}/")
        for given in ("a wrong one, which is refused", "0123456789abcdef"):
            page.until("return document.querySelector('#token').open")
            page.chrome.find_element(By.CSS_SELECTOR, "#token input").send_keys(given)
            page.click("#token button")
        page.until("return document.body.dataset.at !== undefined")
        assert page.count("#token[open]") == 0


def changes(page: Page, script: str) -> Callable[[], Any]:
    """Return a function that waits until a figure is another one."""
    before = page.script(script)

    def wait() -> Any:
        return page.until(f"const now = (() => {{ {script} }})(); return now !== arguments[0] ? now : null", before)

    return wait


def test_a_run_is_followed_and_steered_while_it_goes_on(page: Page, live: Any) -> None:
    due_s = time.monotonic() + _WAIT_S
    while not live.store.runs() and time.monotonic() < due_s:
        time.sleep(0.05)
    with BackgroundService(live.store, ServiceSettings(port=0, poll_s=0.1)) as service:
        page.open(service.url, run="latest")
        page.until("return document.getElementById('live').textContent === 'live'")
        for _ in range(3):
            changes(page, "return document.body.dataset.at")()
        page.until("return document.querySelectorAll('#decisions tbody tr[data-id]').length > 0")
        page.script("document.querySelectorAll('#dag .operator')[2].dispatchEvent(new MouseEvent('click'))")
        page.until("return document.querySelector('#operator').open")
        page.script("document.querySelector('#operator input[name=replicas]').value = 7")
        page.shoot("operator", 900)
        page.click("#operator button.strong")
        page.until("return document.querySelector('#dag').textContent.includes('set by hand')")
        assert list(live.runtime.overridden(time.time()).values()) == [7]
        page.until(
            "return [...document.querySelectorAll('#dag .operator')].some((one) => one.textContent.includes('7 of 8'))"
        )
        page.until("return document.querySelector('#decisions').textContent.includes('set by hand')")
        page.click("#pause")
        page.until("return document.getElementById('pause').textContent === 'Resume'")
        assert live.runtime.read().paused
        assert page.complaints() == []
