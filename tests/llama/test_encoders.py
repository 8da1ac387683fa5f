"""A model that only gives vectors of texts: it embeds, and says that it does not chat."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edgekv.budget.wish import Wish
from edgekv.core.frames import Submit
from edgekv.core.request import RequestId, Token, TokenPrompt
from edgekv.errors import InvalidValue
from edgekv.service.worker import Worker
from tests.tiny_encoder import WIDTH, write_encoder

pytestmark = pytest.mark.llama


def test_an_encoder_embeds_and_refuses_to_chat_without_harm(tmp_path: Path) -> None:
    async def run() -> None:
        worker = Worker(str(write_encoder(tmp_path / "encoder.gguf")), Wish(embeddings=True))
        await worker.start()
        prompt = (Token(5), Token(6))
        with pytest.raises(InvalidValue, match="only gives vectors"):
            await anext(worker.stream(Submit(RequestId("a"), TokenPrompt(prompt))))
        (vector,) = await worker.embed((prompt,))
        assert len(vector) == WIDTH
        assert worker.num_restarts == 0
        await worker.close()

    asyncio.run(run())
