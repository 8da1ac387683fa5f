"""A library whose models need no file: a vocabulary of bytes over the strict context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from edgekv.core.plan import Allocation, BufferSize, DeviceInfo, ModelFacts, Opening
from edgekv.core.request import Segment, Token
from edgekv.errors import ModelError
from tests.cell_backend import CellBackend, Chooser, hashed, scripted

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

    def spelling(self, token: Token) -> bytes:
        return bytes([token]) if token < 256 else list(CONTROL)[token - 256].encode()

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
    chat_template: str | None = CHAT_TEMPLATE
    infill_marks: tuple[str, str, str] | None = None
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
            chat_template=self.chat_template,
            bos_text="<|bos|>",
            eos_text="<|im_end|>",
            adds_bos=True,
            control_texts=tuple(CONTROL),
            infill_marks=self.infill_marks,
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
