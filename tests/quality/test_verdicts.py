"""Verdicts outlive the program, and hold only for what they were made of."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from edgekv.quality.measures import Measured, NeedleScore, ProseScore
from edgekv.quality.verdicts import Subject, Verdict, Verdicts

MEASURED = Measured(
    (
        NeedleScore(700, 0.1, False, -1.0, -1.1, True, True),
        NeedleScore(700, 0.9, True, -1.0, -3.0, True, False),
    ),
    (ProseScore(700, 200, 0.003, 0.04, 0.98, -2.0, -2.0),),
)
VERDICT = Verdict("q8_0", "q8_0", False, (), 700, MEASURED, "a <model>", "CPU; 0.3.36")


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(1000))
    return Subject(str(path), ("CPU",), "0.3.36")


@pytest.fixture
def verdicts(tmp_path: Path) -> Verdicts:
    return Verdicts(tmp_path / "verdicts")


def test_a_verdict_is_found_again(subject: Subject, verdicts: Verdicts) -> None:
    assert verdicts.of(subject) == ()
    verdicts.keep(subject, VERDICT)
    assert verdicts.of(subject) == (VERDICT,)


def test_a_later_verdict_takes_the_place_of_an_earlier_one(
    subject: Subject, verdicts: Verdicts
) -> None:
    refused = msgspec.structs.replace(VERDICT, objections=("it is bad",))
    verdicts.keep(subject, VERDICT)
    verdicts.keep(subject, refused)
    assert verdicts.of(subject) == (refused,)


def test_a_quick_check_does_not_take_the_place_of_the_full_gate(
    subject: Subject, verdicts: Verdicts
) -> None:
    verdicts.keep(subject, VERDICT)
    verdicts.keep(subject, msgspec.structs.replace(VERDICT, quick=True))
    assert verdicts.of(subject) == (VERDICT,)
    other = msgspec.structs.replace(VERDICT, quick=True, objections=("it is bad",))
    verdicts.keep(subject, other)
    assert verdicts.of(subject) == (other,)


def test_another_model_device_or_library_has_no_verdict_yet(
    subject: Subject, verdicts: Verdicts, tmp_path: Path
) -> None:
    verdicts.keep(subject, VERDICT)
    other = tmp_path / "other.gguf"
    other.write_bytes(bytes(999) + b"x")
    for stranger in (
        replace(subject, path=str(other)),
        replace(subject, devices=("CUDA0",)),
        replace(subject, library="0.3.37"),
    ):
        assert verdicts.of(stranger) == ()


def test_a_torn_file_is_no_verdict(
    subject: Subject, verdicts: Verdicts, caplog: pytest.LogCaptureFixture
) -> None:
    verdicts.keep(subject, VERDICT)
    path = verdicts.path(subject, VERDICT)
    path.write_bytes(path.read_bytes()[:-9])
    with caplog.at_level(logging.WARNING):
        assert verdicts.of(subject) == ()
    assert "cannot be read" in caplog.text
