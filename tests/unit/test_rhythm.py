"""What the rhythm of answers remembers."""

from __future__ import annotations

from edgekv.core.events import Delta, Finished, FinishReason, Started
from edgekv.core.request import RequestId
from edgekv.service.rhythm import NUM_REMEMBERED, Rhythm

A, B = RequestId("a"), RequestId("b")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def listening() -> tuple[Rhythm, Clock]:
    clock = Clock()
    return Rhythm(clock), clock


def test_the_first_text_counts_from_asking_and_the_next_from_the_one_before() -> None:
    rhythm, clock = listening()
    rhythm.ask(A)
    clock.now += 1
    rhythm.hear([Started(A, 5, 0)])
    clock.now += 2
    rhythm.hear([Delta(A, "x", 1)])
    clock.now += 0.5
    rhythm.hear([Delta(A, "y", 2)])
    assert list(rhythm.first_tokens) == [3.0]
    assert list(rhythm.gaps) == [0.5]


def test_a_step_for_several_answers_counts_its_longest_gap_once() -> None:
    rhythm, clock = listening()
    rhythm.hear([Delta(A, "x", 1), Delta(B, "x", 1)])
    clock.now += 1
    rhythm.hear([Delta(A, "y", 2)])
    clock.now += 1
    rhythm.hear([Delta(A, "z", 3), Delta(B, "y", 2)])
    assert list(rhythm.gaps) == [1.0, 2.0]


def test_nothing_of_an_ended_answer_is_kept_and_the_rest_is_bounded() -> None:
    rhythm, clock = listening()
    for _ in range(3 * NUM_REMEMBERED):
        rhythm.ask(A)
        for _ in range(2):
            clock.now += 1
            rhythm.hear([Delta(A, "x", 1)])
        rhythm.hear([Finished(A, FinishReason.STOP, 2)])
    assert len(rhythm.first_tokens) == len(rhythm.gaps) == NUM_REMEMBERED
    clock.now += 1000
    rhythm.hear([Delta(A, "again", 1)])
    assert max(rhythm.gaps) == 1.0
