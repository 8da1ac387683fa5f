"""Connections that end by themselves when the other side vanishes without a word."""

from __future__ import annotations

import socket
import sys

import pytest

from edgekv.llama.connections import SECONDS_TO_NOTICE, notice_loss

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="descriptors cannot be listed elsewhere, so nothing is done"
)


def test_open_connections_and_accepted_ones_are_watched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        notice_loss()
        with socket.create_connection(listener.getsockname()) as client:
            accepted, _ = listener.accept()
            with accepted:
                assert is_watched(accepted)
            assert not is_watched(client)
            notice_loss()
            assert is_watched(client)


def is_watched(connection: socket.socket) -> bool:
    timeout = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    is_probed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    return is_probed and timeout == SECONDS_TO_NOTICE * 1000


def test_other_descriptors_are_left_alone() -> None:
    one, other = socket.socketpair()
    with one, other:
        notice_loss()
        one.send(b"still open")
        assert other.recv(16) == b"still open"
