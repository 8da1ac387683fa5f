"""Which marks a model's answers have, told from its chat template.

A template writes earlier answers as the model writes new ones, so its marks are in there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgekv.service.call_readers import (
    braced,
    either,
    json_calls,
    named_json,
    offered,
    pythonic,
    tagged,
    unescaped,
)
from edgekv.service.harmony import MESSAGE, HarmonyReader
from edgekv.service.pieces import AnswerReader, PlainReader, ToolSchemas
from edgekv.service.regions import Marks, Region, RegionReader

_HERMES = Marks((Region("<tool_call>", "</tool_call>", json_calls),))

_QWEN_XML = tagged(
    r"\s*(?:<function=)?(?P<name>[^>]+)>",
    # A value may hold these tags as text, and its own end tag may be missing.
    r"\s*<parameter=(?P<key>[^>]+)>\n?(?P<value>.*?)"
    r"(?:\n?</parameter>(?=\s*(?:<parameter=|</function>\s*\Z|\Z))"
    r"|(?=\n<parameter=)|(?=\n</function>\s*\Z))",
    r"\s*(?:</function>)?\s*",
)
_GLM = tagged(
    r"\s*(?P<name>[^\n<]+)",
    r"\s*<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>",
    r"\s*",
)
_DSML = tagged(
    r'(?P<name>[^"]+)"\s*>',
    r'\s*<｜DSML｜ ?parameter name="(?P<key>[^"]+)"'
    r'(?: string="(?:(?P<text>true)|(?P<data>false))")?>'
    r"(?P<value>.*?)</｜DSML｜ ?parameter>",
    r"\s*",
)
_KIMI_3 = tagged(
    r'(?P<name>[^"]+)"[^>]*<\|sep\|>',
    r'<\|open\|>argument key="(?P<key>[^"]+)" type="(?:(?P<text>string)|(?P<data>[^"]*))"<\|sep\|>'
    r"(?P<value>.*?)<\|close\|>argument<\|sep\|>",
    r"\s*",
    unescaped,
)
_MISTRAL = named_json(
    r"(?P<name>[^\[\{\s]+)\s*(?:\[CALL_ID\][^\[]*)?(?:\[ARGS\])?(?P<arguments>\{.*)"
)
_DEEPSEEK = either(
    named_json(r"(?:\w+)<｜tool▁sep｜>(?P<name>[^\n]+)\n```json\n(?P<arguments>.*)\n```"),
    named_json(r"(?P<name>[^<\n]+)<｜tool▁sep｜>(?P<arguments>.*)"),
)
_KIMI = named_json(
    r"(?:functions\.)?(?P<name>[^\s:]+)(?::\d+)?\s*<\|tool_call_argument_begin\|>(?P<arguments>.*)"
)

CALLS: tuple[tuple[tuple[str, ...], Marks], ...] = (
    (
        ("｜DSML｜",),
        Marks(
            tuple(
                Region(f'<｜DSML｜{gap}invoke name="', f"</｜DSML｜{gap}invoke>", _DSML)
                for gap in ("", " ")
            ),
            frames=tuple(
                f"<{slash}｜DSML｜{name}>"
                for slash in ("", "/")
                for name in ("function_calls", "tool_calls", " calls")
            ),
        ),
    ),
    (
        ("<｜tool▁call▁begin｜>",),
        Marks(
            (Region("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", _DEEPSEEK),),
            frames=("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
        ),
    ),
    (
        ("<|tool_call_begin|>",),
        Marks(
            (Region("<|tool_call_begin|>", "<|tool_call_end|>", _KIMI),),
            frames=("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
            keeps_space=True,
        ),
    ),
    (
        ("<|open|>", "<|sep|>"),  # Kimi K3
        Marks(
            (Region('<|open|>call tool="', "<|close|>call<|sep|>", _KIMI_3),),
            frames=tuple(
                f"<|{side}|>{name}<|sep|>"
                for side in ("open", "close")
                for name in ("response", "tools", "message")
            ),
            keeps_space=True,
        ),
    ),
    (("<arg_key>",), Marks((Region("<tool_call>", "</tool_call>", _GLM),))),
    (
        ("<function=", "<parameter="),
        Marks(
            (
                Region("<tool_call>", "</tool_call>", _QWEN_XML),
                Region("<function=", "</function>", _QWEN_XML),
            ),
            frames=("</tool_call>",),  # left over where the model forgot its counterpart
        ),
    ),
    (
        ("<|tool_call_start|>",),  # LFM2
        Marks((Region("<|tool_call_start|>", "<|tool_call_end|>", either(json_calls, pythonic)),)),
    ),
    (
        ("<|tool_call>",),  # Gemma 4
        Marks((Region("<|tool_call>", "<tool_call|>", braced('<|"|>')),), keeps_space=True),
    ),
    (
        ("<start_function_call>",),
        Marks((Region("<start_function_call>", "<end_function_call>", braced("<escape>")),)),
    ),
    (
        ("[TOOL_CALLS]",),
        Marks((Region("[TOOL_CALLS]", None, either(json_calls, _MISTRAL)),)),
    ),
    (("<|tool_call|>",), Marks((Region("<|tool_call|>", None, json_calls),))),  # Granite 3
    (("<tool_call>",), _HERMES),
    (
        ("<|start_header_id|>",),  # Llama 3
        Marks(
            (
                Region("<|python_tag|>", None, offered(json_calls)),
                Region("{", None, offered(json_calls, start="{"), leads=True),
            ),
            keeps_space=True,
        ),
    ),
    (
        ("<|header_start|>",),  # Llama 4
        Marks(
            (
                Region("{", None, offered(json_calls, "{", "<|python_end|>"), leads=True),
                Region("[", None, offered(pythonic, "[", "<|python_end|>"), leads=True),
            ),
            frames=("<|python_start|>",),
            keeps_space=True,
        ),
    ),
)
"""Marks that a template must hold → the calls of its model's answers; the first line counts."""

THOUGHTS = (
    Region("<think>", "</think>"),
    Region("[THINK]", "[/THINK]"),
    Region("<|channel>thought", "<channel|>"),
    Region("<|open|>think<|sep|>", "<|close|>think<|sep|>"),
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How one model's answers are read."""

    thoughts: tuple[Region, ...] = ()
    calls: Marks = _HERMES
    is_harmony: bool = False

    def is_marked_by(self, control_texts: Iterable[str]) -> bool:
        """Whether control tokens, which answers leave out, are among the marks."""
        regions = self.thoughts + self.calls.regions
        marks = {mark for region in regions for mark in (region.open, region.close) if mark}
        marks |= {MESSAGE} if self.is_harmony else set(self.calls.frames)
        return any(text in mark for text in control_texts for mark in marks)

    def reader(self, prompt_end: str, tools: ToolSchemas) -> AnswerReader:
        """For one answer; without tools, the marks of calls are words like others."""
        if self.is_harmony:
            return HarmonyReader(tools)
        calls = self.calls if tools else Marks()
        marks = Marks(self.thoughts + calls.regions, calls.frames, calls.keeps_space)
        opened = [t for t in self.thoughts if prompt_end.rstrip().endswith(t.open)]
        if not marks.regions:
            return PlainReader()
        return RegionReader(marks, tools, opened[0] if opened else None)


def dialect_of(template: str) -> Dialect:
    """Without any known marks, calls are expected as Hermes writes them."""
    if "<|channel|>" in template and "<|message|>" in template:
        return Dialect(calls=Marks(), is_harmony=True)
    thoughts = tuple(region for region in THOUGHTS if region.open in template)
    calls = next((marks for needed, marks in CALLS if all(n in template for n in needed)), _HERMES)
    return Dialect(thoughts, calls)
