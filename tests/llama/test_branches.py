"""On models of every kind without a past: prompts go on from copied states.

The answer is compared with one that was computed anew, in steps of the same shapes, so the tokens
must be the same, not only alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.core.events import Delta, Started
from edgekv.core.frames import Submit
from edgekv.core.plan import Opening
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt, Token
from edgekv.engine.session import Session
from edgekv.kv.unshared_cache import NOTE
from edgekv.llama.backend import LlamaLibrary
from edgekv.service.own_command import own_command
from tests import tiny_models
from tests.llama.test_backend import CHOICE, TEXT
from tests.tiny_models import write

pytestmark = pytest.mark.llama

FIRST, SECOND = "Where does the robot walk?", "What does it look at?"
TINY = {
    "window": tiny_models.gemma3(),
    "hybrid of attention and convolution": tiny_models.lfm2(),
    "hybrid of attention and state": tiny_models.granite_hybrid(),
    "state alone": tiny_models.mamba2(),
}


@dataclass(frozen=True)
class Chat:
    """A model, and what its turns begin with."""

    path: Path
    mark: str
    instructions: str
    """Longer than the model's window, if it has one."""

    @property
    def opening(self) -> Opening:
        choice = replace(
            CHOICE, context_length=1024, cells=1024, slots=2, swa_full=False, host_cache_bytes=10**8
        )
        if "gemma-3" not in self.path.name:  # rows of the tiny ones are no whole blocks of q8_0
            choice = replace(choice, kv_type_k="f16", kv_type_v="f16")
        return Opening(str(self.path), choice, share_prefixes=False, max_gap_ms=0)

    def prompt(self, question: str) -> TextPrompt:
        text = f"{self.mark}{self.instructions}{self.mark}{question}{self.mark}:"
        return TextPrompt((Segment(text, True),))


@pytest.fixture(params=["gemma_model", *TINY])
def chat(request: pytest.FixtureRequest, tmp_path: Path) -> Chat:
    name: str = request.param
    if name in TINY:
        return Chat(write(tmp_path / "tiny.gguf", TINY[name]), "</s>", TEXT)
    return Chat(request.getfixturevalue(name), "<start_of_turn>", TEXT * 6)


def opened(chat: Chat) -> Session:
    backend, vocabulary, _ = LlamaLibrary(own_command("grammar")).open(chat.opening, lambda _: None)
    return Session(backend, vocabulary, chat.opening)


def ask(session: Session, name: str, prompt: TextPrompt) -> tuple[list[Token], int, int]:
    """The answer, the prompt's tokens and how many of them were not computed."""
    sampling = SamplingParams(temperature=0)
    assert session.submit(Submit(RequestId(name), prompt, 8, sampling, ignore_end=True)) == []
    events = []
    while not session.is_idle:
        events += session.step()
    [started] = [event for event in events if isinstance(event, Started)]
    said = [token for event in events if isinstance(event, Delta) for token in event.tokens]
    return said, started.num_prompt, started.num_reused


def test_a_model_without_a_past_goes_on_from_where_turns_begin(chat: Chat) -> None:
    session, cold = opened(chat), opened(chat)
    first, num_prompt, num_reused = ask(session, "first", chat.prompt(FIRST))
    assert num_reused == 0
    shared = TextPrompt((Segment(chat.mark + chat.instructions, True),))
    num_instructions = len(session.tokenize(shared))

    second, _, num_reused = ask(session, "second", chat.prompt(SECOND))
    assert num_reused == num_instructions
    assert second == ask(cold, "second", chat.prompt(SECOND))[0]

    again, num_prompt, num_reused = ask(session, "again", chat.prompt(FIRST))
    assert again == first
    assert 2 <= num_prompt - num_reused <= 5, "the last mark, and what follows it"

    assert session.inspect()[1].note == NOTE
    session.close()
    cold.close()
