"""The tables of docs/kv-quality.md are those of the kept verdicts, as the gate judges today."""

from __future__ import annotations

from msgspec.structs import replace

from bench.kv_quality import KEPT, merged, read, tables
from edgekv.quality.gate import objections
from edgekv.quality.measures import Measured
from edgekv.quality.verdicts import Verdict
from tests.conftest import REPOSITORY


def test_the_document_shows_what_was_measured() -> None:
    page = (REPOSITORY / "docs/kv-quality.md").read_text(encoding="utf-8")
    for line in tables(read(KEPT)):
        assert line in page, "'python -m bench.kv_quality' prints the tables"


def test_the_gate_would_give_the_kept_verdicts_again() -> None:
    for verdict in read(KEPT):
        lengths = {score.length for score in verdict.measured.prose}
        noise = Measured(
            tuple(score for score in verdict.noise.needles if score.length in lengths),
            tuple(score for score in verdict.noise.prose if score.length in lengths),
        )
        assert objections(verdict.measured, noise) == verdict.objections, verdict.pair


def test_a_later_verdict_takes_the_place_of_an_earlier_one_and_others_stay() -> None:
    old = Verdict("q8_0", "q8_0", True, (), 1, Measured(), "b", "CPU")
    new, other = replace(old, longest=2), replace(old, model="a")
    assert merged([old], [new, other]) == [other, new]
