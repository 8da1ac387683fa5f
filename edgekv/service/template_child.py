"""The child process that renders chat templates; `service/templates.py` is its parent.

A template is a program that came with a model file. The sandbox keeps it from Python's insides
but not from endless loops or gigantic strings, so it runs where it can be stopped.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from datetime import datetime
from functools import lru_cache
from io import StringIO
from typing import BinaryIO

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgekv.core.frames import LENGTH_BYTES, frame_length
from edgekv.service.template_frames import (
    MEMORY_LIMIT_BYTES,
    Call,
    Mistake,
    Rendered,
    Reply,
    decode_call,
    frame,
)

OUTPUT_LIMIT = 8 * 1024 * 1024
"""Characters. More than the largest context lengths hold."""
SECONDS_WITHOUT_PARENT = 10.0
"""The parent is stricter; this ends a loop that outlives it."""

_MISTAKES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a template can raise. Anything else ends the process, which the parent notices."""


def main() -> None:
    """Say that the process is up with one empty `Rendered`, then answer until stdin ends."""
    # Ctrl+C in the terminal is for the parent, which ends this process by its stdin.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _limit_memory()
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        answers = sys.stdout.buffer
        _send(answers, Rendered(""))
        while len(prefix := sys.stdin.buffer.read(LENGTH_BYTES)) == LENGTH_BYTES:
            call = decode_call(sys.stdin.buffer.read(frame_length(prefix)))
            faulthandler.dump_traceback_later(SECONDS_WITHOUT_PARENT, exit=True, file=nowhere)
            _send(answers, render(call))
            faulthandler.cancel_dump_traceback_later()


def render(call: Call) -> Reply:
    written = StringIO()
    try:
        for part in _compiled(call.template).generate(call.variables):
            written.write(part)
            if written.tell() > OUTPUT_LIMIT:
                return Mistake(f"it wrote more than {OUTPUT_LIMIT} characters")
        text = written.getvalue()
        text.encode()  # a lone surrogate could not travel; it is the template's mistake
        return Rendered(text)
    except _MISTAKES as mistake:
        return Mistake(_words(mistake))


def _words(mistake: Exception) -> str:
    if isinstance(mistake, jinja2.TemplateSyntaxError):
        return f"{mistake.message} in line {mistake.lineno} of the template"
    if isinstance(mistake, MemoryError):
        return f"it needs more than {MEMORY_LIMIT_BYTES} bytes of memory"
    return " ".join(str(mistake).split()).rstrip(".") or type(mistake).__name__


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks the answer for training; when rendering it only makes a scope."""

    tags = {"generation"}  # noqa: RUF012 - the base class declares it so

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body, lineno=line)


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # Jinja's own filter escapes <, > and & for HTML, which models have not seen in training.
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


@lru_cache(maxsize=1)
def _compiled(source: str) -> jinja2.Template:
    """The template as transformers would compile it: models' templates are written against that."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[_Generation, jinja2.ext.loopcontrols],
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(source)


def _limit_memory() -> None:
    """Elsewhere than on Linux the parent's watch over the resident size has to do."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))


def _send(answers: BinaryIO, reply: Reply) -> None:
    answers.write(frame(reply))
    answers.flush()
