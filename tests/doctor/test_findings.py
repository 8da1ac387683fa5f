"""Recorded machines, and what the doctor says of each."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from edgekv.core.nvidia import NvidiaDevice
from edgekv.core.plan import DeviceInfo
from edgekv.doctor.finding import Finding, Verdict
from edgekv.doctor.library import OTHER_BUNDLE, Broken, examine_broken, examine_library, read_facts
from edgekv.doctor.memory import examine_memory
from edgekv.doctor.processor import examine_processor
from edgekv.doctor.surroundings import (
    examine_folders,
    examine_port,
    examine_quarantine,
    examine_settings,
)
from tests.doctor import machines
from tests.doctor.machines import GIB, LIBRARY, PROCESSOR


def troubles(findings: Iterable[Finding]) -> list[tuple[str, Verdict, str | None]]:
    return [
        (finding.topic, finding.verdict, finding.remedy)
        for finding in findings
        if finding.verdict is not Verdict.FINE
    ]


def texts(findings: Iterable[Finding], topic: str) -> str:
    return "\n".join(finding.text for finding in findings if finding.topic == topic)


def test_a_laptop_as_most_are_is_fine_but_for_its_unused_graphics(tmp_path: Path) -> None:
    host = machines.laptop(tmp_path)
    assert troubles(examine_memory(host)) == []
    assert troubles(examine_processor(host)) == []
    assert troubles(examine_library(host, LIBRARY)) == [
        ("device", Verdict.WARNING, "make CMAKE_ARGS=-DGGML_VULKAN=ON chat (in a clone of EdgeKV)")
    ]


def test_the_memory_is_that_of_the_plan_with_how_it_was_read(tmp_path: Path) -> None:
    text = texts(examine_memory(machines.laptop(tmp_path)), "memory")
    assert "11.0 GiB for a plan: 12.0 GiB available of 16.0 GiB" in text
    assert "MemAvailable in /proc/meminfo" in text


@pytest.mark.parametrize(("wanting", "is_busy"), [("4.00", False), ("4.10", True)])
def test_a_machine_that_others_keep_busy_is_told_from_one_at_work(
    tmp_path: Path, wanting: str, is_busy: bool
) -> None:
    processors = "\n".join(f"processor\t: {number}" for number in range(4))
    files = {"proc/loadavg": f"{wanting} 1.00 0.50 2/300 4000", "proc/cpuinfo": processors}
    found = list(examine_processor(machines.host(tmp_path, files)))
    assert [finding.topic for finding in found if finding.verdict is not Verdict.FINE] == (
        ["busy"] if is_busy else []
    )
    assert ("4.1 programs wanted to compute at once on 4 proc" in texts(found, "busy")) is is_busy


def test_an_orin_in_a_slow_mode_is_told_the_fast_one_of_its_own_board(tmp_path: Path) -> None:
    host = machines.orin(tmp_path)
    assert troubles(examine_processor(host)) == [
        ("power", Verdict.WARNING, "sudo nvpmodel -m 2 && sudo jetson_clocks"),
        ("heat", Verdict.WARNING, "give it air, and clean or fasten its fan"),
    ]
    assert "compressed memory (zram)" in texts(examine_memory(host), "swap")


def test_an_orin_at_full_speed_needs_a_library_for_its_graphics(tmp_path: Path) -> None:
    host = machines.orin(tmp_path, "MAXN_SUPER")
    assert [topic for topic, *_ in troubles(examine_processor(host))] == ["heat"]
    built = changed(LIBRARY, features=frozenset({"NEON", "DOTPROD", "FP16_VA"}))
    assert troubles(examine_library(host, built)) == [
        ("device", Verdict.WARNING, "make CMAKE_ARGS=-DGGML_CUDA=ON chat (in a clone of EdgeKV)")
    ]
    orin = DeviceInfo("CUDA0", "cuda", "Orin", 8 * GIB, GIB, True)
    with_cuda = changed(built, devices=(PROCESSOR, orin), backends=("CUDA", "CPU"))
    assert troubles(examine_library(host, with_cuda)) == []
    # Shared memory is one pool, whatever the driver says is free.
    assert "CPU+CUDA0" in texts(examine_library(host, with_cuda), "device")


def test_wsl_is_told_of_the_graphics_that_windows_shares(tmp_path: Path) -> None:
    remedies = [
        remedy for _, _, remedy in troubles(examine_library(machines.wsl(tmp_path), LIBRARY))
    ]
    assert remedies == ["make CMAKE_ARGS=-DGGML_CUDA=ON chat (in a clone of EdgeKV)"]


def test_a_processor_without_the_instructions_needs_another_build(tmp_path: Path) -> None:
    host = machines.host(tmp_path, {"proc/cpuinfo": f"flags\t\t: {machines.GOLDMONT}"})
    assert troubles(examine_library(host, LIBRARY)) == [
        (
            "instructions",
            Verdict.FAULT,
            "pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36",
        )
    ]
    basic = changed(LIBRARY, features=frozenset({"SSE3", "SSSE3"}))
    assert troubles(examine_library(host, basic)) == []


def test_a_library_that_leaves_instructions_unused_is_slow(tmp_path: Path) -> None:
    host = machines.host(tmp_path, {"proc/cpuinfo": f"flags\t\t: {machines.HASWELL}"})
    basic = changed(LIBRARY, features=frozenset({"SSE3", "SSSE3"}))
    assert [verdict for _, verdict, _ in troubles(examine_library(host, basic))] == [
        Verdict.WARNING
    ]


def test_a_library_from_elsewhere_is_named(tmp_path: Path) -> None:
    host = machines.host(tmp_path, {})
    elsewhere = changed(LIBRARY, has_bundled_path=False)
    told = replace(host, environment={"LD_LIBRARY_PATH": "/old"})
    assert troubles(examine_library(told, elsewhere)) == [
        ("library", Verdict.WARNING, "unset LD_LIBRARY_PATH")
    ]


def test_a_ggml_from_elsewhere_is_named(tmp_path: Path) -> None:
    mixed = changed(LIBRARY, loaded=("/old/libggml-base.so.0", LIBRARY.path))
    assert troubles(examine_library(machines.host(tmp_path, {}), mixed)) == [
        ("library", Verdict.WARNING, "unset LLAMA_CPP_LIB_PATH LD_LIBRARY_PATH")
    ]


def test_a_bundle_is_never_told_to_use_pip(tmp_path: Path) -> None:
    host = machines.host(tmp_path, {"proc/cpuinfo": f"flags\t\t: {machines.GOLDMONT}"})
    remedies = [r for _, _, r in troubles(examine_library(replace(host, is_bundle=True), LIBRARY))]
    assert remedies == [OTHER_BUNDLE]


def test_apple_silicon_without_metal_is_told_so(tmp_path: Path) -> None:
    host = machines.apple(tmp_path, quarantined=False)
    assert [remedy for _, _, remedy in troubles(examine_library(host, LIBRARY))] == [
        "make CMAKE_ARGS=-DGGML_METAL=ON chat (in a clone of EdgeKV)"
    ]
    assert list(examine_quarantine(host, Path("/Applications/EdgeKV"))) == []


def test_a_program_in_quarantine_is_told_the_very_line(tmp_path: Path) -> None:
    host = machines.apple(tmp_path, quarantined=True)
    assert troubles(examine_quarantine(host, Path("/Users/ü/edge kv"))) == [
        ("quarantine", Verdict.FAULT, "xattr -dr com.apple.quarantine '/Users/ü/edge kv'")
    ]


@pytest.mark.parametrize(
    ("files", "topic", "remedy"),
    [
        (
            {"proc/meminfo": machines.memory(16, 1)},
            "memory",
            "close other programs; 'ps aux --sort=-rss | head' shows the largest",
        ),
        (
            {
                "proc/meminfo": machines.memory(16, 12)
                + "\nHugePages_Total: 2048\nHugepagesize: 2048 kB"
            },
            "huge pages",
            "sudo sysctl vm.nr_hugepages=0",
        ),
        (
            {"proc/sys/vm/overcommit_memory": "2"},
            "overcommit",
            "sudo sysctl vm.overcommit_memory=0",
        ),
        (
            {"proc/self/limits": "Max address space         4294967296           unlimited  bytes"},
            "limits",
            "ulimit -v unlimited",
        ),
        (
            {"proc/self/limits": "Max open files            64                   4096       files"},
            "limits",
            "ulimit -n 4096",
        ),
    ],
)
def test_what_takes_memory_away_has_a_command_against_it(
    files: dict[str, str], topic: str, remedy: str, tmp_path: Path
) -> None:
    found = troubles(examine_memory(machines.host(tmp_path, files)))
    assert [(topic_, remedy_) for topic_, _, remedy_ in found] == [(topic, remedy)]


def test_an_unbound_governor_is_the_only_slow_one(tmp_path: Path) -> None:
    folder = "sys/devices/system/cpu/cpu0/cpufreq"
    host = machines.host(
        tmp_path, {f"{folder}/scaling_governor": "powersave", f"{folder}/scaling_driver": "acpi"}
    )
    assert [topic for topic, *_ in troubles(examine_processor(host))] == ["power"]


def test_the_threads_come_with_what_bounds_them(tmp_path: Path) -> None:
    host = replace(machines.host(tmp_path, {}), environment={"OMP_NUM_THREADS": "1"})
    assert texts(examine_processor(host), "threads") == "1 thread for computing, by OMP_NUM_THREADS"


def test_a_variable_that_nobody_reads_is_told_of(tmp_path: Path) -> None:
    host = replace(machines.host(tmp_path, {}), environment={"EDGEKV_CTXX": "1", "EDGEKV_CTX": "2"})
    found = [finding for finding in examine_settings(host) if finding.remedy]
    assert [(f.text, f.remedy) for f in found] == [
        ("EDGEKV_CTXX is no setting; did you mean 'EDGEKV_CTX'?", "unset EDGEKV_CTXX")
    ]


def test_settings_that_cannot_be_followed_are_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine.toml").write_text("[plan]\nslotz = 1")
    monkeypatch.setenv("EDGEKV_CONFIG", str(tmp_path / "mine.toml"))
    found = troubles(examine_settings(machines.host(tmp_path, {})))
    assert found == [("settings", Verdict.FAULT, "correct the file: edgekv config path")]


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("DATA", "CACHE", "STATE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME", raising=False)
    monkeypatch.setenv("HOME", "/dev/null")
    remedies = {remedy for _, _, remedy in troubles(examine_folders(()))}
    assert remedies == {"set EDGEKV_HOME to a folder that you may write to"}


def test_a_port_that_is_taken_has_a_way_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unused_port: int
) -> None:
    (tmp_path / "mine.toml").write_text(f"[serve]\nport = {unused_port}")
    monkeypatch.setenv("EDGEKV_CONFIG", str(tmp_path / "mine.toml"))
    assert troubles([examine_port()]) == []
    (tmp_path / "mine.toml").write_text('[serve]\nhost = "192.0.2.7"')
    assert [topic for topic, *_ in troubles([examine_port()])] == ["port"]


@pytest.fixture
def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "another processor"),
        ("raise SystemExit('edgekv: It is too old.')", "cannot be loaded: It is too old."),
    ],
)
def test_a_library_that_ends_its_process_is_a_fault(
    program: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(Broken) as caught:
        read_facts([sys.executable, "-c", program])
    finding = examine_broken(machines.host(tmp_path, {}), caught.value)
    assert finding.verdict is Verdict.FAULT
    assert words in finding.text


CARD = NvidiaDevice("GeForce RTX 4060", "0000:01:00.0", "GPU-1", 8 * GIB, 5 * GIB, 2 * GIB)


def test_a_card_that_only_its_driver_knows_needs_a_library_for_it(tmp_path: Path) -> None:
    """By its name and memory, also on WSL, where the system's files tell neither."""
    found = list(examine_library(machines.wsl(tmp_path), changed(LIBRARY, nvidia=(CARD,))))
    assert "GeForce RTX 4060 (0000:01:00.0): 5.0 GiB of 8.0 GiB free" in texts(found, "driver")
    assert "other processes hold 2.0 GiB" in texts(found, "driver")
    assert "this machine has GeForce RTX 4060, and llama.cpp was built without it" in texts(
        found, "device"
    )


def test_a_hidden_card_is_named_with_what_hides_it(tmp_path: Path) -> None:
    host = replace(machines.laptop(tmp_path), environment={"CUDA_VISIBLE_DEVICES": ""})
    built = changed(LIBRARY, nvidia=(CARD,), backends=("CUDA", "CPU"))
    assert troubles(examine_library(host, built)) == [
        ("driver", Verdict.WARNING, "unset CUDA_VISIBLE_DEVICES")
    ]


def test_slices_and_cards_without_figures_are_told_as_they_are(tmp_path: Path) -> None:
    part = changed(CARD, name="1g.10gb", total_bytes=10 * GIB, free_bytes=9 * GIB)
    cards = (changed(CARD, slices=(part,)), changed(CARD, total_bytes=None))
    found = examine_library(machines.laptop(tmp_path), changed(LIBRARY, nvidia=cards))
    text = texts(found, "driver")
    assert "divided into 1, of which a process may use one (1g.10gb: 9.0 GiB of 10.0 GiB" in text
    assert "gives no figures of memory (N/A)" in text
