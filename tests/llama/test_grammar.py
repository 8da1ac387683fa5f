"""Answers held to a grammar on real models: what comes out, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from msgspec.structs import replace

from edgekv.core.events import Delta, Failed, Finished, FinishReason, StreamEvent
from edgekv.core.frames import Submit
from edgekv.core.plan import Opening
from edgekv.core.request import Grammar, RequestId, SamplingParams, Segment, TextPrompt, Token
from edgekv.engine.session import Session
from edgekv.errors import InvalidValue, Unavailable
from edgekv.llama.backend import LlamaBackend, LlamaLibrary
from edgekv.service.own_command import own_command
from tests.llama.test_backend import BY_CHANCE, CHOICE, GREEDY

pytestmark = pytest.mark.llama

CASES = sorted((Path(__file__).parent.parent / "data" / "grammars").glob("*.json"))
REFUSED = {"not", "ref_missing", "ref_remote", "schema_is_string", "self_loop"}
BORDERLINE = "한국어한국어 é 漢字"
"""Nearly every character is made of several tokens."""


class Asked:
    """A session on a real model, asked one thing at a time."""

    def __init__(self, path: Path) -> None:
        opening = Opening(str(path), CHOICE)
        self.library = LlamaLibrary(own_command("grammar"))
        backend, _, _ = self.library.open(opening, lambda _: None)
        assert isinstance(backend, LlamaBackend)
        self.vocabulary = backend._model.vocabulary
        self.backend = backend
        self.session = Session(backend, self.vocabulary, opening)

    def events(
        self, grammar: Grammar, sampling: SamplingParams = GREEDY, **options: object
    ) -> list[StreamEvent]:
        """`options` are those of `Submit`."""
        self.backend.compile(grammar)
        submit = Submit(
            RequestId("a"),
            TextPrompt((Segment("Answer in JSON:", False),)),
            sampling=replace(sampling, grammar=grammar),
            **{"max_tokens": 40, **options},  # type: ignore[arg-type]
        )
        told = self.session.submit(submit)
        while not self.session.is_idle:
            told += self.session.step()
        return told

    def text(self, grammar: Grammar, sampling: SamplingParams = GREEDY, **options: object) -> str:
        return text_of(self.events(grammar, sampling, **options))


def text_of(events: list[StreamEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def tokens_of(events: list[StreamEvent]) -> tuple[Token, ...]:
    return tuple(token for event in events if isinstance(event, Delta) for token in event.tokens)


def end_of(events: list[StreamEvent]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished)
    return end


@pytest.fixture(scope="module", params=["starter_model", "gemma_model"])
def asked(request: pytest.FixtureRequest) -> Iterator[Asked]:
    opened = Asked(request.getfixturevalue(request.param))
    yield opened
    opened.session.close()


def schema(value: object) -> Grammar:
    return Grammar("json_schema", json.dumps(value))


def has(**properties: object) -> Grammar:
    """A schema of an object with exactly these properties."""
    shape = {"type": "object", "properties": properties, "required": list(properties)}
    return schema({**shape, "additionalProperties": False})


def stem(path: Path) -> str:
    return path.stem


def grammar_in(body: dict[str, dict[str, dict[str, object]]]) -> Grammar:
    """Of a chat request."""
    if "json_schema" not in body["response_format"]:
        return Grammar("json_object")
    return schema(body["response_format"]["json_schema"]["schema"])


@pytest.mark.parametrize("text", [BORDERLINE, "😀🏋️\u200d♀️", 'a "quoted"\nline\\', ""])
def test_a_constant_is_answered_to_the_letter(asked: Asked, text: str) -> None:
    events = asked.events(has(x={"const": text}))
    assert json.loads(text_of(events)) == {"x": text}
    assert end_of(events).reason is FinishReason.STOP


@pytest.mark.parametrize("seed", range(4))
def test_an_integer_stays_in_its_range(asked: Asked, seed: int) -> None:
    grammar = has(n={"type": "integer", "minimum": -5, "maximum": 7})
    answer = json.loads(asked.text(grammar, SamplingParams(temperature=1.5, seed=seed)))
    assert -5 <= answer["n"] <= 7


def test_a_seed_gives_the_same_constrained_answer_again(asked: Asked) -> None:
    grammar = Grammar("regex", "[a-z ]{12}")
    one, again, other = (asked.text(grammar, replace(BY_CHANCE, seed=s)) for s in (1, 1, 2))
    assert one == again != other


@pytest.mark.parametrize("case", [case for case in CASES if case.stem not in REFUSED], ids=stem)
def test_an_answer_validates(asked: Asked, case: Path) -> None:
    body = json.loads(case.read_text())
    events = asked.events(grammar_in(body), max_tokens=body["max_tokens"])
    shape = body["response_format"].get("json_schema", {"schema": {"type": "object"}})["schema"]
    if end_of(events).reason is FinishReason.STOP:
        jsonschema.validate(json.loads(text_of(events)), shape)


@pytest.mark.parametrize("case", [case for case in CASES if case.stem in REFUSED], ids=stem)
def test_a_schema_that_cannot_be_followed_is_refused(asked: Asked, case: Path) -> None:
    with pytest.raises(InvalidValue) as refusal:
        asked.backend.compile(grammar_in(json.loads(case.read_text())))
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("limit", range(5, 20))
def test_a_limit_inside_a_character_cuts_at_its_border(asked: Asked, limit: int) -> None:
    whole = f'{{"x":"{BORDERLINE}"}}'
    events = asked.events(has(x={"const": BORDERLINE}), max_tokens=limit)
    assert whole.startswith(text_of(events))
    end = end_of(events)
    assert end.num_generated <= limit
    if end.reason is FinishReason.STOP:
        assert text_of(events) == whole
    else:
        assert end.num_generated == limit


def test_an_answer_that_ends_with_the_last_token_allowed_is_complete(asked: Asked) -> None:
    digits = "20261130"
    grammar, length = Grammar("regex", digits), len(digits)
    whole = end_of(asked.events(grammar, max_tokens=length))
    assert whole.num_generated == length, "a digit is a token, so the model has no choice"
    assert whole.reason is FinishReason.STOP
    assert end_of(asked.events(grammar, max_tokens=length - 1)).reason is FinishReason.LENGTH


@pytest.mark.parametrize("num_told", [1, 4, 9])
def test_an_answer_rebuilt_inside_an_object_goes_on_as_it_was(asked: Asked, num_told: int) -> None:
    grammar = has(x={"const": BORDERLINE})
    whole = asked.events(grammar)
    told = tokens_of(whole)[:num_told]
    before = b"".join(map(asked.vocabulary.piece, told)).decode(errors="ignore")
    rest = asked.text(grammar, generated=told)
    assert before + rest == text_of(whole) == f'{{"x":"{BORDERLINE}"}}'


def test_a_rebuilt_answer_goes_on_with_its_random_stream(asked: Asked) -> None:
    grammar, sampling = Grammar("regex", "[a-z ]{40}"), replace(BY_CHANCE, seed=3)
    tokens = tokens_of(asked.events(grammar, sampling))
    rest = asked.events(grammar, sampling, generated=tokens[:4])
    assert tokens[:4] + tokens_of(rest) == tokens


def test_log_probabilities_are_those_of_the_model_before_the_grammar(asked: Asked) -> None:
    events = asked.events(has(x={"const": "é"}), replace(GREEDY, top_logprobs=20))
    told = [one for event in events if isinstance(event, Delta) for one in event.logprobs]
    assert b"".join(one.text for one in told).decode() == '{"x":"é"}'
    for one in told:
        assert one.logprob <= one.top[0][2] <= 0
        assert len({token for token, _, _ in one.top}) == 20
        shares = np.exp([logprob for _, _, logprob in one.top])
        assert list(shares) == sorted(shares, reverse=True)
        assert 0 < shares.sum() <= 1 + 1e-6


def test_all_log_probabilities_together_are_certain(asked: Asked) -> None:
    num_vocab = asked.vocabulary.num_tokens
    [told, *_] = [
        one
        for event in asked.events(Grammar("regex", "a"), replace(GREEDY, top_logprobs=num_vocab))
        if isinstance(event, Delta)
        for one in event.logprobs
    ]
    assert np.exp([logprob for _, _, logprob in told.top]).sum() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("grammar", "words"),
    [
        (schema({"type": "integer", "multipleOf": 1000003}), "takes more than 3 seconds"),
        (
            schema({"type": "object", "properties": {f"p{i}": {} for i in range(2000)}}),
            "max is 2000",
        ),
        (schema({"type": "array", "uniqueItems": True}), "uniqueItems"),
        (schema({"not": {}, "x-guidance": {"lenient": True}}), '"not"'),
        (schema({"oneOf": [{"type": "integer"}, {"type": "number"}]}), "anyOf is"),
        (schema({"enum": ["x" * 300_000]}), "longer than 262,144 characters"),
        (schema(["type"]), "not a JSON object"),
        (Grammar("json_schema", "{"), "not valid JSON"),
        (Grammar("json_schema", "[" * 5000), "not valid JSON"),
        (Grammar("json_schema", '{"const": "\\ud800"}'), "The schema cannot be followed"),
        (Grammar("regex", "(?=a)b"), "look-ahead"),
        (Grammar("regex", "[a"), "unclosed character class"),
        (Grammar("lark", "start: nothing"), "unknown name"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_cannot_be_followed_is_refused_in_one_sentence(
    asked: Asked, grammar: Grammar, words: str
) -> None:
    with pytest.raises(InvalidValue) as refusal:
        asked.backend.compile(grammar)
    message = str(refusal.value)
    assert words in message
    assert "\n" not in message
    assert refusal.value.param == "response_format"
    assert asked.backend.compiled(grammar) is None


def test_a_mark_of_the_model_can_be_asked_for_by_name(asked: Asked) -> None:
    name = asked.vocabulary.control_texts()[-1]
    grammar = Grammar("lark", f'start: "ab" {name} "c"')
    [*_, end] = asked.events(grammar)
    assert isinstance(end, Finished)
    assert asked.text(grammar) == "abc", "its own text stays out of the answer"


def test_without_llguidance_the_reason_is_said(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(Unavailable, match="llguidance"):
        asked.backend.compile(Grammar("regex", "never asked before"))


def test_a_bias_cannot_break_a_grammar(asked: Asked) -> None:
    asked.backend.compile(Grammar("regex", "[ab]"))
    against = tuple((token, -100.0) for token in map(Token, range(2000)))
    sampling = SamplingParams(grammar=Grammar("regex", "[ab]"), logit_bias=against)
    submit = Submit(RequestId("a"), TextPrompt((Segment("x", False),)), sampling=sampling)
    told = asked.session.submit(replace(submit, max_tokens=3))
    while not asked.session.is_idle:
        told += asked.session.step()
    assert text_of(told) in {"a", "b"}
    assert not any(isinstance(event, Failed) for event in told)
