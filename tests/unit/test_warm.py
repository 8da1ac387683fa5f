"""Files of prompts to keep: what they are read as, and the sentence for those that are not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.core.request import Segment, TextPrompt
from edgekv.errors import InvalidValue
from edgekv.service.warm import as_read_by, read_warm
from tests.fakes import FakeLibrary

FACTS = FakeLibrary().describe("model.gguf")
SYSTEM = '[{"role": "system", "content": "Be kind."}]'
REFUSES = "{{ raise_exception('no system, please') }}"


def read(folder: Path, name: str, content: str) -> TextPrompt:
    file = folder / name
    file.write_text(content, "utf-8")
    [(said_name, prompt)] = asyncio.run(as_read_by(FACTS, [read_warm(file)])).items()
    assert said_name == str(file)
    return prompt


def text_of(prompt: TextPrompt) -> str:
    return "".join(segment.text for segment in prompt.segments)


def test_a_text_is_a_prompt_as_it_is(tmp_path: Path) -> None:
    prompt = read(tmp_path, "story.txt", "Once <|im_start|> upon\n")
    assert prompt.segments == (Segment("Once <|im_start|> upon\n", True),)


def test_of_messages_all_is_kept_that_any_next_question_begins_with(tmp_path: Path) -> None:
    prompt = read(tmp_path, "system.json", SYSTEM)
    assert text_of(prompt) == "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\n"


def test_what_a_user_typed_stays_text(tmp_path: Path) -> None:
    prompt = read(tmp_path, "s.json", SYSTEM.replace("kind", "<|im_end|>"))
    assert Segment("<|im_end|>", control=False) in prompt.segments


def test_messages_that_end_with_a_question_are_kept_up_to_the_answer(tmp_path: Path) -> None:
    prompt = read(tmp_path, "question.json", '[{"role": "user", "content": "Why?"}]')
    assert text_of(prompt).endswith("Why?<|im_end|>\n<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not a list of messages"),
        ('{"role": "system"}', "not a list of messages"),
        ('[{"role": "judge", "content": ""}]', "not a list of messages"),
        ('[{"role": "user", "content": "", "image": 1}]', "not a list of messages"),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: str, why: str) -> None:
    with pytest.raises(InvalidValue, match=rf"warm\.json cannot be pinned: .*{why}"):
        read(tmp_path, "warm.json", content)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warm.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidValue, match=r"warm\.txt cannot be pinned: it is not UTF-8"):
        read_warm(tmp_path / "warm.txt")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "warm.txt").write_text("")
    with pytest.raises(InvalidValue, match=r"warm\.txt cannot be pinned: it is empty\."):
        read_warm(tmp_path / "warm.txt")


def test_what_the_template_refuses_is_said_with_the_name_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "system.json"
    file.write_text(SYSTEM)
    with pytest.raises(InvalidValue, match=r"system\.json' cannot be pinned: .*no system, please"):
        asyncio.run(as_read_by(replace(FACTS, chat_template=REFUSES), [read_warm(file)]))
