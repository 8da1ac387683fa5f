"""Text ↔ tokens of one model."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence

from llama_cpp import llama_cpp as api

from edgekv.core.request import Segment, Token
from edgekv.llama.library import lib

# What llama.cpp's tokenizer leaves alone in plain text. User-defined tokens are matched anyway.
_CONTROL_ATTRIBUTES = api.LLAMA_TOKEN_ATTR_CONTROL | api.LLAMA_TOKEN_ATTR_UNKNOWN


class LlamaVocabulary:
    """Implements `core.ports.Vocabulary`. Lives as long as its model."""

    def __init__(self, model: int) -> None:
        self.handle = api.llama_model_get_vocab(model)
        self.num_tokens: int = api.llama_vocab_n_tokens(self.handle)
        self.adds_bos: bool = api.llama_vocab_get_add_bos(self.handle)
        self._bos = Token(api.llama_vocab_bos(self.handle))
        self._pieces: dict[Token, bytes] = {}
        self.end_tokens = frozenset(self._tokens_where("llama_vocab_is_eog", 1))

    def tokenize(self, segments: Sequence[Segment]) -> list[Token]:
        tokens: list[Token] = []
        for text, control in _merged(segments):
            tokens += self._tokenize(text.encode("utf-8", "surrogatepass"), control)
        # Templates often write the start token themselves; two of them hurt the answer.
        if self.adds_bos and tokens[:1] != [self._bos]:
            tokens.insert(0, self._bos)
        return tokens

    def piece(self, token: Token) -> bytes:
        known = self._pieces.get(token)
        if known is None:
            known = self._pieces[token] = self._piece(token, special=False)
        return known

    def spelling(self, token: Token) -> bytes:
        """As `piece`, but control tokens are spelled out."""
        return self._piece(token, special=True)

    def special_text(self, token: Token) -> str:
        """The text of a token, control tokens spelled out; "" for an id that is not there."""
        if not 0 <= token < self.num_tokens:
            return ""
        return self.spelling(token).decode("utf-8", "replace")

    @property
    def bos_text(self) -> str:
        return self.special_text(self._bos)

    @property
    def eos_text(self) -> str:
        return self.special_text(Token(api.llama_vocab_eos(self.handle)))

    def control_texts(self) -> tuple[str, ...]:
        """Texts that become one control token when a prompt's own text holds them."""
        marked = self._tokens_where("llama_vocab_get_attr", _CONTROL_ATTRIBUTES)
        texts = (self.special_text(token) for token in marked)
        return tuple(text for text in texts if text.strip())

    def infill_marks(self) -> tuple[str, str, str] | None:
        """As `ModelFacts.infill_marks`."""
        questions = api.llama_vocab_fim_pre, api.llama_vocab_fim_suf, api.llama_vocab_fim_mid
        before, after, gap = (Token(ask(self.handle)) for ask in questions)
        if min(before, after, gap) < 0:
            return None
        return self.special_text(before), self.special_text(after), self.special_text(gap)

    def mark_texts(self) -> list[str]:
        """Texts of the tokens that a grammar takes for marks, not for text."""
        return [self.special_text(token) for token in self._marks()]

    def grammar_pieces(self) -> list[bytes]:
        """The bytes of every token, with 0xFF in front of marks, as llguidance wants them."""
        pieces = [self.spelling(Token(i)) for i in range(self.num_tokens)]
        for token in self._marks():
            pieces[token] = b"\xff" + pieces[token]
        return pieces

    def _marks(self) -> list[Token]:
        """Control tokens, and those like <tool_call> that plain text may hold too."""
        by_user = self._tokens_where("llama_vocab_get_attr", api.LLAMA_TOKEN_ATTR_USER_DEFINED)
        tags = [t for t in by_user if re.fullmatch(b"<.*>", self.spelling(t), re.DOTALL)]
        return self._tokens_where("llama_vocab_get_attr", _CONTROL_ATTRIBUTES) + tags

    def _tokens_where(self, question: str, mask: int) -> list[Token]:
        # Asked once for every token: a bare function without the bindings' wrapper
        # keeps this to 0.2 us a token.
        ask = lib[question]
        ask.argtypes, ask.restype = [ctypes.c_void_p, ctypes.c_int32], ctypes.c_uint8
        if question == "llama_vocab_get_attr":
            ask.restype = ctypes.c_int
        vocab = self.handle
        return [Token(i) for i in range(self.num_tokens) if ask(vocab, i) & mask]

    def _tokenize(self, text: bytes, control: bool) -> list[Token]:
        # As many as bytes nearly always do; but a space may be written as three, one token each.
        count, capacity = -1, len(text) + 8
        while count < 0:
            buffer = (api.llama_token * capacity)()
            count = api.llama_tokenize(
                self.handle, text, len(text), buffer, capacity, False, control
            )
            capacity = abs(count)
        return [Token(t) for t in buffer[:count]]

    def _piece(self, token: Token, *, special: bool) -> bytes:
        buffer = ctypes.create_string_buffer(64)
        length = api.llama_token_to_piece(self.handle, token, buffer, len(buffer), 0, special)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = api.llama_token_to_piece(self.handle, token, buffer, len(buffer), 0, special)
        return buffer.raw[:length]


def _merged(segments: Sequence[Segment]) -> list[tuple[str, bool]]:
    """Neighbours of one kind joined, so that borders inside running text leave no trace."""
    runs: list[tuple[str, bool]] = []
    for segment in segments:
        if runs and runs[-1][1] == segment.control:
            runs[-1] = (runs[-1][0] + segment.text, segment.control)
        elif segment.text:
            runs.append((segment.text, segment.control))
    return runs
