"""What conftest.py promises to every test."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import NetworkRefused


@pytest.mark.parametrize("host", ["192.0.2.1", "example.org", "2001:db8::1"])
def test_a_test_cannot_reach_another_machine(host: str) -> None:
    with pytest.raises(NetworkRefused, match=host):
        socket.create_connection((host, 80))


def test_a_datagram_to_another_machine_is_refused_too() -> None:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        pytest.raises(NetworkRefused),
    ):
        sender.sendto(b"", ("192.0.2.1", 53))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_test_can_reach_its_own_server(host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection((host, port)) as client:
            assert client.getpeername() == ("127.0.0.1", port)


def test_the_home_of_a_test_is_temporary_for_child_processes_too(own_home: Path) -> None:
    show = "import pathlib, platformdirs; print(pathlib.Path.home(), platformdirs.user_cache_dir())"
    shown = subprocess.run(
        [sys.executable, "-c", show], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [own_home, own_home] == [Path(shown[0]), Path(os.path.commonpath(shown))]
