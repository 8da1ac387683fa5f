from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.service import engine_log
from edgekv.service.engine_log import LIMIT_BYTES, EngineLog


def test_an_engine_that_talked_of_memory_died_of_it(tmp_path: Path) -> None:
    log = EngineLog(tmp_path / "log")
    with log.open() as stream:
        stream.write(b"loading\nCUDA error: out of memory\n")
    assert log.tells_of_memory()


def test_what_an_earlier_engine_said_does_not_count(tmp_path: Path) -> None:
    with EngineLog(tmp_path).open() as stream:
        stream.write(b"out of memory\n")
    log = EngineLog(tmp_path)
    with log.open() as stream:
        stream.write(b"all is well\n")
    assert not log.tells_of_memory()


def test_a_kill_by_the_system_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vmstat = tmp_path / "vmstat"
    monkeypatch.setattr(engine_log, "_VMSTAT", vmstat)
    vmstat.write_text("pgfault 12\noom_kill 3\n")
    log = EngineLog(tmp_path)
    assert not log.tells_of_memory()
    vmstat.write_text("pgfault 15\noom_kill 4\n")
    assert log.tells_of_memory()


def test_a_long_log_starts_anew(tmp_path: Path) -> None:
    (tmp_path / "engine.log").write_bytes(b"x" * (LIMIT_BYTES + 1))
    EngineLog(tmp_path).open().close()
    assert (tmp_path / "engine.log").stat().st_size == 0


def test_a_log_that_cannot_be_written_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    log = EngineLog(tmp_path / "file" / "log")
    log.open().close()
    assert not log.tells_of_memory()
