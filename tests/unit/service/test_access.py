from __future__ import annotations

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from foretide.config import validated
from foretide.errors import ConfigError
from foretide.service.http.limits import RateLimit
from foretide.service.settings import ServiceSettings

Clients = Callable[..., TestClient]
TOKEN = "a-token-of-some-length"


def kind_of(answer: object) -> str:
    body = answer.json()  # type: ignore[attr-defined]
    assert answer.headers["content-type"] == "application/problem+json"  # type: ignore[attr-defined]
    return str(body["type"]).removeprefix("urn:foretide:problem:")


@pytest.mark.parametrize("path", ["/v1/runs", "/v1/models", "/metrics", "/v1/nothing"])
def test_without_the_token_nothing_is_told(client_of: Clients, path: str) -> None:
    client = client_of(token=TOKEN)
    answer = client.get(path)
    assert (answer.status_code, kind_of(answer)) == (401, "token-missing")
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize(
    "given", ["Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer", f"Bearer {TOKEN[:-1]}", "Bearer ünïcödé"]
)
def test_a_wrong_token_is_refused(client_of: Clients, given: str) -> None:
    answer = client_of(token=TOKEN).get("/v1/runs", headers={"Authorization": given.encode()})
    assert (answer.status_code, kind_of(answer)) == (401, "token-wrong")


def test_the_token_opens(client_of: Clients) -> None:
    client = client_of(token=TOKEN)
    assert client.get("/v1/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/healthz", "/static/app.js"])
def test_the_page_itself_is_open(client_of: Clients, path: str) -> None:
    assert client_of(token=TOKEN).get(path).status_code == 200


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd"])
def test_no_other_file_is_served(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404 and "create_app" not in answer.text


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_address_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(ConfigError, match=r"loopback address.*or a token.*FORETIDE_TOKEN"):
        validated(ServiceSettings, {"host": host}, "service")
    assert ServiceSettings(host=host, token=TOKEN).host == host


def test_a_token_that_is_soon_guessed_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 16 plain characters, got 5 of them"):
        validated(ServiceSettings, {"token": "short"}, "service")


def test_a_token_is_not_shown() -> None:
    assert TOKEN not in repr(ServiceSettings(token=TOKEN))


def test_a_name_that_another_made_lead_here_is_refused(client: TestClient) -> None:
    answer = client.get("/v1/runs", headers={"Host": "evil.example"})
    assert (answer.status_code, kind_of(answer)) == (403, "wrong-host")
    assert client.get("/v1/runs", headers={"Host": "localhost:8740"}).status_code == 200


def test_a_page_of_another_site_changes_nothing(client: TestClient) -> None:
    answer = client.post("/v1/runs/latest/pause", headers={"Origin": "https://evil.example"})
    assert (answer.status_code, kind_of(answer)) == (403, "foreign-origin")
    answer = client.post("/v1/runs/latest/pause", headers={"Origin": "http://127.0.0.1"})
    assert kind_of(answer) == "not-steerable"


def test_too_many_requests_are_told_when_to_come_back(client_of: Clients) -> None:
    client = client_of(rate_per_s=0.5, burst=3)
    answers = [client.get("/healthz") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert kind_of(answers[-1]) == "too-many-requests" and answers[-1].headers["retry-after"] == "2"


def test_a_bucket_fills_again_up_to_its_size() -> None:
    now = [0.0]
    limit = RateLimit(2.0, 3, lambda: now[0])
    assert [limit.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]
    now[0] = 0.5
    assert [limit.take("a"), limit.take("a")] == [0.0, 0.5]
    now[0] = 100.0
    assert [limit.take("a") for _ in range(4)] == [0.0, 0.0, 0.0, 0.5]


def test_clients_that_were_long_silent_are_forgotten() -> None:
    limit = RateLimit(1.0, 1, lambda: 0.0)
    assert limit.take("first") == 0.0 and limit.take("first") == 1.0
    for number in range(10_000):
        limit.take(str(number))
    assert limit.take("first") == 0.0


def test_browsers_are_told_to_load_nothing_from_elsewhere(client: TestClient) -> None:
    headers = client.get("/").headers
    assert headers["content-security-policy"].startswith("default-src 'self'")
    assert headers["x-content-type-options"] == "nosniff"
