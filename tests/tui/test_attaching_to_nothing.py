"""`edgekv chat --attach` to a server that has no model, as a user meets it."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from edgekv.budget.wish import Wish
from edgekv.cli.main import run
from edgekv.service.finding_host import server_at
from edgekv.tui.app import ChatApp
from tests.tui.fakes import ScriptedWorker
from tests.tui.open_chat import OpenChat


class _Empty(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path == "/v1/models"
        body = b'{"object": "list", "data": []}' if found else b"{}"
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    serving.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    serving.join()


def test_a_question_is_answered_by_one_sentence(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
    assert run(["chat", "--attach", url, "-p", "Why?"]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        f"edgekv: The server at {url}/v1 has no model loaded; load one there first.\n",
    )


@pytest.mark.anyio
async def test_the_app_ends_with_the_same_sentence(url: str) -> None:
    app = ChatApp(server_at(url, Wish()), "attached")
    async with app.run_test() as pilot:
        await OpenChat(app, pilot, ScriptedWorker()).until(lambda: app.return_value is not None)
    assert app.return_code == 1
    assert "has no model loaded" in str(app.return_value)
    await app.chat.model.close()
