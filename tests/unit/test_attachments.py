"""Text files that go with a message."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgekv.errors import InvalidValue
from edgekv.service.attachments import (
    MOST_BYTES,
    Attachment,
    path_in,
    read_attachment,
    with_attachments,
)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a\0b", "binary"),
        (b"\x89PNG\xff", "not a text in UTF-8"),
        (b" \n", "empty"),
        (b"x" * (MOST_BYTES + 1), "more than 1 MiB"),
        (None, "No such file"),
    ],
    ids=["binary", "latin", "blank", "large", "absent"],
)
def test_what_is_no_text_of_bearable_size_is_refused_by_name(
    tmp_path: Path, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidValue, match=reason) as caught:
        read_attachment(str(path))
    assert str(path) in str(caught.value)


def test_a_message_holds_its_files_exactly_in_fences_that_nothing_in_them_ends(
    tmp_path: Path,
) -> None:
    path = tmp_path / "notes.md"
    path.write_text("\ufeff```py\ncode\n```\n\x1b[2J", encoding="utf-8")
    attachment = read_attachment(str(path))
    assert attachment == Attachment("notes.md", "```py\ncode\n```\n\x1b[2J")
    assert attachment.num_lines == 4
    assert with_attachments([attachment, Attachment("b", "x\n")], "Why?") == (
        "notes.md:\n````\n```py\ncode\n```\n\x1b[2J\n````\n\nb:\n```\nx\n```\n\nWhy?"
    )
    assert with_attachments([], "Why?") == "Why?"


def test_a_pasted_path_is_known_as_terminals_write_it(tmp_path: Path) -> None:
    path = tmp_path / "my notes.txt"
    path.write_text("x")
    shell = str(path).replace(" ", "\\ ")
    for pasted in (str(path), f"'{path}' ", f'"{path}"\n', shell, path.as_uri()):
        assert path_in(pasted) == str(path)
    for other in (
        "",
        "notes.txt",
        f"see {path}",
        f"{path}\n{path}",
        str(tmp_path),
        str(tmp_path / "absent"),
        "/" + "x" * 5000,
        "/a\0b",
        "'",
    ):
        assert path_in(other) is None
