"""`edgekv worker` and `--workers` as people run them."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from edgekv.cli import worker
from edgekv.cli.main import run
from tests.lenders import MIB, lender
from tests.llama.test_plan_command import assert_one_sentence, edgekv_plan, plan_json

pytestmark = pytest.mark.llama


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_it_and_nothing_is_left(number: signal.Signals, code: int) -> None:
    with lender(64 * MIB) as one:
        (child,) = psutil.Process(one.process.pid).children()
        one.process.send_signal(number)
        assert one.process.wait() == code
        assert not child.is_running()


def test_a_child_that_dies_is_started_again_at_the_same_address() -> None:
    with lender(64 * MIB) as one:
        assert one.process.stderr is not None
        (child,) = psutil.Process(one.process.pid).children()
        child.kill()
        assert "ended (signal 9) and is started again" in one.process.stderr.readline()
        assert one.process.stderr.readline().split()[-1] == one.address


def test_a_port_that_somebody_has_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, "-m", "edgekv", "worker", "--port", str(port)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert_one_sentence(done, code=1)
    assert "choose another with --port" in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "localhost", "::1", "ada"])
def test_what_is_not_one_address_of_this_machine_is_refused(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["worker", "--host", host]) == 2
    assert "is not one IPv4 address of this machine" in capsys.readouterr().err


def test_the_help_says_what_it_is_for() -> None:
    said = CliRunner().invoke(worker.command, ["--help"]).output
    assert "--workers" in said


def test_what_does_not_fit_here_is_planned_on_a_worker(starter_model: Path) -> None:
    usual = ("--ctx", "512", "--slots", "1", "--no-embeddings", "--host-cache", "0")
    here = plan_json(starter_model, *usual)
    less = ("--memory", str(here["total_bytes"] - 24 * MIB))
    with lender(100 * MIB) as one:
        there = plan_json(starter_model, *usual, *less, "--workers", one.address)
        text = edgekv_plan(starter_model, *usual, *less, "--workers", one.address)
    assert here["choice"]["worker_layers"] == []
    (num_layers,) = there["choice"]["worker_layers"]
    assert 0 < num_layers == there["choice"]["gpu_layers"] < 31
    host, device = there["devices"]
    assert (device["kind"], device["total_bytes"]) == ("rpc", 100 * MIB)
    assert device["latency_ms"] > 0
    assert host["latency_ms"] is None
    assert f"worker {one.address}, " in text.stdout
    assert "ms there and back" in text.stdout
    assert f"{num_layers} of 31 layers are on workers" in text.stdout


def test_a_worker_that_is_away_is_named_and_the_plan_made_without(starter_model: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    made = edgekv_plan(starter_model, "--workers", address)
    assert made.returncode == 0
    sentence = f"The worker {address} is left out: nothing listens there"
    assert sentence in made.stdout
    assert sentence in made.stderr


@pytest.mark.parametrize("elsewhere", [("--what-if", "8GiB"), ("hf:owner/repo",)])
def test_workers_are_of_this_machine_and_of_models_that_are_here(
    elsewhere: tuple[str, ...], starter_model: Path
) -> None:
    model = () if elsewhere[0].startswith("hf:") else (starter_model,)
    done = edgekv_plan(*model, *elsewhere, "--workers", "127.0.0.1:1")
    assert_one_sentence(done, code=2)
    assert "leave it out" in done.stderr
