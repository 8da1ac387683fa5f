"""Text files that go with a message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from edgekv.core.request import Segment
from edgekv.errors import InvalidValue
from edgekv.service.host import ModelHost

MOST_BYTES = 1024 * 1024
"""As much text as a quarter of a million tokens; more would hold up other answers."""


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    text: str

    @property
    def num_lines(self) -> int:
        return len(self.text.splitlines())


def read_attachment(name: str) -> Attachment:
    """The text of a file. Raises `InvalidValue` for one that is absent, too large or no text."""
    path = Path(name).expanduser()
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidValue("file", f"'{name}' cannot be read: {error.strerror}.") from None
    if len(content) > MOST_BYTES:
        raise InvalidValue(
            "file", f"'{name}' has more than {MOST_BYTES // 1024**2} MiB; attach a part of it."
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidValue("file", f"'{name}' is not a text in UTF-8; convert it first.") from None
    if "\0" in text:
        raise InvalidValue("file", f"'{name}' is a binary file; only texts can be attached.")
    if not text.strip():
        raise InvalidValue("file", f"'{name}' is empty.")
    return Attachment(path.name, text)


def with_attachments(attachments: Sequence[Attachment], text: str) -> str:
    """One message: each file under its name in a fence that nothing in it ends, then `text`."""
    return "\n\n".join([*map(_fenced, attachments), text])


async def check_room(host: ModelHost, num_held: int, attachment: Attachment) -> None:
    """Raises `InvalidValue` if a conversation of `num_held` tokens has no room for the file."""
    if host.plan is not None:
        tokens = await host.tokenize((Segment(attachment.text, False),))
        num_left = max(0, host.plan.choice.context_length - num_held)
        if len(tokens) >= num_left:
            raise InvalidValue(
                "file",
                f"{attachment.name} has {len(tokens):,} tokens and {num_left:,} are left of the "
                "context length; attach a part of it, or make room with /ctx.",
            )


def path_in(pasted: str) -> str | None:
    """The file that a pasted text names, as terminals paste what is dropped on them.

    None if it is anything but the whole path of a file that is there.
    """
    text = pasted.strip()
    if "\n" in text or not text:
        return None
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    elif text[0] == text[-1] and text[0] in "'\"" and len(text) > 2:
        text = text[1:-1]
    else:
        text = re.sub(r"\\(.)", r"\1", text)
    try:
        path = Path(text)
        return text if path.is_absolute() and path.is_file() else None
    except (OSError, ValueError):  # too long, or with characters no path may have
        return None


def _fenced(attachment: Attachment) -> str:
    longest = max((len(run) for run in re.findall("`+", attachment.text)), default=0)
    fence = "`" * max(3, longest + 1)
    end = "" if attachment.text.endswith("\n") else "\n"
    return f"{attachment.name}:\n{fence}\n{attachment.text}{end}{fence}"
