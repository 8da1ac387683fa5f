"""What the screens say, compared with what is in the repository; `make screenshots` renews it."""

from __future__ import annotations

import pytest

from tests.tui.screenshots import IMAGES, PICTURE_SIZE, SCENES, SIZES, picture, text_file, words_of

pytestmark = pytest.mark.anyio

RENEW = "run 'make screenshots' and look at what changed"
IN_TEXTS = [name for name, scene in SCENES.items() if scene.in_texts]


@pytest.mark.parametrize("name", SCENES)
async def test_the_pictures_in_the_documents_show_the_app_as_it_is(name: str) -> None:
    image = (IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    assert words_of(image) == words_of(await picture(name, PICTURE_SIZE)), RENEW


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", IN_TEXTS)
async def test_every_screen_says_what_it_said(name: str, size: tuple[int, int]) -> None:
    said = text_file(name, size).read_text(encoding="utf-8")
    assert said == words_of(await picture(name, size)), RENEW
    assert max(map(len, said.splitlines())) <= size[0]


def test_a_picture_is_read_as_it_is_seen() -> None:
    said = words_of((IMAGES / "engine.svg").read_text(encoding="utf-8"))
    assert said.count("\n") >= PICTURE_SIZE[1] - 1
    assert "1 answering 312 after 1,210 tokens" in said
