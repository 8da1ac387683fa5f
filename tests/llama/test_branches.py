"""On a real window model: prompts go on from copied states, and the answer is as if computed anew.

Both ways compute in steps of the same shapes, so the tokens must be the same, not only alike.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.core.events import Delta, Started
from edgekv.core.frames import Submit
from edgekv.core.plan import Opening
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt
from edgekv.engine.session import Session
from edgekv.kv.unshared_cache import NOTE
from edgekv.llama.backend import LlamaLibrary
from edgekv.service.own_command import own_command
from tests.llama.test_backend import CHOICE, TEXT

pytestmark = pytest.mark.llama

INSTRUCTIONS = f"<start_of_turn>system\n{TEXT * 6}<end_of_turn>\n"
"""More tokens than the window of 512."""
FIRST, SECOND = "Where does the robot walk?", "What does it look at?"


@pytest.fixture
def opening(gemma_model: Path) -> Opening:
    choice = replace(
        CHOICE, context_length=1024, cells=1024, slots=2, swa_full=False, host_cache_bytes=10**8
    )
    return Opening(str(gemma_model), choice, share_prefixes=False, max_gap_ms=0)


def opened(opening: Opening) -> Session:
    backend, vocabulary, _ = LlamaLibrary(own_command("grammar")).open(opening, lambda _: None)
    return Session(backend, vocabulary, opening)


def ask(session: Session, name: str, question: str) -> tuple[str, int, int]:
    """The answer, the prompt's tokens and how many of them were not computed."""
    text = f"{INSTRUCTIONS}<start_of_turn>user\n{question}<end_of_turn>\n<start_of_turn>model\n"
    prompt = TextPrompt((Segment(text, True),))
    sampling = SamplingParams(temperature=0)
    assert session.submit(Submit(RequestId(name), prompt, 8, sampling, ignore_end=True)) == []
    events = []
    while not session.is_idle:
        events += session.step()
    [started] = [event for event in events if isinstance(event, Started)]
    said = "".join(event.text for event in events if isinstance(event, Delta))
    return said, started.num_prompt, started.num_reused


def test_a_window_model_goes_on_from_where_turns_begin(opening: Opening) -> None:
    session, cold = opened(opening), opened(opening)
    first, num_prompt, num_reused = ask(session, "first", FIRST)
    assert num_prompt > 512 + 30
    assert num_reused == 0
    num_instructions = len(session.tokenize(TextPrompt((Segment(INSTRUCTIONS, True),))))

    second, _, num_reused = ask(session, "second", SECOND)
    assert num_reused == num_instructions
    assert second == ask(cold, "second", SECOND)[0]

    again, num_prompt, num_reused = ask(session, "again", FIRST)
    assert again == first
    assert num_prompt - num_reused == len(["<start_of_turn>", "model", "\n"])

    assert session.inspect()[1].note == NOTE
    session.close()
    cold.close()
