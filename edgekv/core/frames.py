"""The messages between the front end and an engine process.

The front end sends `Command`s; the engine answers a `Call` with one reply that
carries the same `call` number, and sends one `StepFrame` a step while it works.

On the pipe a frame is its length in `LENGTH_BYTES` bytes, little end first, then msgpack.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from edgekv.core.comparison import Compare, Compared, ComparisonOpened, OpenComparison
from edgekv.core.events import ErrorInfo, StreamEvent
from edgekv.core.inspection import CacheView, PromptStart
from edgekv.core.look import EngineLook
from edgekv.core.memory_frames import (
    Resize,
    Resized,
    Restrain,
    Restrained,
    Survey,
    Surveyed,
)
from edgekv.core.plan import Allocation, DeviceInfo, ModelFacts, Opening
from edgekv.core.request import (
    Grammar,
    Priority,
    Prompt,
    RequestId,
    SamplingParams,
    TextPrompt,
    Token,
)


class Submit(msgspec.Struct, frozen=True, tag=True):
    """Ask for one answer. Its `StreamEvent`s come in `StepFrame`s.

    `max_tokens` of None means: as many as the context length leaves room for.
    """

    request_id: RequestId
    prompt: Prompt
    max_tokens: int | None = None
    sampling: SamplingParams = SamplingParams()
    stop: tuple[str, ...] = ()
    ignore_end: bool = False
    generated: tuple[Token, ...] = ()
    """Tokens of the answer that the caller already has, from an engine that died."""
    priority: Priority = Priority.NORMAL
    shows_controls: bool = False
    """Control tokens in the answer are spelled out; otherwise they have no text."""


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """End a request now. It still gets its `Finished`; unknown ids are ignored."""

    request_id: RequestId


class Describe(msgspec.Struct, frozen=True, tag=True):
    call: int
    path: str


class DryRun(msgspec.Struct, frozen=True, tag=True):
    call: int
    opening: Opening


class Open(msgspec.Struct, frozen=True, tag=True):
    """Open a model, in place of the one that is open."""

    call: int
    opening: Opening


class Tokenize(msgspec.Struct, frozen=True, tag=True):
    call: int
    prompt: TextPrompt


class Detokenize(msgspec.Struct, frozen=True, tag=True):
    call: int
    tokens: tuple[Token, ...]


class Inspect(msgspec.Struct, frozen=True, tag=True):
    """Ask who holds which cells of the open model, and what the last prompts found."""

    call: int


class Look(msgspec.Struct, frozen=True, tag=True):
    """Ask what runs and waits: cheap enough for a few times a second."""

    call: int


class Pin(msgspec.Struct, frozen=True, tag=True):
    """Keep a prompt of the open model for whoever begins with it, and `compute` it now.

    `Accepted`, or `Refused` with `InvalidValue` if it is too long and `Unavailable` where nothing
    can be pinned.
    """

    call: int
    name: str
    prompt: Prompt
    compute: bool


class CheckGrammar(msgspec.Struct, frozen=True, tag=True):
    """Ask whether answers can be held to a grammar, before one is asked for. `Accepted`, or
    `Refused` with an `InvalidValue` that says why not, or `Unavailable` on machines without it.

    The reply may come after those to later calls: a grammar is compiled beside the steps.
    """

    call: int
    grammar: Grammar


class Embed(msgspec.Struct, frozen=True, tag=True):
    """Ask for the vector of each prompt, of length 1. Between two steps of answers one prompt
    is computed, so the reply may come after those to later calls.

    `Refused` with `Unavailable` where `Choice.embedding_cells` is 0, and with `InvalidValue` for
    a prompt that is empty or longer than that.
    """

    call: int
    prompts: tuple[tuple[Token, ...], ...]


Command: TypeAlias = (
    Submit
    | Cancel
    | Describe
    | DryRun
    | Open
    | Tokenize
    | Detokenize
    | Inspect
    | Look
    | Pin
    | Survey
    | Restrain
    | Resize
    | CheckGrammar
    | Embed
    | OpenComparison
    | Compare
)


class Described(msgspec.Struct, frozen=True, tag=True):
    call: int
    facts: ModelFacts
    devices: tuple[DeviceInfo, ...]
    resident_bytes: int
    """Resident memory of the engine process with nothing loaded but libraries and vocabulary."""


class DryRunDone(msgspec.Struct, frozen=True, tag=True):
    call: int
    allocation: Allocation


class Progress(msgspec.Struct, frozen=True, tag=True):
    """How far the call with this number is, as a fraction from 0 to 1; an `Open` counts weights."""

    call: int
    fraction: float


class Opened(msgspec.Struct, frozen=True, tag=True):
    call: int
    allocation: Allocation
    resident_bytes: int
    """Of the engine process, the mapped pages of its model included."""
    devices_before: tuple[DeviceInfo, ...] = ()
    devices_after: tuple[DeviceInfo, ...] = ()


class Tokens(msgspec.Struct, frozen=True, tag=True):
    call: int
    tokens: tuple[Token, ...]


class Text(msgspec.Struct, frozen=True, tag=True):
    call: int
    text: str


class Inspection(msgspec.Struct, frozen=True, tag=True):
    call: int
    num_cells: int
    view: CacheView
    starts: tuple[PromptStart, ...]
    """The last requests that started, the oldest first."""


class Looked(msgspec.Struct, frozen=True, tag=True):
    call: int
    look: EngineLook


class Accepted(msgspec.Struct, frozen=True, tag=True):
    call: int


class Embedded(msgspec.Struct, frozen=True, tag=True):
    call: int
    vectors: tuple[tuple[float, ...], ...]
    """One for each prompt, in order."""


class Refused(msgspec.Struct, frozen=True, tag=True):
    call: int
    error: ErrorInfo


class Snapshot(msgspec.Struct, frozen=True):
    """The engine after a step. Cells: used + free = all; shared and kept are part of used."""

    num_cells: int = 0
    cells_used: int = 0
    cells_shared: int = 0
    """Held by two or more sequence ids."""
    cells_kept: int = 0
    """Held only by finished conversations; given up when room is needed."""
    cells_reserved: int = 0
    """Not used yet, but expected to be needed by running requests."""
    num_running: int = 0
    num_waiting: int = 0
    """Those suspended included."""
    num_steps: int = 0
    prompt_tokens_computed: int = 0
    prompt_tokens_reused: int = 0
    tokens_generated: int = 0
    resident_bytes: int = 0
    prompt_tokens_restored: int = 0
    """Their cells came out of the store; no part of those reused."""
    num_suspended: int = 0
    num_suspensions: int = 0
    tokens_recomputed: int = 0
    """Computed before a suspension and, because the store had lost them, again after it."""
    store_host_bytes: int = 0
    store_disk_bytes: int = 0
    """What the folder holds, other models' files included."""
    swap_bytes_out: int = 0
    """From the pool to the store, since the model was opened."""
    swap_bytes_in: int = 0


class StepFrame(msgspec.Struct, frozen=True, tag=True):
    events: tuple[StreamEvent, ...]
    snapshot: Snapshot


Reply: TypeAlias = (
    Described
    | DryRunDone
    | Opened
    | Tokens
    | Text
    | Inspection
    | Looked
    | Surveyed
    | Restrained
    | Resized
    | Accepted
    | Embedded
    | ComparisonOpened
    | Compared
    | Refused
)
EngineFrame: TypeAlias = Reply | Progress | StepFrame

LENGTH_BYTES = 4


def encode(frame: Command | EngineFrame) -> bytes:
    """A frame as it goes over the pipe, its length in front."""
    body = msgspec.msgpack.encode(frame)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def frame_length(prefix: bytes) -> int:
    """How many bytes follow a length prefix."""
    return int.from_bytes(prefix, "little")


decode_command: Callable[[bytes], Command] = msgspec.msgpack.Decoder(Command).decode
decode_engine_frame: Callable[[bytes], EngineFrame] = msgspec.msgpack.Decoder(EngineFrame).decode
