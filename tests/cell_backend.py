"""A context that keeps llama.cpp's rules and punishes broken bookkeeping.

The next token of `CellBackend` depends on every token the sequence can see, so a wrong share,
a forgotten cut or a stale position changes the output instead of hiding. What llama.cpp would
abort on, or quietly get wrong, is an `AssertionError` here.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import cos, sin
from threading import Event
from typing import TypeAlias
from weakref import WeakValueDictionary
from zlib import crc32

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.events import TokenLogprob
from edgekv.core.plan import Allocation, BufferSize, Choice
from edgekv.core.request import Grammar, SamplingParams, SeqId, Token
from edgekv.errors import EdgeKVError, InvalidValue

Chooser: TypeAlias = Callable[[Sequence[Token], int, SamplingParams], Token]
"""The next token, from all tokens seen, how many of them are the prompt, and the sampling."""


def hashed(vocabulary: Sequence[Token]) -> Chooser:
    """Any token of `vocabulary`; with a seed also the seed and the position decide."""

    def choose(seen: Sequence[Token], num_prompt: int, sampling: SamplingParams) -> Token:
        keys = array("q", seen)
        if sampling.seed is not None:
            keys.extend((sampling.seed, len(seen)))
        return vocabulary[crc32(keys.tobytes()) % len(vocabulary)]

    return choose


def scripted(answer: Sequence[Token]) -> Chooser:
    """Every answer is the same; its last token comes again and again."""

    def choose(seen: Sequence[Token], num_prompt: int, sampling: SamplingParams) -> Token:
        return answer[min(len(seen) - num_prompt, len(answer) - 1)]

    return choose


BLOB_MARK = b"cells:"


@dataclass(eq=False)
class Cell:
    token: Token
    holders: set[SeqId]


@dataclass(eq=False)
class Sampler:
    sampling: SamplingParams
    num_prompt: int
    seen: list[Token]


class Compiled:
    """A grammar that is ready."""


class CellBackend:
    """Implements `core.ports.Backend`. `outcomes` makes the decode of that number fail,
    `refusals` the compiling of a grammar, and `loses_way_at` the sampling of a constrained answer
    of that length. One of the length `completes_at` may not go on.
    """

    def __init__(
        self,
        num_cells: int,
        num_seqs: int,
        *,
        choose: Chooser | None = None,
        batch_tokens: int | None = None,
    ) -> None:
        self.num_cells, self.num_seqs = num_cells, num_seqs
        self.num_decodes = self.tokens_decoded = 0
        self.outcomes: dict[int, DecodeStatus] = {}
        self.refusals: dict[Grammar, EdgeKVError] = {}
        self.loses_way_at: int | None = None
        self.completes_at: int | None = None
        self.may_compile = Event()
        self.may_compile.set()
        self.is_closed = False
        self.state_key = "strict-fake"
        self._choose = choose or hashed([Token(t) for t in range(97)])
        self._batch_tokens = batch_tokens
        self._views: dict[SeqId, dict[int, Cell]] = {SeqId(i): {} for i in range(num_seqs)}
        self._samplers: dict[SeqId, Sampler] = {}
        self._held_grammars: WeakValueDictionary[Grammar, Compiled] = WeakValueDictionary()
        self._last_grammar: Compiled | None = None
        self._with_logits: set[SeqId] = set()

    def visible(self, seq_id: SeqId) -> list[Token]:
        view = self._views[seq_id]
        assert sorted(view) == list(range(len(view))), "positions must be contiguous"
        return [view[position].token for position in range(len(view))]

    def cells(self) -> list[Cell]:
        """The cells in use."""
        return list({id(c): c for view in self._views.values() for c in view.values()}.values())

    def attached(self) -> list[SeqId]:
        return sorted(self._samplers)

    def share(self, source: SeqId, target: SeqId, start: int, end: int) -> None:
        assert source != target
        assert 0 <= start < end
        for position in range(start, end):
            assert position not in self._views[target], "a position would exist twice"
            cell = self._views[source][position]
            cell.holders.add(target)
            self._views[target][position] = cell

    def cut(self, seq_id: SeqId, start: int, end: int) -> None:
        assert 0 <= start < end
        view = self._views[seq_id]
        for position in [p for p in view if start <= p < end]:
            view.pop(position).holders.remove(seq_id)

    def decode(self, plan: BatchPlan) -> DecodeStatus:
        assert not self.is_closed
        self._check(plan)
        outcome = self.outcomes.get(self.num_decodes, DecodeStatus.DONE)
        self.num_decodes += 1
        self._with_logits.clear()
        if outcome is DecodeStatus.NO_SPACE or self._is_too_full_for(plan):
            return DecodeStatus.NO_SPACE
        if outcome is DecodeStatus.FAILED:
            self._write_part(plan)
            return DecodeStatus.FAILED
        for piece in plan.slices:
            self._write(piece, len(piece.tokens))
            if piece.wants_logits:
                self._with_logits.add(piece.seq_id)
        self.tokens_decoded += plan.num_tokens
        return DecodeStatus.DONE

    def attach(
        self,
        seq_id: SeqId,
        sampling: SamplingParams,
        prompt: Sequence[Token],
        generated: Sequence[Token] = (),
    ) -> None:
        assert seq_id in self._views
        assert seq_id not in self._samplers, "one sampler a sequence"
        grammar = sampling.grammar
        assert grammar is None or grammar in self._held_grammars, "compiled, and held since"
        self._samplers[seq_id] = Sampler(sampling, len(prompt), [*prompt, *generated])

    def detach(self, seq_id: SeqId) -> None:
        del self._samplers[seq_id]

    def sample(self, seq_id: SeqId) -> Token:
        assert seq_id in self._with_logits, "no logits were asked for"
        sampler = self._samplers[seq_id]
        seen = self.visible(seq_id)
        assert sampler.seen == seen, "the sampler must have seen what the sequence sees"
        is_constrained = sampler.sampling.grammar is not None
        if is_constrained and len(seen) - sampler.num_prompt == self.loses_way_at:
            raise InvalidValue("response_format", "The grammar lost its way.")
        token = self._choose(seen, sampler.num_prompt, sampler.sampling)
        sampler.seen.append(token)
        return token

    def is_complete(self, seq_id: SeqId) -> bool:
        sampler = self._samplers[seq_id]
        is_constrained = sampler.sampling.grammar is not None
        return is_constrained and len(sampler.seen) - sampler.num_prompt == self.completes_at

    def logprob(self, seq_id: SeqId) -> TokenLogprob | None:
        """The more tokens were seen, the less likely is the next."""
        sampler = self._samplers[seq_id]
        num_top = sampler.sampling.top_logprobs
        if num_top is None:
            return None
        token, logprob = sampler.seen[-1], -float(len(sampler.seen))
        top = tuple((Token(i), b"?", logprob - i) for i in range(num_top))
        return TokenLogprob(token, bytes([token % 256]), logprob, top)

    def compile(self, grammar: Grammar) -> None:
        """Keeps the last one; others live as long as somebody holds them."""
        self.may_compile.wait()
        if grammar in self.refusals:
            raise self.refusals[grammar]
        if grammar not in self._held_grammars:
            self._last_grammar = self._held_grammars[grammar] = Compiled()

    def compiled(self, grammar: Grammar) -> object | None:
        return self._held_grammars.get(grammar)

    def embed(self, tokens: Sequence[Token]) -> tuple[float, ...]:
        """Of length 1, and different for every text."""
        if not tokens:
            raise InvalidValue("input", "There is nothing to embed.")
        angle = float(crc32(array("q", tokens).tobytes()))
        return cos(angle), sin(angle)

    def save(self, seq_id: SeqId, start: int, end: int) -> bytes:
        assert 0 <= start < end <= len(self.visible(seq_id))
        return BLOB_MARK + array("q", [start, *self.visible(seq_id)[start:end]]).tobytes()

    def load(self, blob: bytes, seq_id: SeqId, start: int, end: int) -> bool:
        assert start == len(self.visible(seq_id)) < end, "no gap, no overlap"
        mark, body = blob[: len(BLOB_MARK)], blob[len(BLOB_MARK) :]
        if mark != BLOB_MARK or len(body) % 8:
            return False
        first, *saved = array("q", body)
        assert first <= start < end <= first + len(saved), "the blob covers at least the range"
        # All of a blob passes through the pool, whatever part of it is wanted.
        if len(self.cells()) + len(saved) > self.num_cells:
            return False
        wanted = tuple(map(Token, saved[start - first : end - first]))
        self._write(BatchSlice(seq_id, start, wanted, wants_logits=False), len(wanted))
        return True

    def resize(self, choice: Choice) -> Allocation:
        assert not self.cells(), "they would be lost"
        assert not self._samplers
        self.num_cells, self.num_seqs = choice.cells, choice.num_seqs
        self._batch_tokens = choice.batch
        self._views = {SeqId(i): {} for i in range(choice.num_seqs)}
        return Allocation((BufferSize("CPU", "kv", choice.cells * 64),))

    def close(self) -> None:
        assert not self.is_closed
        self.is_closed = True

    def _check(self, plan: BatchPlan) -> None:
        assert plan.slices, "an empty batch is refused by llama.cpp"
        assert self._batch_tokens is None or plan.num_tokens <= self._batch_tokens
        ids = [piece.seq_id for piece in plan.slices]
        assert len(set(ids)) == len(ids), "one slice a sequence"
        for piece in plan.slices:
            assert piece.tokens
            assert len(self.visible(piece.seq_id)) == piece.start, "no gap, no overlap"

    def _is_too_full_for(self, plan: BatchPlan) -> bool:
        return len(self.cells()) + plan.num_tokens > self.num_cells

    def _write(self, piece: BatchSlice, num_tokens: int) -> None:
        for i, token in enumerate(piece.tokens[:num_tokens]):
            self._views[piece.seq_id][piece.start + i] = Cell(token, {piece.seq_id})

    def _write_part(self, plan: BatchPlan) -> None:
        left = plan.num_tokens // 2
        for piece in plan.slices:
            self._write(piece, min(left, len(piece.tokens)))
            left -= min(left, len(piece.tokens))
