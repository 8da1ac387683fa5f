"""What nobody else may see: keys, and what was said."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from edgekv.cli.main import run
from edgekv.errors import Unavailable
from edgekv.server.encryption import encryption
from edgekv.server.log import log_to_stderr
from edgekv.server.run import listen
from edgekv.service.worker import Worker
from tests.conftest import REPOSITORY
from tests.server.in_loop_engine import Engines
from tests.server.in_loop_server import HI, PATIENCE_SECONDS, Server

TLS = REPOSITORY / "tests" / "data" / "tls"
CERTIFICATE, KEY = TLS / "cert.pem", TLS / "key.pem"


@pytest.fixture
async def encrypted(unstarted: tuple[Worker, Engines]) -> AsyncIterator[httpx.AsyncClient]:
    server = Server(unstarted[0], encryption(CERTIFICATE, KEY))
    await server.started()
    trusting = ssl.create_default_context(cafile=CERTIFICATE)
    async with httpx.AsyncClient(
        verify=trusting, base_url=server.url, timeout=PATIENCE_SECONDS
    ) as client:
        yield client
    await server.end()


@pytest.mark.anyio
async def test_with_a_certificate_answers_come_by_https(encrypted: httpx.AsyncClient) -> None:
    assert encrypted.base_url.scheme == "https"
    whole = (await encrypted.post("/v1/chat/completions", json=HI)).json()
    assert whole["choices"][0]["message"]["content"] == "Hello there, friend."
    streamed = await encrypted.post("/v1/chat/completions", json={**HI, "stream": True})
    assert streamed.text.endswith("data: [DONE]\n\n")
    with pytest.raises(httpx.RemoteProtocolError):
        await encrypted.get(str(encrypted.base_url.copy_with(scheme="http")))


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        (CERTIFICATE, None),
        (CERTIFICATE, TLS / "other_key.pem"),
        (CERTIFICATE, TLS / "locked_key.pem"),
        (TLS / "README.md", KEY),
        (TLS / "absent.pem", KEY),
    ],
)
def test_a_certificate_without_its_key_is_refused(certificate: Path, key: Path | None) -> None:
    with pytest.raises(Unavailable, match="--tls-cert") as refusal:
        encryption(certificate, key)
    assert "\n" not in str(refusal.value)


def test_a_key_without_a_certificate_is_refused(
    starter_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", str(starter_model), "--tls-key", str(KEY)]) == 2
    assert "--tls-cert" in capsys.readouterr().err


def test_child_processes_are_not_given_the_servers_key(
    starter_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEKV_API_KEY", "s3cret")
    with listen("127.0.0.1", 0) as taken:
        assert run(["serve", str(starter_model), "--port", str(taken.getsockname()[1])]) == 1
    assert "EDGEKV_API_KEY" not in os.environ


@pytest.fixture
def access_log() -> Iterator[logging.Logger]:
    """The log of requests, as a server writes it."""
    log = logging.getLogger("uvicorn.access")
    level, filters = log.level, list(log.filters)
    log_to_stderr()
    yield log
    log.setLevel(level)
    log.filters[:] = filters


@pytest.mark.anyio
async def test_the_log_tells_who_asked_for_which_path_and_no_more(
    access_log: logging.Logger,
    unstarted: tuple[Worker, Engines],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server(unstarted[0])
    await server.started()
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        said = {"messages": [{"role": "user", "content": "s3cret words"}]}
        headers = {"Authorization": "Bearer s3cret"}
        await client.post("/v1/chat/completions?key=s3cret", json=said, headers=headers)
        await client.post("/v1/chat/completions", json={**said, "s3cret": "s3cret"})
    await server.end()
    asked = [record.getMessage() for record in caplog.records if record.name == access_log.name]
    assert [line.partition(" - ")[2] for line in asked] == [
        '"POST /v1/chat/completions HTTP/1.1" 200',
        '"POST /v1/chat/completions HTTP/1.1" 400',
    ]
    assert "s3cret" not in caplog.text
