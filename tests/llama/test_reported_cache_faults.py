"""What other engines got wrong about cached prompts and full contexts, on a real model.

Prompts that are repeated or cut short: ggml-org/llama.cpp#1585, #13359 and #19981,
oobabooga/textgen#6977. Prompts that go back behind a window: abetlen/llama-cpp-python PR #2180,
ggml-org/llama.cpp#14157 and #21831.
Contexts that fill with a quantised cache: ggml-org/llama.cpp#5652, #7230, #9383 and #9743.
Answers without an end: tetherto/qvac#3384, ggml-org/llama.cpp#3969 and PR #6638.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.core.events import (
    EngineEvent,
    Failed,
    Finished,
    FinishReason,
    Sampled,
    Started,
    StreamEvent,
)
from edgekv.core.frames import Submit
from edgekv.core.plan import Opening
from edgekv.core.request import (
    Request,
    RequestId,
    SamplingParams,
    Segment,
    TextPrompt,
    Token,
    TokenPrompt,
)
from edgekv.engine.engine import Engine, Limits
from edgekv.engine.session import Session
from edgekv.kv.store import Store
from edgekv.llama.backend import LlamaLibrary
from edgekv.service.own_command import own_command
from tests.llama.test_backend import BY_CHANCE, CHOICE, GREEDY, TEXT
from tests.tiny_models import gemma3, write

pytestmark = pytest.mark.llama

CONTEXT = 256
ONE_BY_ONE = replace(CHOICE, ubatch=1)
"""Tokens are computed one by one, so that no logit hangs on how much of a prompt was known."""


class Asked:
    """A session, asked one thing after the other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._num_asked = 0

    def submit(
        self, prompt: tuple[Token, ...], max_tokens: int, sampling: SamplingParams
    ) -> list[StreamEvent]:
        """What is said at once: a refusal, or nothing."""
        self._num_asked += 1
        name = RequestId(str(self._num_asked))
        return self.session.submit(
            Submit(name, TokenPrompt(prompt), max_tokens, sampling, ignore_end=True)
        )

    def run(self) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        while not self.session.is_idle:
            events += self.session.step()
        return events

    def tokens(self, prompt: tuple[Token, ...], sampling: SamplingParams = GREEDY) -> list[Token]:
        """Eight tokens of an answer."""
        self.submit(prompt, 8, sampling)
        events = self.run()
        [self.started] = [event for event in events if isinstance(event, Started)]
        return [token for event in events for token in getattr(event, "tokens", ())]


@pytest.fixture(scope="module")
def library() -> LlamaLibrary:
    return LlamaLibrary(own_command("grammar"))


def opened(library: LlamaLibrary, opening: Opening) -> Session:
    backend, vocabulary, _ = library.open(opening, lambda _: None)
    return Session(backend, vocabulary, opening)


@pytest.fixture(scope="module")
def asked(library: LlamaLibrary, starter_model: Path) -> Iterator[Asked]:
    session = opened(library, Opening(str(starter_model), ONE_BY_ONE, max_gap_ms=0))
    yield Asked(session)
    session.close()


@pytest.fixture(scope="module")
def cold(library: LlamaLibrary, starter_model: Path) -> Iterator[Asked]:
    """A session that uses nothing again."""
    opening = Opening(str(starter_model), ONE_BY_ONE, share_prefixes=False, max_gap_ms=0)
    session = opened(library, opening)
    yield Asked(session)
    session.close()


def words(asked: Asked, text: str) -> tuple[Token, ...]:
    return asked.session.tokenize(TextPrompt((Segment(text, True),)))


def test_a_prompt_repeated_or_cut_short_is_answered_as_if_it_were_new(
    asked: Asked, cold: Asked
) -> None:
    prompt = words(asked, TEXT)[:40]
    shorter, longer = prompt[:4], (*prompt, *words(asked, " Then it slept."))
    known = []
    for one in (prompt, prompt, shorter, longer, prompt):
        assert asked.tokens(one) == cold.tokens(one)
        known.append(asked.started.num_reused)
    assert known == [0, len(prompt) - 1, 3, len(prompt), len(prompt) - 1]


def test_a_seed_draws_the_same_from_a_cached_prompt(asked: Asked) -> None:
    prompt = words(asked, "Tell me of " + TEXT)
    seeded = replace(BY_CHANCE, seed=7)
    assert len({tuple(asked.tokens(prompt, seeded)) for _ in range(3)}) == 1
    # Eight draws of thousands of tokens that come out the same: about one in 10**37.
    assert len({tuple(asked.tokens(prompt, BY_CHANCE)) for _ in range(2)}) > 1


@dataclass(frozen=True)
class FirstToken:
    likely: dict[Token, float]
    """How likely each of the likeliest 50 was."""
    num_known: int
    """Tokens of the prompt that were not computed."""


def first_token(engine: Engine, name: str, prompt: tuple[Token, ...]) -> FirstToken:
    sampling = SamplingParams(temperature=0, top_logprobs=50)
    engine.submit(Request(RequestId(name), prompt, 1, sampling, ignore_end=True))
    events: list[EngineEvent] = []
    while not engine.is_idle:
        events += engine.step()
    [started] = [event for event in events if isinstance(event, Started)]
    [sampled] = [event for event in events if isinstance(event, Sampled)]
    assert sampled.logprob is not None
    likely = {token: exp(logprob) for token, _, logprob in sampled.logprob.top}
    return FirstToken(likely, started.num_reused)


@pytest.mark.parametrize("swa_full", [True, False])
def test_a_prompt_that_goes_back_behind_a_window_is_answered_as_if_it_were_new(
    library: LlamaLibrary, tmp_path: Path, swa_full: bool
) -> None:
    """The window has 64 tokens, and two prompts of 200 part at 40."""
    path = write(tmp_path / "window.gguf", gemma3(window=64))
    choice = replace(CHOICE, swa_full=swa_full, kv_type_k="f16", kv_type_v="f16", slots=2)
    same = tuple(Token(3 + n) for n in range(40))
    one, other = ((*same, *(Token(n % 250 + 3) for n in range(i, i + 160))) for i in (70, 140))
    backend, _, _ = library.open(Opening(str(path), choice), lambda _: None)
    limits = Limits(slots=2, context_length=512, batch_tokens=256)
    nothing_kept = Engine(backend, limits, end_tokens=frozenset(), sharing=False)
    cold = {prompt: first_token(nothing_kept, "cold", prompt) for prompt in (one, other)}
    store = Store(host_limit_bytes=10**8)
    engine = Engine(backend, limits, end_tokens=frozenset(), sharing=swa_full, store=store)
    known = []
    for prompt in (one, other, one, other):
        found, likely = first_token(engine, "a", prompt), cold[prompt].likely
        known.append(found.num_known)
        # Steps of another shape move the logits a little, as they do without any cache.
        both = likely.keys() & found.likely
        assert len(both) > 40
        assert all(abs(likely[token] - found.likely[token]) < 0.01 for token in both)
    assert known == ([0, 40, 199, 199] if swa_full else [0, 0, 40, 40])
    assert engine.snapshot().prompt_tokens_computed == 4 * 200 - sum(known)
    backend.close()


@pytest.mark.parametrize("kv_type", ["q4_0", "q8_0"])
def test_a_context_that_fills_ends_the_answer_and_harms_nothing(
    library: LlamaLibrary, starter_model: Path, kv_type: str
) -> None:
    choice = replace(CHOICE, context_length=CONTEXT, slots=2, kv_type_k=kv_type, kv_type_v=kv_type)
    asked = Asked(opened(library, Opening(str(starter_model), choice, max_gap_ms=0)))
    fresh = words(asked, "Once upon a time")
    before = asked.tokens(fresh)
    for _ in range(2):
        for first in (100, 200):
            prompt = tuple(Token(first + i) for i in range(CONTEXT - 20))
            asked.submit(prompt, 500, GREEDY)
        ends = [event for event in asked.run() if isinstance(event, Finished)]
        assert [(e.reason, e.num_generated) for e in ends] == [(FinishReason.LENGTH, 20)] * 2
    assert asked.tokens(fresh) == before
    asked.session.close()


@pytest.mark.parametrize("context", [200, CONTEXT])
def test_the_limit_that_is_said_is_the_one_that_holds(
    library: LlamaLibrary, starter_model: Path, context: int
) -> None:
    """A context of 200 has cells for 256, and still holds 200."""
    opening = Opening(str(starter_model), replace(CHOICE, context_length=context))
    asked = Asked(opened(library, opening))
    for length in (context - 1, context, context + 1, 400):
        said = asked.submit(tuple(Token(100 + i) for i in range(length)), 5, GREEDY)
        if length < context:
            assert said == []
            [end] = [event for event in asked.run() if isinstance(event, Finished)]
            assert (end.reason, end.num_generated) == (FinishReason.LENGTH, context - length)
        else:
            [failed] = said
            assert isinstance(failed, Failed)
            assert failed.error.code == "context_length_exceeded"
            assert f"{length} tokens" in failed.error.message
            assert f"may hold {context}" in failed.error.message
    asked.session.close()
