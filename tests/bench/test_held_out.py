"""The held-out questions share nothing with those on which the gate's limits were set."""

from __future__ import annotations

from bench import held_out
from bench.kv_quality import tables
from edgekv.quality.material import constitution
from edgekv.quality.trials import haystack, trials
from tests.conftest import REPOSITORY


def test_held_out_questions_share_no_words_prose_or_depth_with_the_gates_own() -> None:
    usual, other = constitution(), held_out.material(101)
    assert not {*usual.adjectives, *usual.things} & {*other.adjectives, *other.things}
    assert not {*usual.sentences} & {*other.sentences}
    gate, held = haystack(8000, 1, usual), haystack(8000, 1, other)
    assert not {needle.depth for needle in gate.needles} & {n.depth for n in held.needles}


def test_every_held_out_trial_has_the_form_of_the_gates_and_a_text_of_its_own() -> None:
    gate = trials(1024, quick=False)
    first, second = (held_out.held_out_trials(held_out.LONGEST, seed) for seed in (1, 2))
    assert [trial.length for trial in first] == [trial.length for trial in gate]
    assert {trial.num_asked for trial in first} == {trial.num_asked for trial in gate}
    texts = [haystack(4000, t.seed, t.material) for t in (*first, *second)]
    assert len({text.goes_on for text in texts}) == len(texts)
    assert len({trial.name for trial in (*first, *second, *gate)}) == 3 * len(gate)


def test_the_document_shows_what_held_out_questions_found() -> None:
    page = (REPOSITORY / "docs/kv-quality.md").read_text(encoding="utf-8")
    verdicts = held_out.judged(held_out.held_out_trials(held_out.LONGEST, 1))
    assert {len({v.pair for v in verdicts if v.model == one.model}) for one in verdicts} == {9}
    for line in tables(verdicts):
        assert line in page, "'python -m bench.held_out' prints the tables"
