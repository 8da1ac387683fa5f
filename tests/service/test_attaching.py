"""`edgekv chat` beside a running server: one copy of the weights, or one sentence why not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from edgekv.budget.sizes import Reserve
from edgekv.budget.wish import Wish
from edgekv.core.plan import Choice
from edgekv.errors import Unavailable
from edgekv.service.attached import keeps
from edgekv.service.finding_host import running_server, server_at
from tests.server.in_loop_engine import CHOICE
from tests.server.served import serve
from tests.tui.terminal import set_up

SMALL = ("--ctx", "512", "--slots", "2")


def chat(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "edgekv", "chat", *arguments, "-p", "Say hello."]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


@pytest.mark.llama
def test_a_chat_uses_the_model_of_a_running_server_unless_it_wants_another_plan(
    starter_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(tmp_path)
    monkeypatch.setenv("EDGEKV_HOME", str(tmp_path))
    key_file = tmp_path / "key"
    key_file.write_text("secret")
    model = str(starter_model)
    with serve(starter_model, *SMALL, "--api-key-file", str(key_file)) as server:
        said: list[str] = []
        host = running_server(model, Wish(context_length=512), said.append)
        assert host is not None
        assert host.where == server.url
        assert running_server(model, Wish(context_length=256), said.append) is None
        [why] = said
        assert why.endswith("which was started with other options; the model is loaded here")
        answered = chat(model)
        assert answered.returncode == 0, answered.stderr
        assert answered.stdout.strip()
        assert "loading" not in answered.stderr
        refused = chat("--attach", server.url)
        assert refused.returncode == 1
        assert "Send the key" in refused.stderr
        children = psutil.Process(server.process.pid).children(recursive=True)
        assert sum(child.cmdline()[-1] == "engine" for child in children) == 1
    assert running_server(model, Wish(), said.append) is None
    assert len(said) == 1


@pytest.mark.parametrize(
    ("wish", "is_kept"),
    [
        (Wish(), True),
        (Wish(context_length=512, slots=2, kv_type_k="f16"), True),
        (Wish(memory_bytes=1, reserve=Reserve(1), host_cache_bytes=1), True),
        (Wish(context_length=256), False),
        (Wish(kv_type_v="q8_0"), False),
        (Wish(slots=1), False),
    ],
)
def test_a_wish_is_kept_or_the_server_is_not_taken(wish: Wish, is_kept: bool) -> None:
    choice: Choice = CHOICE
    assert keeps(choice, wish) is is_kept


@pytest.mark.parametrize("url", ["localhost:8642", "ftp://x", "http://", "nonsense"])
def test_what_is_no_address_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(Unavailable, match=r"write it like http://127\.0\.0\.1:8642"):
        server_at(url, Wish())
