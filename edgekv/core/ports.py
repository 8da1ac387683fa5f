"""What the engine needs from an inference library, and nothing more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from edgekv.core.batch import BatchPlan, DecodeStatus
from edgekv.core.comparison import Likeness, Passage
from edgekv.core.events import TokenLogprob
from edgekv.core.plan import Allocation, Choice, DeviceInfo, ModelFacts, Opening
from edgekv.core.request import Grammar, SamplingParams, Segment, SeqId, Token


class KVMemory(Protocol):
    def share(self, source: SeqId, target: SeqId, start: int, end: int) -> None:
        """Let `target` see `source`'s cells in [start, end). Moves no data."""

    def cut(self, seq_id: SeqId, start: int, end: int) -> None:
        """Let go of positions [start, end). Cells nobody holds become free."""

    def save(self, seq_id: SeqId, start: int, end: int) -> bytes:
        """A copy of the cells of `seq_id` at positions [start, end), exact to the bit."""

    def load(self, blob: bytes, seq_id: SeqId, start: int, end: int) -> bool:
        """Give `seq_id` new cells at [start, end) out of a blob saved over at least that range.

        `seq_id` must end at `start`. False, and nothing changed, if the blob's cells do not fit
        into the pool or the blob is not one of this context's.
        """


class Backend(KVMemory, Protocol):
    """One open model context with a pool of `num_cells` cells and ids 0..`num_seqs`-1."""

    @property
    def num_cells(self) -> int: ...

    @property
    def num_seqs(self) -> int: ...

    @property
    def state_key(self) -> str:
        """Names all that saved cells depend on beside their tokens: the library's version, the
        model, the KV types. Fit for a file name.
        """

    def decode(self, plan: BatchPlan) -> DecodeStatus:
        """Compute a plan's tokens into cells; logits where a slice wants them."""

    def attach(
        self,
        seq_id: SeqId,
        sampling: SamplingParams,
        prompt: Sequence[Token],
        generated: Sequence[Token] = (),
    ) -> None:
        """Give `seq_id` a sampler that has seen `prompt` and then chosen `generated`.

        Its grammar must be `compiled`, and what that returned be held.
        """

    def detach(self, seq_id: SeqId) -> None:
        """Drop the sampler of `seq_id`."""

    def sample(self, seq_id: SeqId) -> Token:
        """Choose the next token from the last decode's logits for `seq_id`, once.

        Raises `RequestError` if the request's grammar cannot be followed any further.
        """

    def is_complete(self, seq_id: SeqId) -> bool:
        """Whether the grammar of `seq_id` leaves nothing to come after the token sampled last."""

    def logprob(self, seq_id: SeqId) -> TokenLogprob | None:
        """Of the token that was sampled last, if its request asked for it."""

    def compile(self, grammar: Grammar) -> None:
        """Get a grammar ready for `attach`. May take seconds, and may run on another thread.

        Raises `InvalidValue` for one that cannot be followed, and `Unavailable` where none can.
        """

    def compiled(self, grammar: Grammar) -> object | None:
        """What keeps a grammar ready as long as it is held; None if it is not ready."""

    def embed(self, tokens: Sequence[Token]) -> tuple[float, ...]:
        """A vector of length 1 for a text.

        Raises `InvalidValue` for an empty or too long one, and `Unavailable` where there is no
        context for it.
        """

    def resize(self, choice: Choice) -> Allocation:
        """Change to a pool of another size, which is empty; nothing has cells or a sampler.

        The old one is given back first. Raises `ModelError` if the new one cannot be had; then
        nothing may be called any more.
        """

    def close(self) -> None:
        """Give all memory back. Nothing may be called afterwards."""


class Vocabulary(Protocol):
    @property
    def num_tokens(self) -> int:
        """Token ids are 0 to `num_tokens` - 1."""

    @property
    def end_tokens(self) -> frozenset[Token]:
        """Tokens that end an answer."""

    def tokenize(self, segments: Sequence[Segment]) -> list[Token]:
        """Tokens of a prompt, with the model's own start token where it wants one, once."""

    def piece(self, token: Token) -> bytes:
        """The bytes a token stands for; empty for control tokens. May end inside a character."""

    def spelling(self, token: Token) -> bytes:
        """As `piece`, but control tokens are spelled out."""


class ModelLibrary(Protocol):
    """Opens models. Every method raises `ModelError` for a file that cannot be used."""

    def devices(self) -> tuple[DeviceInfo, ...]: ...

    def describe(self, path: str) -> ModelFacts:
        """Read a model's metadata without taking the memory of its weights."""

    def dry_run(self, opening: Opening) -> Allocation:
        """What `open` would allocate, from the library's own allocator, taking nothing.

        Raises `ModelError` with the library's words when it would refuse.
        """

    def open(
        self, opening: Opening, on_progress: Callable[[float], None]
    ) -> tuple[Backend, Vocabulary, Allocation]:
        """Load a model and its context. `on_progress` hears fractions from 0 to 1."""


class Comparison(Protocol):
    """One model with several contexts: a reference, and candidates that have numbers from 0 on."""

    def compare(
        self, passage: Passage, candidates: Sequence[int], on_progress: Callable[[float], None]
    ) -> tuple[tuple[Likeness, ...], ...]:
        """Of each candidate asked for, one `Likeness` a text; the reference computes once for all.

        `on_progress` hears fractions up to 1, every few hundred tokens of a context at least.
        Raises `ModelError` if the library gives up.
        """

    def close(self) -> None:
        """Give all memory back. Nothing may be called afterwards."""


class ComparisonLibrary(Protocol):
    def open_comparison(
        self,
        reference: Opening,
        candidates: Sequence[Opening],
        on_progress: Callable[[float], None],
    ) -> tuple[Comparison, Vocabulary]:
        """Load a model once, with all contexts. Raises `ModelError`."""
