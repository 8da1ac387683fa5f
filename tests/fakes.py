"""A library that keeps llama.cpp's rules and punishes broken bookkeeping.

The next token of `CellBackend` depends on every token the sequence can see, so a wrong share,
a forgotten cut or a stale position changes the output instead of hiding. What llama.cpp would
abort on, or quietly get wrong, is an `AssertionError` here.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias
from zlib import crc32

from edgekv.core.batch import BatchPlan, BatchSlice, DecodeStatus
from edgekv.core.plan import Allocation, BufferSize, DeviceInfo, ModelFacts, Opening
from edgekv.core.request import SamplingParams, Segment, SeqId, Token
from edgekv.errors import ModelError

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


@dataclass(eq=False)
class Cell:
    token: Token
    holders: set[SeqId]


@dataclass(eq=False)
class Sampler:
    sampling: SamplingParams
    num_prompt: int
    seen: list[Token]


class CellBackend:
    """Implements `core.ports.Backend`. `outcomes` makes the decode of that number fail."""

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
        self.is_closed = False
        self._choose = choose or hashed([Token(t) for t in range(97)])
        self._batch_tokens = batch_tokens
        self._views: dict[SeqId, dict[int, Cell]] = {SeqId(i): {} for i in range(num_seqs)}
        self._samplers: dict[SeqId, Sampler] = {}
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

    def attach(self, seq_id: SeqId, sampling: SamplingParams, tokens: Sequence[Token]) -> None:
        assert seq_id in self._views
        assert seq_id not in self._samplers, "one sampler a sequence"
        self._samplers[seq_id] = Sampler(sampling, len(tokens), list(tokens))

    def detach(self, seq_id: SeqId) -> None:
        del self._samplers[seq_id]

    def sample(self, seq_id: SeqId) -> Token:
        assert seq_id in self._with_logits, "no logits were asked for"
        sampler = self._samplers[seq_id]
        seen = self.visible(seq_id)
        assert sampler.seen == seen, "the sampler must have seen what the sequence sees"
        token = self._choose(seen, sampler.num_prompt, sampler.sampling)
        sampler.seen.append(token)
        return token

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


BOS, IM_START, IM_END = Token(256), Token(257), Token(258)
CONTROL = {"<|bos|>": BOS, "<|im_start|>": IM_START, "<|im_end|>": IM_END}
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


class FakeVocabulary:
    """A token is a byte of the text, or one of three control tokens."""

    num_tokens = 256 + len(CONTROL)
    end_tokens = frozenset({IM_END})

    def tokenize(self, segments: Sequence[Segment]) -> list[Token]:
        tokens = [token for segment in segments for token in self._tokens(segment)]
        return tokens if tokens[:1] == [BOS] else [BOS, *tokens]

    def piece(self, token: Token) -> bytes:
        return bytes([token]) if token < 256 else b""

    def _tokens(self, segment: Segment) -> Iterable[Token]:
        if not segment.control:
            return map(Token, segment.text.encode())
        parts = re.split(f"({'|'.join(map(re.escape, CONTROL))})", segment.text)
        return [t for part in parts for t in ([CONTROL[part]] if part in CONTROL else _bytes(part))]


def _bytes(text: str) -> list[Token]:
    return [Token(byte) for byte in text.encode()]


@dataclass(eq=False)
class FakeLibrary:
    """Implements `core.ports.ModelLibrary`. Every path is a model but those in `missing`.

    `answer` is what every request is answered with; without it letters that depend on
    everything the sequence sees. `backends` are the contexts opened so far.
    """

    answer: str | None = None
    missing: set[str] = field(default_factory=set)
    backends: list[CellBackend] = field(default_factory=list)

    weight_bytes = 100_000_000
    bytes_per_cell = 1024

    def devices(self) -> tuple[DeviceInfo, ...]:
        total_bytes = 8 * 1024**3
        return (DeviceInfo("CPU", "cpu", "Fake CPU", total_bytes, free_bytes=total_bytes // 2),)

    def describe(self, path: str) -> ModelFacts:
        self._check(path)
        return ModelFacts(
            path=path,
            name="Fake",
            architecture="fake",
            file_bytes=self.weight_bytes + 4096,
            context_train=8192,
            num_layers=4,
            num_vocab=FakeVocabulary.num_tokens,
            metadata={"general.architecture": "fake", "general.name": "Fake"},
            weight_bytes=self.weight_bytes,
            window=0,
            is_recurrent=False,
            is_hybrid=False,
            has_decoder=True,
            chat_template=CHAT_TEMPLATE,
            bos_text="<|bos|>",
            eos_text="<|im_end|>",
            adds_bos=True,
            control_texts=tuple(CONTROL),
        )

    def dry_run(self, opening: Opening) -> Allocation:
        self._check(opening.path)
        choice = opening.choice
        return Allocation(
            (
                BufferSize("CPU", "weights", self.weight_bytes, mapped=opening.use_mmap),
                BufferSize("CPU", "kv", choice.cells * self.bytes_per_cell),
                BufferSize("CPU", "compute", choice.ubatch * 4096),
                BufferSize("CPU", "output", choice.num_seqs * FakeVocabulary.num_tokens * 4),
            )
        )

    def open(
        self, opening: Opening, on_progress: Callable[[float], None]
    ) -> tuple[CellBackend, FakeVocabulary, Allocation]:
        allocation = self.dry_run(opening)
        for fraction in (0.0, 0.5, 1.0):
            on_progress(fraction)
        choice = opening.choice
        backend = CellBackend(
            choice.cells, choice.num_seqs, choose=self._chooser(), batch_tokens=choice.batch
        )
        self.backends.append(backend)
        return backend, FakeVocabulary(), allocation

    def _chooser(self) -> Chooser:
        if self.answer is not None:
            return scripted([*_bytes(self.answer), IM_END])
        return hashed([*_bytes("abcdefghijklmnopqrstuvwxyz  .,"), IM_END])

    def _check(self, path: str) -> None:
        if path in self.missing:
            raise ModelError(f"There is no model at {path}; check the path.")
