"""A client that measures blames no server for its own connections, and says what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

import pytest

from bench.token_client import Reply, TokenClient
from edgekv.core.request import Token

pytestmark = pytest.mark.anyio
USAGE = b'{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}'
MODELS = b'{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"x"}]}'
WORD = b'data: {"choices":[{"index":0,"text":"a"}]}\n\n'
ACCOUNT = b'data: {"choices":[],"usage":%s}\n\ndata: [DONE]\n\n' % USAGE


class Server:
    """Answers one request after the other; streams that are cut end with their first word."""

    def __init__(self, *, cuts: bool) -> None:
        self._cuts = cuts
        self.requests_by_connection: list[int] = []

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self._serve, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests_by_connection.append(0)
        number = len(self.requests_by_connection) - 1
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.requests_by_connection[number] += 1
                writer.write(self._answer(head))
                await writer.drain()
                if self._cuts and head.startswith(b"POST"):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        if head.startswith(b"GET"):
            kind, length = b"application/json", b"Content-Length: %d" % len(MODELS)
            body = MODELS
        else:
            kind, length = b"text/event-stream", b"Transfer-Encoding: chunked"
            body = b"%x\r\n%s\r\n" % (len(WORD), WORD)
            if not self._cuts:
                body += b"%x\r\n%s\r\n0\r\n\r\n" % (len(ACCOUNT), ACCOUNT)
        return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n" % (kind, length) + body


async def asked(server: Server, times: int) -> tuple[list[Reply | None], dict[str, object]]:
    async with server.listening() as url, aclosing(TokenClient(url)) as client:
        replies = [await client.ask([Token(1), Token(2), Token(3)], 1) for _ in range(times)]
        return replies, client.totals()


async def test_no_connection_is_used_for_a_second_request() -> None:
    server = Server(cuts=False)
    replies, totals = await asked(server, times=3)
    assert [reply and reply.computed for reply in replies] == [3, 3, 3]
    assert (totals["asked"], totals["finished"], totals["errors"]) == (3, 3, [])
    assert server.requests_by_connection == [1, 1, 1, 1], "one of them for the model's name"


async def test_an_answer_that_is_cut_off_is_an_error_with_its_cause() -> None:
    replies, totals = await asked(Server(cuts=True), times=1)
    assert replies == [None]
    assert (totals["asked"], totals["finished"]) == (1, 0)
    assert "peer closed connection" in str(totals["errors"])
