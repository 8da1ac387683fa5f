"""Who may ask: other sites' pages may not, and with a key nobody else may."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from edgekv.server.api import Api
from edgekv.server.app import create_app
from edgekv.server.guard import Access, is_loopback
from edgekv.service.worker import Worker
from tests.server.conftest import BASE_URL

pytestmark = pytest.mark.anyio

Open = Callable[[Access], httpx.AsyncClient]
LOOPBACK = Access("127.0.0.1")
KEYED = Access("0.0.0.0", api_key="s3cret")


@pytest.fixture
async def behind(worker: Worker) -> AsyncIterator[Open]:
    api = Api(worker)
    clients: list[httpx.AsyncClient] = []

    def open_client(access: Access) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(create_app(api, access))
        clients.append(httpx.AsyncClient(transport=transport, base_url=BASE_URL))
        return clients[-1]

    yield open_client
    for client in clients:
        await client.aclose()
    await api.close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8642", 200),
        ("localhost", 200),
        ("LocalHost:1", 200),
        ("edge.localhost:8642", 200),
        ("[::1]:8642", 200),
        ("127.8.9.10", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil.example:8642@127.0.0.1", 200),  # user info, which no browser sends as a host
        ("[::1", 403),
        ("", 403),
    ],
)
async def test_on_loopback_only_names_of_this_machine_are_answered(
    behind: Open, host: str, status: int
) -> None:
    response = await behind(LOOPBACK).get("/v1/models", headers={"Host": host})
    assert response.status_code == status
    if status == 403:
        assert response.json()["error"]["code"] == "forbidden"


async def test_with_a_key_any_name_is_answered(behind: Open) -> None:
    headers = {"Host": "box.example", "Authorization": "Bearer s3cret"}
    assert (await behind(KEYED).get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (None, 200),
        ("http://127.0.0.1:8642", 200),
        ("https://evil.example", 403),
        ("http://127.0.0.1:9999", 403),
        ("null", 403),
    ],
)
async def test_pages_of_other_sites_may_not_even_make_it_compute(
    behind: Open, origin: str | None, status: int
) -> None:
    headers = {} if origin is None else {"Origin": origin}
    body = {"prompt": "a", "max_tokens": 1}
    response = await behind(LOOPBACK).post("/v1/completions", json=body, headers=headers)
    assert response.status_code == status
    assert "access-control-allow-origin" not in response.headers
    if status == 403:
        assert f"--cors {origin}" in response.json()["error"]["message"]


async def test_a_welcome_site_may_ask_after_its_preflight(behind: Open) -> None:
    site = "https://app.example"
    client = behind(Access("127.0.0.1", api_key="s3cret", origins=(site,)))
    preflight = await client.options(
        "/v1/completions",
        headers={
            "Origin": site,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
        },
    )
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == site
    headers = {"Origin": site, "Authorization": "Bearer s3cret"}
    answer = await client.get("/v1/models", headers=headers)
    assert answer.headers["access-control-allow-origin"] == site
    refused = await client.get("/v1/models", headers={"Origin": site})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == site
    other = await client.get("/v1/models", headers={**headers, "Origin": "https://evil.example"})
    assert other.status_code == 403


async def test_every_site_is_welcome_if_asked_for(behind: Open) -> None:
    client = behind(Access("127.0.0.1", origins=("*",)))
    answer = await client.get("/v1/models", headers={"Origin": "https://any.example"})
    assert answer.headers["access-control-allow-origin"] == "*"


@pytest.mark.parametrize(
    "authorization",
    [None, "", "s3cret", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3cret2", "Basic s3cret"],
)
async def test_without_the_key_nothing_but_health_is_answered(
    behind: Open, authorization: str | None
) -> None:
    client = behind(KEYED)
    headers = {} if authorization is None else {"Authorization": authorization}
    for path in ("/v1/models", "/metrics", "/plan", "/nothing"):
        response = await client.get(path, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["error"]["code"] == "invalid_api_key"
    assert (await client.get("/health", headers=headers)).status_code == 200


@pytest.mark.parametrize("authorization", ["Bearer s3cret", "bearer  s3cret"])
async def test_the_key_opens(behind: Open, authorization: str) -> None:
    headers = {"Authorization": authorization}
    assert (await behind(KEYED).get("/v1/models", headers=headers)).status_code == 200


@pytest.mark.parametrize(("key", "status"), [("s3cret", 200), ("s3cre", 401), ("", 401)])
async def test_anthropics_clients_have_a_header_of_their_own_for_the_key(
    behind: Open, key: str, status: int
) -> None:
    response = await behind(KEYED).get("/v1/models", headers={"x-api-key": key})
    assert response.status_code == status


def test_a_key_is_not_shown_by_accident() -> None:
    assert "s3cret" not in repr(KEYED)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "box.example", ""])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)
