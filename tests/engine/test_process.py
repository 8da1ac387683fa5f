"""The engine process's loop on the fake library: commands in, frames out."""

from __future__ import annotations

import itertools
from pathlib import Path
from queue import SimpleQueue

import pytest
from msgspec.structs import replace

from edgekv.core.events import Delta, Failed, Finished, FinishReason, Started, StreamEvent
from edgekv.core.frames import (
    Cancel,
    Command,
    Describe,
    Described,
    Detokenize,
    DryRun,
    DryRunDone,
    EngineFrame,
    Inspect,
    Inspection,
    Open,
    Opened,
    Progress,
    Refused,
    StepFrame,
    Submit,
    Text,
    Tokenize,
    Tokens,
    decode_command,
    decode_engine_frame,
    encode,
)
from edgekv.core.plan import Choice, Opening
from edgekv.core.request import RequestId, SamplingParams, Segment, TextPrompt, Token, TokenPrompt
from edgekv.engine.process import EngineProcess, Inbox
from tests.fakes import FakeLibrary

CHOICE = Choice(
    context_length=64,
    slots=2,
    cells=128,
    kv_type_k="f16",
    kv_type_v="f16",
    gpu_layers=0,
    batch=16,
    ubatch=16,
    swa_full=True,
    flash_attention=True,
    kept=2,
)
OPENING = Opening("model.gguf", CHOICE)


class Front:
    """The other end of the pipe: every frame passes through its bytes, as on a real one."""

    def __init__(self, library: FakeLibrary) -> None:
        self.frames: list[EngineFrame] = []
        self._inbox: Inbox = SimpleQueue()
        self.process = EngineProcess(
            library,
            self._inbox,
            lambda frame: self.frames.append(decode_engine_frame(encode(frame)[4:])),
            resident_bytes=lambda: 12345,
            clock=itertools.count().__next__,
        )

    def say(self, *commands: Command) -> None:
        for command in commands:
            self._inbox.put(decode_command(encode(command)[4:]))

    def turn(self, *commands: Command) -> list[EngineFrame]:
        """Send commands, let the process take one turn, return what it said."""
        self.say(*commands)
        self.frames.clear()
        self.process.turn()
        return list(self.frames)

    def answers(self, *commands: Command) -> dict[RequestId, list[StreamEvent]]:
        """Send requests and run until all have ended."""
        open_requests = {c.request_id for c in commands if isinstance(c, Submit)}
        events: dict[RequestId, list[StreamEvent]] = {r: [] for r in open_requests}
        self.say(*commands)
        while open_requests:
            for frame in self.turn():
                assert isinstance(frame, StepFrame)
                for event in frame.events:
                    events[event.request_id].append(event)
                    if isinstance(event, Finished | Failed):
                        open_requests.remove(event.request_id)
        return events


@pytest.fixture
def front() -> Front:
    opened = Front(FakeLibrary(answer="Grüße, 世界!"))
    opened.turn(Open(1, OPENING))
    return opened


def ask(name: str, text: str = "Hello", **options: object) -> Submit:
    prompt = TextPrompt((Segment(text, True),))
    return Submit(RequestId(name), prompt, **options)  # type: ignore[arg-type]


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def test_a_model_is_described_sized_and_opened() -> None:
    front = Front(FakeLibrary())
    [described] = front.turn(Describe(1, "model.gguf"))
    assert isinstance(described, Described)
    assert (described.call, described.facts.name, described.resident_bytes) == (1, "Fake", 12345)
    [sized] = front.turn(DryRun(2, OPENING))
    *progress, opened = front.turn(Open(3, OPENING))
    assert isinstance(sized, DryRunDone)
    assert isinstance(opened, Opened)
    assert sized.allocation == opened.allocation
    assert [p.fraction for p in progress if isinstance(p, Progress)] == [0.5, 1.0]


def test_a_refusal_carries_the_call_and_the_sentence() -> None:
    front = Front(FakeLibrary(missing={"gone.gguf"}))
    [refused] = front.turn(Describe(7, "gone.gguf"))
    assert isinstance(refused, Refused)
    assert (refused.call, refused.error.code) == (7, "model_error")
    assert "gone.gguf" in refused.error.message


def test_an_answer_arrives_whole_and_ends_once(front: Front) -> None:
    [events] = front.answers(ask("a")).values()
    assert events[0] == Started(RequestId("a"), num_prompt=6, num_reused=0)
    assert text_of(events) == "Grüße, 世界!"
    assert events[-1] == Finished(RequestId("a"), FinishReason.STOP, num_generated=16)
    assert sum(isinstance(event, Finished) for event in events) == 1


def test_many_answers_share_the_steps(front: Front) -> None:
    answers = front.answers(*(ask(str(i)) for i in range(5)))
    assert {text_of(events) for events in answers.values()} == {"Grüße, 世界!"}


def test_a_token_limit_inside_a_character_drops_its_part(front: Front) -> None:
    for limit in range(1, 16):
        [events] = front.answers(ask(str(limit), max_tokens=limit)).values()
        assert "Grüße, 世界!".startswith(text_of(events))
        assert "\ufffd" not in text_of(events)
        last = events[-1]
        assert isinstance(last, Finished)
        assert (last.reason, last.num_generated) == (FinishReason.LENGTH, limit)


def test_a_stop_string_ends_the_answer_before_it(front: Front) -> None:
    [events] = front.answers(ask("a", stop=("世",))).values()
    assert text_of(events) == "Grüße, "
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.STOP


def test_a_stop_string_met_by_the_last_token_allowed_still_counts(front: Front) -> None:
    [events] = front.answers(ask("a", stop=("Gr",), max_tokens=2)).values()
    assert text_of(events) == ""
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.STOP


def test_without_a_limit_the_context_length_is_one(front: Front) -> None:
    [events] = front.answers(ask("a", ignore_end=True)).values()
    assert isinstance(events[-1], Finished)
    assert events[-1].reason is FinishReason.LENGTH
    assert 6 + events[-1].num_generated == CHOICE.context_length


def test_a_limit_beyond_the_context_is_cut_to_it(front: Front) -> None:
    [events] = front.answers(ask("a", ignore_end=True, max_tokens=10**9)).values()
    assert isinstance(events[-1], Finished)
    assert events[-1].num_generated == CHOICE.context_length - 6


@pytest.mark.parametrize(("length", "fits"), [(62, True), (63, False), (200, False)])
def test_a_prompt_must_leave_room_for_one_token(front: Front, length: int, fits: bool) -> None:
    [events] = front.answers(ask("a", "x" * length)).values()  # and the start token
    if fits:
        assert isinstance(events[-1], Finished)
    else:
        [failed] = events
        assert isinstance(failed, Failed)
        assert failed.error.code == "context_length_exceeded"
        assert f"{length + 1} tokens" in failed.error.message
        assert "64" in failed.error.message


@pytest.mark.parametrize("tokens", [(), (9999,), (-1,)])
def test_token_prompts_are_checked(front: Front, tokens: tuple[int, ...]) -> None:
    prompt = TokenPrompt(tuple(map(Token, tokens)))
    [events] = front.answers(Submit(RequestId("a"), prompt)).values()
    [failed] = events
    assert isinstance(failed, Failed)
    assert (failed.error.code, failed.error.param) == ("invalid_value", "prompt")


def test_a_cancel_frees_the_cells_at_once(front: Front) -> None:
    front.turn(ask("a", ignore_end=True))
    [frame] = [f for f in front.turn(Cancel(RequestId("a"))) if isinstance(f, StepFrame)]
    assert frame.events[-1] == Finished(RequestId("a"), FinishReason.CANCELLED, num_generated=1)
    assert frame.snapshot.num_running == 0
    assert frame.snapshot.cells_used == frame.snapshot.cells_kept


def test_cancelling_what_is_not_there_says_nothing(front: Front) -> None:
    assert front.turn(Cancel(RequestId("unknown"))) == []


def test_each_frame_carries_a_snapshot(front: Front) -> None:
    [frame] = front.turn(ask("a", ignore_end=True))
    assert isinstance(frame, StepFrame)
    assert frame.snapshot.num_running == 1
    assert frame.snapshot.resident_bytes == 12345
    assert frame.snapshot.num_cells == CHOICE.cells


def test_opening_again_ends_what_runs_and_gives_the_memory_back() -> None:
    library = FakeLibrary()
    front = Front(library)
    front.turn(Open(1, OPENING))
    front.turn(ask("a", ignore_end=True))
    ended, *_, opened = front.turn(Open(2, OPENING))
    assert isinstance(ended, StepFrame)
    assert isinstance(ended.events[-1], Finished)
    assert isinstance(opened, Opened)
    first, second = library.backends
    assert first.is_closed
    assert not second.is_closed


def test_text_and_tokens_go_both_ways(front: Front) -> None:
    [tokens] = front.turn(Tokenize(1, TextPrompt((Segment("hé", False),))))
    assert isinstance(tokens, Tokens)
    [text] = front.turn(Detokenize(2, tokens.tokens))
    assert isinstance(text, Text)
    assert text.text == "hé"
    [refused] = front.turn(Detokenize(3, (Token(10**6),)))
    assert isinstance(refused, Refused)


def test_an_inspection_shows_who_holds_what_and_where_a_prompt_differed(front: Front) -> None:
    front.answers(ask("a", "Hello there"))
    front.answers(ask("b", "Hello world"))
    [inspection] = front.turn(Inspect(9))
    assert isinstance(inspection, Inspection)
    assert (inspection.call, inspection.num_cells) == (9, CHOICE.cells)
    assert sum(run.num_cells for run in inspection.view.runs) > 0
    first, second = inspection.starts
    assert (first.num_reused, second.num_reused) == (0, len("Hello ") + 1)
    assert second.miss is not None
    assert second.miss.difference is not None
    assert second.miss.difference.wanted_text.endswith("o worl")
    assert "o there" in second.miss.difference.found_text


def test_what_is_idle_is_written_before_the_process_waits(tmp_path: Path) -> None:
    opening = replace(OPENING, store_path=str(tmp_path), disk_cache_bytes=10**6)
    first = Front(FakeLibrary(answer="ok"))
    first.turn(Open(1, opening))
    first.answers(ask("a", "A long system prompt. Hello"))
    assert not first.process._has_work()
    assert len(list(tmp_path.glob("*/*"))) == 1
    second = Front(FakeLibrary(answer="ok"))
    second.turn(Open(1, opening))
    [events] = second.answers(ask("a", "A long system prompt. Bye")).values()
    started = events[0]
    assert isinstance(started, Started)
    assert started.num_reused == len("A long system prompt. ") + 1


def test_a_folder_that_cannot_be_used_does_not_keep_a_model_from_opening(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    front = Front(FakeLibrary(answer="ok"))
    opened = front.turn(Open(1, replace(OPENING, store_path=str(blocked), disk_cache_bytes=10**6)))
    assert isinstance(opened[-1], Opened)


def test_a_full_queue_is_said_with_its_own_code() -> None:
    front = Front(FakeLibrary(answer="ok"))
    front.turn(Open(1, replace(OPENING, max_waiting=0)))
    events = front.answers(*(ask(str(i)) for i in range(3)))
    [failed] = [e for told in events.values() for e in told if isinstance(e, Failed)]
    assert (failed.request_id, failed.error.code) == (RequestId("2"), "overloaded")


def test_sampling_options_survive_the_pipe() -> None:
    submit = ask("a", sampling=SamplingParams(seed=2**63, logit_bias=((Token(5), -100.0),)))
    assert decode_command(encode(submit)[4:]) == submit
