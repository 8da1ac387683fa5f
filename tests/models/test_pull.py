"""Pulls from a hub that misbehaves: the file is whole and right under its name, or not there."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from edgekv.errors import HubError, ModelError, Unavailable
from edgekv.models.pull import pull
from edgekv.models.quantisations import choose
from edgekv.models.transfer import Progress
from tests.models.conftest import CONTENT, FILE, Puller
from tests.models.fake_hub import FakeHub


@pytest.mark.parametrize("owner", ["ok", "cut", "norange", "busy", "moved", "nosha"])
def test_a_pull_ends_with_the_whole_file(puller: Puller, owner: str) -> None:
    path = puller.pull(owner)
    assert path == puller.folder / owner / "tiny" / FILE
    assert path.read_bytes() == CONTENT
    assert puller.parts == []
    assert puller.heard[-1] == Progress(len(CONTENT), len(CONTENT))


def test_a_broken_connection_is_taken_up_where_it_broke(puller: Puller) -> None:
    puller.pull("cut")
    there = len(CONTENT) * 2 // 5
    assert puller.hub.ranges == [None, f"bytes={there}-", f"bytes={there}-"]


def test_a_hub_that_stays_short_leaves_a_part_and_says_how_much(puller: Puller) -> None:
    with pytest.raises(HubError, match=r"stopped at 40 %.*pull again to go on"):
        puller.pull("short")
    (part,) = puller.parts
    assert part.read_bytes() == CONTENT[: len(CONTENT) * 2 // 5]
    assert not (puller.folder / "short" / "tiny" / FILE).exists()
    # One try, and as many more as there were waits.
    assert len(puller.hub.ranges) == 5


class Stop(Exception):
    pass


def test_a_stopped_pull_goes_on_and_transfers_nothing_twice(puller: Puller) -> None:
    def stop_early(progress: Progress) -> None:
        if progress.done_bytes > 100_000:
            raise Stop

    with pytest.raises(Stop):
        puller.pull("ok", stop_early)
    (part,) = puller.parts
    there = part.stat().st_size
    assert puller.pull("ok").read_bytes() == CONTENT
    assert puller.hub.ranges == [None, f"bytes={there}-"]


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        ("flip", "arrived damaged.*pull it again"),
        ("login", "26 bytes where 512,004 of the file are missing, so it is not that file"),
        ("pointer", "not that file"),
        ("longer", "More than the 512,004 bytes"),
    ],
)
def test_other_bytes_than_promised_never_get_the_name(
    puller: Puller, owner: str, words: str
) -> None:
    with pytest.raises(HubError, match=words):
        puller.pull(owner)
    assert not (puller.folder / owner / "tiny" / FILE).exists()


def test_what_arrived_damaged_is_gone_so_that_the_next_pull_starts_anew(puller: Puller) -> None:
    with pytest.raises(HubError):
        puller.pull("flip")
    assert puller.parts == []


def test_a_damaged_part_is_found_by_its_hash_and_not_kept(puller: Puller) -> None:
    path = puller.pull("ok")
    client, wanted = puller.wanted("ok")
    part = path.with_name(f"{FILE}.{hashlib.sha256(CONTENT).hexdigest()[:16]}.part")
    path.unlink()
    part.write_bytes(b"x" * 1000)
    with pytest.raises(HubError, match="damaged"):
        pull(client, wanted, puller.heard.append)
    assert pull(client, wanted, puller.heard.append).read_bytes() == CONTENT


def test_a_model_that_is_here_and_right_is_not_transferred_again(puller: Puller) -> None:
    puller.pull("ok")
    puller.pull("ok")
    assert puller.hub.ranges == [None]
    assert puller.heard[-1].is_checking


def test_a_model_that_changed_at_the_hub_replaces_the_old_one(puller: Puller) -> None:
    path = puller.pull("ok")
    with path.open("rb") as in_use:
        puller.hub.files[FILE] = CONTENT[::-1]
        assert puller.pull("ok").read_bytes() == CONTENT[::-1]
        # A server that has the old file open keeps it.
        assert in_use.read() == CONTENT


def test_two_pulls_at_once_take_turns_and_transfer_once(puller: Puller) -> None:
    client, wanted = puller.wanted("stop")
    waiting = threading.Event()
    results: list[Path] = []

    def second() -> None:
        results.append(pull(client, wanted, lambda _: None, waiting.set))

    def first() -> None:
        results.append(puller.pull("stop"))

    one = threading.Thread(target=first)
    one.start()
    assert puller.hub.reached.wait(60)
    two = threading.Thread(target=second)
    two.start()
    assert waiting.wait(60)
    puller.hub.go_on.set()
    one.join()
    two.join()
    assert [path.read_bytes() for path in results] == [CONTENT, CONTENT]
    assert len(puller.hub.ranges) == 2  # the one that stopped, and its second half


def test_a_lock_that_somebody_left_holds_nobody_up(puller: Puller) -> None:
    locks = puller.folder / ".locks"
    locks.mkdir(parents=True)
    (locks / f"ok--tiny--{FILE}.lock").write_text("4711")
    assert puller.pull("ok").read_bytes() == CONTENT


def test_a_model_larger_than_the_disk_is_refused_before_any_byte(puller: Puller) -> None:
    with pytest.raises(Unavailable, match=r"9\.1 TiB are needed and .* are free; make room"):
        puller.pull("huge")
    assert puller.hub.ranges == []


def test_space_that_is_taken_already_is_not_asked_for_again(
    puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop_late(progress: Progress) -> None:
        if progress.done_bytes > 300_000:
            raise Stop

    with pytest.raises(Stop):
        puller.pull("ok", stop_late)
    usage = namedtuple("usage", "total used free")
    left = len(CONTENT) - puller.parts[0].stat().st_size
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, left - 1))
    with pytest.raises(Unavailable, match="no space for it"):
        puller.pull("ok")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(0, 0, left))
    assert puller.pull("ok").read_bytes() == CONTENT


def test_a_disk_that_fills_midway_keeps_what_came(
    puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill(progress: Progress) -> None:
        if progress.done_bytes > 100_000:
            raise full

    with pytest.raises(Unavailable, match=r"No space left in .*goes on where it stopped"):
        puller.pull("ok", fill)
    assert puller.parts
    assert puller.pull("ok").read_bytes() == CONTENT


def test_a_folder_that_cannot_be_made_is_named(puller: Puller) -> None:
    puller.folder.write_text("a file is in the way")
    with pytest.raises(Unavailable, match=r"models.* cannot be written.*EDGEKV_MODELS"):
        puller.pull("ok")


@pytest.mark.parametrize(
    ("owner", "token", "words"),
    [
        ("gated", None, "log in with 'hf auth login' or HF_TOKEN, and accept"),
        ("gated", "hf_mine", "ask for access at https://127"),
        ("missing", None, "has no repository or file missing/tiny"),
        ("anonymous", None, "has no repository or file anonymous/tiny"),
        ("refusing", "hf_wrong", "refuses your token; make a new one"),
        ("limited", None, "in 77 seconds"),
        ("broken", None, r"out of order \(HTTP 503\)"),
        ("hotel", None, "something else than a listing of hotel/tiny"),
        ("mirror", None, "something else than a listing of mirror/tiny"),
    ],
)
def test_a_refusal_says_what_to_do(
    puller: Puller, owner: str, token: str | None, words: str
) -> None:
    with pytest.raises(HubError, match=words):
        puller.wanted(owner, token)


def test_a_hub_that_is_not_there_says_so_and_what_needs_no_network(puller: Puller) -> None:
    puller.hub.url = "http://127.0.0.1:9"
    with pytest.raises(HubError, match=r"127.0.0.1:9 cannot be reached .*'edgekv models'"):
        puller.wanted("ok")


def test_a_token_goes_to_the_hub(puller: Puller) -> None:
    client, wanted = puller.wanted("ok", "hf_mine")
    pull(client, wanted, puller.heard.append)
    assert {request.token for request in puller.hub.requests} == {"hf_mine"}


def split_files(base: str, count: int) -> dict[str, bytes]:
    return {
        f"{base}-{n:05d}-of-{count:05d}.gguf": b"GGUF" + bytes([n]) * 1000
        for n in range(1, count + 1)
    }


def test_a_token_stays_with_the_hub_where_bytes_are_stored_elsewhere(puller: Puller) -> None:
    client, wanted = puller.wanted("moved", "hf_mine")
    assert pull(client, wanted, puller.heard.append).read_bytes() == CONTENT
    tokens = {"stored" in request.path: request.token for request in puller.hub.requests}
    assert tokens == {False: "hf_mine", True: None}


def test_a_model_in_several_files_comes_whole_and_is_opened_by_its_first(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.files = split_files("Q8_0/big-Q8_0", 3) | {FILE: CONTENT}
    puller = Puller(hub, tmp_path)
    client, wanted = puller.wanted("ok")
    big = choose(wanted.listing, "Q8_0")
    heard: list[Progress] = []
    path = pull(client, type(wanted)(wanted.listing, big, tmp_path), heard.append)
    assert path.name == "big-Q8_0-00001-of-00003.gguf"
    names = [file.name for file in big.files]
    assert [(tmp_path / "ok/tiny" / name).read_bytes() for name in names] == [
        hub.files[name] for name in names
    ]
    assert heard[-1].done_bytes == heard[-1].total_bytes == 3 * 1004


def test_a_set_that_lacks_a_file_at_the_hub_is_refused_by_its_name(
    hub: FakeHub, tmp_path: Path
) -> None:
    hub.files = split_files("big-Q8_0", 3)
    del hub.files["big-Q8_0-00002-of-00003.gguf"]
    with pytest.raises(ModelError, match=r"lacks big-Q8_0-00002-of-00003.gguf"):
        Puller(hub, tmp_path).wanted("ok")
