"""A conversation with a server that is not EdgeKV, and what it is told about that."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx2
import pytest

from edgekv.core.events import FinishReason
from edgekv.core.request import SamplingParams
from edgekv.errors import Unavailable
from edgekv.service.conversation import AnswerPart, Conversation, Habits
from edgekv.service.foreign_server import ForeignModel
from edgekv.service.messages import Message, ToolCall
from edgekv.service.states import State

pytestmark = pytest.mark.anyio

URL = "http://127.0.0.1:9/v1"
USAGE = {
    "prompt_tokens": 40,
    "completion_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 31},
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def chunk(delta: dict[str, str], reason: str | None = None) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}], "usage": None}


ANSWER = (
    chunk({"role": "assistant", "content": ""}),
    chunk({"reasoning_content": "Hm."}),
    chunk({"content": "Hello"}),
    chunk({"content": " there."}),
    chunk({}, "length"),
    {"choices": [], "usage": USAGE, "timings": {"anything": 1}},
)


class Server:
    """Answers as told; `asked` are the bodies it got."""

    def __init__(self, *events: object) -> None:
        self.events, self.asked = events or ANSWER, list[dict[str, object]]()
        self.models: object = {"data": [{"id": "their-model"}]}
        self.status = 200

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if self.status != 200:
            return httpx2.Response(self.status, json={"error": {"message": "no such key"}})
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json=self.models)
        self.asked.append(json.loads(request.content))
        lines = [f"data: {json.dumps(event)}\n\n" for event in self.events]
        return httpx2.Response(200, text=": hello\n\n" + "".join(lines) + "data: [DONE]\n\n")


def model(server: Callable[[httpx2.Request], httpx2.Response]) -> ForeignModel:
    ticks = iter(range(1000))
    habits = Habits("Be brief.", SamplingParams(temperature=0.5, top_k=7))
    transport = httpx2.MockTransport(server)
    return ForeignModel(URL, None, habits, lambda: float(next(ticks)), transport)


async def all_parts(model: ForeignModel, *messages: Message) -> list[AnswerPart]:
    asked = Conversation(messages or (Message("user", "Hi"),))
    return [part async for part in model.answer(asked, max_tokens=9)]


async def test_an_answer_comes_with_its_thoughts_and_the_server_s_own_counts() -> None:
    server = Server()
    talk = model(server)
    await talk.start()
    assert talk.worker.state is State.READY
    parts = await all_parts(talk)
    assert "".join(part.text for part in parts) == "Hello there."
    assert "".join(part.thought for part in parts) == "Hm."
    stats = parts[-1].stats
    assert (stats.num_prompt, stats.num_reused, stats.num_generated) == (40, 31, 3)
    assert stats.reason is FinishReason.LENGTH
    assert stats.first_token_seconds == 2.0
    [asked] = server.asked
    assert asked["model"] == "their-model"
    assert asked["max_tokens"] == 9
    assert (asked["temperature"], asked["top_k"]) == (0.5, 7)
    assert "top_p" not in asked
    assert asked["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]
    await talk.close()


async def test_calls_of_tools_in_the_conversation_are_told_as_openai_does() -> None:
    server = Server()
    talk = model(server)
    await talk.start()
    call = ToolCall("call-1", "now", {"zone": "UTC"})
    await all_parts(
        talk,
        Message("system", "Be brief."),
        Message("assistant", "", tool_calls=(call,)),
        Message("tool", "12:00", tool_call_id="call-1"),
    )
    arguments = '{"zone": "UTC"}'
    function = {"name": "now", "arguments": arguments}
    calls = [{"id": "call-1", "type": "function", "function": function}]
    assert server.asked[0]["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "assistant", "content": "", "tool_calls": calls},
        {"role": "tool", "content": "12:00", "tool_call_id": "call-1"},
    ]


async def test_what_the_server_does_not_tell_is_said_and_not_made_up() -> None:
    talk = model(Server())
    await talk.start()
    assert (talk.worker.plan, talk.worker.facts, talk.worker.desk) == (None, None, None)
    for question in (talk.worker.report(), talk.num_tokens(Conversation()), talk.last_start()):
        with pytest.raises(Unavailable, match="is not EdgeKV, so it does not tell"):
            await question


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"status": 401}, "refuses with status 401: no such key"),
        ({"models": {"data": []}}, "has no model loaded; load one there first"),
        ({"models": "what"}, "names no model"),
        ({"events": ({"error": {"message": "out of memory"}},)}, "ends the answer"),
        ({"events": ("nonsense",)}, "does not speak OpenAI's way"),
    ],
    ids=ascii,
)
async def test_every_failure_is_one_sentence_with_the_address(
    change: dict[str, object], sentence: str
) -> None:
    server = Server()
    vars(server).update(change)
    talk = model(server)

    async def ask() -> None:
        await talk.start()
        await all_parts(talk)

    with pytest.raises(Unavailable, match=sentence) as failed:
        await ask()
    assert URL in str(failed.value)


async def test_a_server_that_is_not_there_is_said() -> None:
    def refuses(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with pytest.raises(Unavailable, match=r"does not answer \(refused\)"):
        await model(refuses).start()
