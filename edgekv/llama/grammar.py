"""Grammars, compiled by llguidance: which tokens may come next.

llama.cpp's own grammars never see a user's schema: some make it crash, hang or answer wrongly.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from edgekv.budget.ledger import GRAMMAR_CACHE_BYTES
from edgekv.core.request import Grammar, Token
from edgekv.errors import InvalidValue, RequestError, Unavailable
from edgekv.llama import grammar_trial
from edgekv.llama.grammar_trial import TooMuch, Trial
from edgekv.llama.library import lib
from edgekv.llama.vocabulary import LlamaVocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

Mask: TypeAlias = NDArray[np.bool_]

TEXT_LIMIT_BYTES = 256 * 1024
NUM_REFUSALS = 64
"""So many refused grammars are remembered."""
MAX_LEXER_STATES = 30_000
"""1 to 2 KB each, built as answers need them."""

PARAM = "response_format"
_NOUNS = {"json_schema": "schema", "json_object": "schema", "regex": "expression"}
_ANY_OBJECT = '{"type": "object"}'
_JSON_OPTIONS = {
    # With free whitespace small models end in endless newlines.
    "whitespace_flexible": False,
    # A schema may not soften these from its own "x-guidance".
    "whitespace_pattern": None,
    "item_separator": ",",
    "key_separator": ":",
    "lenient": False,
    "coerce_one_of": False,
}


class Constraint:
    """Holds one answer to a grammar, token by token."""

    def __init__(self, matcher: LLMatcher, num_vocab: int, noun: str) -> None:
        self._matcher, self._num_vocab, self._noun = matcher, num_vocab, noun

    def allowed(self) -> Mask:
        """Which tokens may come next, the end of the answer among them.

        Raises `InvalidValue` if the grammar became too large to follow.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        if self._matcher.is_error():
            raise _refusal(self._noun, self._matcher.get_error())
        # The bool view is what makes numpy's searches quick.
        return np.unpackbits(bits, bitorder="little")[: self._num_vocab].view(np.bool_)

    @property
    def is_complete(self) -> bool:
        """Whether nothing but the end may come."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def accept(self, token: Token) -> None:
        """`token` was chosen. A wrong one is found by the next `allowed`."""
        self._matcher.consume_token(token)


class CompiledGrammar:
    """`num_bytes` are what it takes."""

    def __init__(self, matcher: LLMatcher, num_bytes: int) -> None:
        self.matcher, self.num_bytes = matcher, num_bytes


class GrammarCompiler:
    """Compiles grammars for one vocabulary. Keeps the last ones, and those that somebody holds.

    `compile` may run on another thread.
    """

    def __init__(self, vocabulary: LlamaVocabulary, trial_command: Sequence[str]) -> None:
        self._vocabulary, self._trial_command = vocabulary, trial_command
        self._tokenizer: LLTokenizer | None = None
        self._lock = Lock()
        self._last: dict[Grammar, CompiledGrammar] = {}
        """The one used last is at the end."""
        self._held: WeakValueDictionary[Grammar, CompiledGrammar] = WeakValueDictionary()
        """Those in `_last`, and those that only others hold."""
        self._refused: dict[Grammar, RequestError] = {}

    def compiled(self, grammar: Grammar) -> CompiledGrammar | None:
        with self._lock:
            found = self._held.get(grammar)
            if grammar in self._last:
                self._last[grammar] = self._last.pop(grammar)
        return found

    def compile(self, grammar: Grammar) -> None:
        """Have a grammar ready. Raises `InvalidValue` or `Unavailable`."""
        if self.compiled(grammar) is not None:
            return
        if grammar in self._refused:
            raise self._refused[grammar]
        try:
            compiled = self._compiled(grammar)
        except RequestError as error:
            self._refused[grammar] = error
            if len(self._refused) > NUM_REFUSALS:
                del self._refused[next(iter(self._refused))]
            raise
        with self._lock:
            self._last[grammar] = self._held[grammar] = compiled
            total = sum(one.num_bytes for one in self._last.values())
            while total > GRAMMAR_CACHE_BYTES and len(self._last) > 1:
                total -= self._last.pop(next(iter(self._last))).num_bytes

    def start(self, grammar: Grammar, generated: Sequence[Token]) -> Constraint:
        """A constraint that has seen `generated`, of a grammar that is held."""
        compiled = self.compiled(grammar)
        assert compiled is not None, "whoever submits a request holds its grammar"
        matcher = compiled.matcher.deep_copy()
        matcher.consume_tokens(list(generated))
        return Constraint(matcher, self._vocabulary.num_tokens, _noun(grammar))

    def _compiled(self, grammar: Grammar) -> CompiledGrammar:
        try:
            from llguidance import LLMatcher, LLParserLimits
        except ImportError:
            raise Unavailable(
                "Answers cannot be held to a schema on this machine, because llguidance has no "
                "build for it; ask for the format in the prompt."
            ) from None
        noun = _noun(grammar)
        if len(grammar.text) > TEXT_LIMIT_BYTES:
            raise InvalidValue(
                PARAM, f"The {noun} is longer than {TEXT_LIMIT_BYTES:,} characters; shorten it."
            )
        source = _source(grammar)
        num_bytes = self._tried(grammar, source)
        limits = LLParserLimits(max_lexer_states=MAX_LEXER_STATES, verbose_errors=False)
        matcher = LLMatcher(self._tokens(), source, log_level=0, limits=limits)
        if not matcher.is_error():
            matcher.compute_bitmask()
        if matcher.is_error():
            raise _refusal(noun, matcher.get_error())
        return CompiledGrammar(matcher, num_bytes)

    def _tried(self, grammar: Grammar, source: str) -> int:
        """Bytes that a grammar takes. Raises `InvalidValue` if it is wrong or takes too much."""
        if grammar.kind == "json_object":
            return 0
        trial = Trial(source, special=(), num_tokens=0)
        if grammar.kind == "lark":  # the only kind that can name tokens
            vocabulary = self._vocabulary
            trial = Trial(source, vocabulary.mark_texts(), vocabulary.num_tokens)
        noun = _noun(grammar)
        try:
            outcome = grammar_trial.run(self._trial_command, trial)
        except TooMuch:
            raise InvalidValue(
                PARAM,
                f"The {noun} takes more than {grammar_trial.SECONDS} seconds or "
                f"{grammar_trial.MEMORY_LIMIT_BYTES:,} bytes to prepare; simplify it.",
            ) from None
        if outcome.error:
            raise _refusal(noun, outcome.error)
        return outcome.num_bytes

    def _tokens(self) -> LLTokenizer:
        """Built at the first grammar: half a second for the largest vocabularies."""
        if self._tokenizer is None:
            from llguidance import LLTokenizer

            vocabulary = self._vocabulary
            self._tokenizer = LLTokenizer.from_llamacpp(  # type: ignore[attr-defined]
                tokens=vocabulary.grammar_pieces(),
                vocab_ptr=vocabulary.handle,
                tokenize_fptr=ctypes.cast(lib.llama_tokenize, ctypes.c_void_p).value,
                eos_token=sorted(vocabulary.end_tokens),
                # Each slice makes masks a little faster and takes up to 100 MB.
                slices=[],
            )
        return self._tokenizer


def _source(grammar: Grammar) -> str:
    """A grammar as llguidance takes it. Raises `InvalidValue`."""
    from llguidance import LLMatcher

    if grammar.kind == "regex":
        return LLMatcher.grammar_from_regex(grammar.text)
    if grammar.kind == "lark":
        return LLMatcher.grammar_from_lark(grammar.text)
    text = grammar.text if grammar.kind == "json_schema" else _ANY_OBJECT
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValue(PARAM, "The schema is not valid JSON; send it as an object.") from None
    if schema is True:
        text = "{}"
    elif not isinstance(schema, dict):
        raise InvalidValue(PARAM, "The schema is not a JSON object; send it as one.")
    try:
        return LLMatcher.grammar_from_json_schema(text, overrides=_JSON_OPTIONS)  # type: ignore[arg-type]
    except ValueError as error:
        raise _refusal("schema", str(error)) from None


def _noun(grammar: Grammar) -> str:
    return _NOUNS.get(grammar.kind, "grammar")


def _refusal(noun: str, words: str) -> InvalidValue:
    """llguidance's reason as one sentence; its first line, unless a later one is marked as it."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    marked = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    reason = [*marked, *lines, "no reason given"][0].partition("; consider")[0].rstrip(".")
    if reason.startswith("NoExtension"):
        reason = "no text satisfies it"
    if reason.startswith("oneOf"):
        reason = "oneOf is not supported, anyOf is"
    return InvalidValue(PARAM, f"The {noun} cannot be followed: {reason[:200]}; change it.")
