"""/v1/chat/completions and /v1/completions."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgekv.core.frames import Submit
from edgekv.core.plan import ModelFacts
from edgekv.core.request import Priority, Prompt, TextPrompt
from edgekv.server.answers import AnswerWriter
from edgekv.server.bodies import body_of, check_copies
from edgekv.server.chat_answers import ChatShape
from edgekv.server.chat_request import ChatRequest
from edgekv.server.completion_request import CompletionRequest
from edgekv.server.errors import json_response
from edgekv.server.messages import to_messages
from edgekv.server.schema import Generation, parse
from edgekv.server.served import ServedModel, Timing, new_id
from edgekv.server.sse import EventStream, while_connected
from edgekv.server.text_answers import TextShape
from edgekv.service.infill import infill_prompt
from edgekv.service.pieces import PlainReader


class Completions:
    def __init__(self, model: ServedModel) -> None:
        self._model = model

    def routes(self) -> list[Route]:
        return [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/completions", self.complete, methods=["POST"]),
        ]

    async def chat(self, request: Request) -> Response:
        arrived = time.monotonic()
        body = await body_of(request)
        asked = parse(body, ChatRequest)
        check_copies(body, asked.num_choices)
        timing = Timing(arrived, asked.deadline_ms)
        facts = self._model.checked(asked.model)
        grammar = asked.grammar()
        talk = await self._model.talk(
            to_messages(asked.messages),
            asked.tool_use(),
            None if grammar is None else ("response_format", grammar),
            asked.reasoning_effort,
        )
        submit = _submit(asked, asked.token_limit, talk.prompt, facts)
        submit = replace(
            submit,
            sampling=talk.held(submit.sampling),
            shows_controls=talk.shows_controls,
        )
        turns = [
            self._model.turn(child, talk.reads(), timing, one_call=talk.one_call)
            for child in _children(submit, asked.num_choices)
        ]
        writer = AnswerWriter(
            ChatShape(), submit.request_id, self._model.name, turns, asked.num_choices
        )
        return await self._answer(request, asked, writer)

    async def complete(self, request: Request) -> Response:
        arrived = time.monotonic()
        body = await body_of(request)
        asked = parse(body, CompletionRequest)
        check_copies(body, asked.num_choices)
        timing = Timing(arrived, asked.deadline_ms)
        facts = self._model.checked(asked.model)
        prompts = asked.prompts()
        echoes = await self._echoes(prompts, asked.num_choices) if asked.echo else None
        if asked.suffix is not None:
            prompts = [infill_prompt(facts, prompt, asked.suffix) for prompt in prompts]
        submits = [
            child
            for prompt in prompts
            for child in _children(
                _submit(asked, asked.token_limit, prompt, facts), asked.num_choices
            )
        ]
        turns = [self._model.turn(submit, PlainReader(), timing) for submit in submits]
        writer = AnswerWriter(
            TextShape(echoes), submits[0].request_id, self._model.name, turns, asked.num_choices
        )
        return await self._answer(request, asked, writer)

    async def _answer(self, request: Request, asked: Generation, writer: AnswerWriter) -> Response:
        if asked.stream:
            chunks = writer.chunks(wants_usage=asked.wants_usage)
            return EventStream(chunks, on_error=self._model.count)
        return json_response(await while_connected(request.receive, writer.whole()))

    async def _echoes(self, prompts: Sequence[Prompt], num_choices: int) -> list[str]:
        texts = [await self._text(prompt) for prompt in prompts]
        return [text for text in texts for _ in range(num_choices)]

    async def _text(self, prompt: Prompt) -> str:
        if isinstance(prompt, TextPrompt):
            return "".join(segment.text for segment in prompt.segments)
        return await self._model.worker.detokenize(prompt.tokens)


def _submit(
    asked: Generation, token_limit: int | None, prompt: Prompt, facts: ModelFacts
) -> Submit:
    return Submit(
        request_id=new_id(),
        prompt=prompt,
        max_tokens=token_limit,
        sampling=asked.sampling(facts.num_vocab),
        stop=asked.stop_texts,
        ignore_end=bool(asked.ignore_eos),
        priority=asked.priority or Priority.NORMAL,
    )


def _children(submit: Submit, count: int) -> Sequence[Submit]:
    """One request for each answer. They share the prompt's cells, and no random draws."""
    seed = submit.sampling.seed
    return [submit] + [
        replace(
            submit,
            request_id=new_id(),
            sampling=replace(submit.sampling, seed=None if seed is None else _wrapped(seed + i)),
        )
        for i in range(1, count)
    ]


def _wrapped(seed: int) -> int:
    """A seed that is too large begins again at the smallest."""
    return (seed + 2**63) % 2**64 - 2**63
