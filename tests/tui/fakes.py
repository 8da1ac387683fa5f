"""A worker without an engine: what it says is decided by the test, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from edgekv.budget.wish import Wish
from edgekv.core.events import AnswerStream, Delta, Finished, FinishReason, Started
from edgekv.core.frames import Snapshot, Submit
from edgekv.core.plan import Choice, CostLine, MemoryPlan, ModelFacts, PlannedModel
from edgekv.core.request import Segment, TextPrompt, Token
from edgekv.errors import EdgeKVError
from edgekv.service.dialects import dialect_of
from edgekv.service.messages import Message
from edgekv.service.pieces import AnswerReader
from edgekv.service.states import LoadStep, State
from edgekv.service.worker import Worker

MIB = 1024 * 1024


@dataclass
class Script:
    """How one request goes: its words one by one, then an error if there is one.

    With a `gate` every word waits for a `gate.release()`.
    """

    words: tuple[str, ...] = ("Hello", " there.")
    num_prompt: int = 40
    num_reused: int = 31
    reason: FinishReason = FinishReason.STOP
    error: EdgeKVError | None = None
    gate: asyncio.Semaphore | None = None
    was_closed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the request is over, for whatever reason."""


class ScriptedWorker(Worker):
    """Plays scripts in turn; `submits` holds what it was asked."""

    def __init__(self, *scripts: Script, load_gate: asyncio.Event | None = None) -> None:
        super().__init__("model.gguf", Wish())
        self.scripts = list(scripts)
        self.submits: list[Submit] = []
        self.load_gate = load_gate
        self.load_error: EdgeKVError | None = None
        self.engine = Snapshot(num_cells=8192, cells_used=1024, cells_shared=256)
        self.name = "SmolLM2 135M Instruct"
        self.chat_template: str | None = None
        self.tokenize = self._count_words

    @property
    def snapshot(self) -> Snapshot:
        return self.engine

    async def _count_words(self, segments: tuple[Segment, ...]) -> tuple[Token, ...]:
        """A token a word."""
        words = " ".join(segment.text for segment in segments).split()
        return tuple(Token(number) for number, _ in enumerate(words))

    async def start(self, on_progress: Callable[[LoadStep], None] = lambda _: None) -> None:
        self.state = State.PLANNING
        on_progress(LoadStep(State.PLANNING))
        self.facts = msgspec.structs.replace(a_model(self.name), chat_template=self.chat_template)
        self.plan = a_plan(self.name)
        on_progress(LoadStep(State.LOADING, 0.25))
        self.state = State.LOADING
        if self.load_gate is not None:
            await self.load_gate.wait()
        if self.load_error is not None:
            raise self.load_error
        self.state = State.READY
        on_progress(LoadStep(State.READY))

    async def stream(self, submit: Submit) -> AnswerStream:
        self.submits.append(submit)
        script = self.scripts.pop(0)
        request_id = submit.request_id
        try:
            if script.words:
                yield Started(request_id, script.num_prompt, script.num_reused)
            for number, word in enumerate(script.words, start=1):
                if script.gate is not None:
                    await script.gate.acquire()
                yield Delta(request_id, word, number)
            if script.error is not None:
                raise script.error
            yield Finished(request_id, script.reason, len(script.words))
        finally:
            script.was_closed.set()

    async def close(self) -> None:
        self.state = State.CLOSED


class PlainFormat:
    """One segment a message: `role: content`."""

    shows_controls = False

    def __init__(self, facts: ModelFacts) -> None:
        self.facts = facts

    async def prompt(self, messages: Sequence[Message]) -> TextPrompt:
        return TextPrompt(tuple(Segment(f"{m.role}: {m.content}", False) for m in messages))

    def reader(self, prompt: TextPrompt) -> AnswerReader:
        return dialect_of(self.facts.chat_template or "").reader("", {})

    async def close(self) -> None:
        pass


def asked(submit: Submit) -> list[str]:
    """The messages of a prompt that `PlainFormat` wrote."""
    assert isinstance(submit.prompt, TextPrompt)
    return [segment.text for segment in submit.prompt.segments]


def a_model(name: str) -> ModelFacts:
    return ModelFacts(
        path="model.gguf",
        name=name,
        architecture="llama",
        file_bytes=94 * MIB,
        context_train=8192,
        num_layers=30,
        num_vocab=49152,
        metadata={},
        weight_bytes=93 * MIB,
        window=0,
        is_recurrent=False,
        is_hybrid=False,
        has_decoder=True,
        chat_template=None,
        bos_text="",
        eos_text="<|im_end|>",
        adds_bos=False,
        control_texts=(),
    )


def a_plan(name: str) -> MemoryPlan:
    choice = Choice(
        context_length=8192,
        slots=1,
        cells=8192,
        kv_type_k="q8_0",
        kv_type_v="q8_0",
        gpu_layers=0,
        batch=512,
        ubatch=128,
        swa_full=False,
        flash_attention=True,
    )
    lines = (
        CostLine("CPU", "weights", 94 * MIB, "All tensors as stored in the file."),
        CostLine("CPU", "kv", 96 * MIB, "8,192 cells of 12,240 bytes."),
        CostLine("CPU", "compute", 5 * MIB, "From the library's own allocator."),
        CostLine("CPU", "output", 1 * MIB, "One row of logits."),
        CostLine("CPU", "runtime", 60 * MIB, "Python, libraries and buffers."),
    )
    model = PlannedModel("model.gguf", name, "llama", 94 * MIB, 8192, {"q8_0": 12240})
    return MemoryPlan(
        schema=1,
        model=model,
        devices=(),
        choice=choice,
        lines=lines,
        total_bytes=256 * MIB,
        budget_bytes=6144 * MIB,
        fits=True,
        limits=("The model was trained on 8,192 tokens; a larger --ctx needs another model.",),
    )
