"""Chat templates for models that bring none, chosen by the turn marks in their vocabulary.

A model whose vocabulary has the control tokens of a known format was made for that format; a
foreign one would make it answer with rubbish or without end.
"""

from __future__ import annotations

import logging

from edgekv.core.plan import ModelFacts

_LOG = logging.getLogger(__name__)

_CHATML = """\
{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

# The format has no system turn: its text opens the first user turn.
_GEMMA = """\
{% set ns = namespace(lead='') %}{% for m in messages %}{% if m.role == 'system' %}\
{% set ns.lead = ns.lead + m.content + '\\n\\n' %}{% else %}\
<start_of_turn>{{ 'model' if m.role == 'assistant' else 'user' }}
{{ ns.lead if m.role != 'assistant' }}{{ m.content | trim }}<end_of_turn>
{% if m.role != 'assistant' %}{% set ns.lead = '' %}{% endif %}{% endif %}{% endfor %}\
{% if add_generation_prompt %}<start_of_turn>model
{% endif %}"""

_LLAMA_3 = """\
{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content | trim }}<|eot_id|>{% endfor %}\
{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""

PLAIN = """\
{% for m in messages %}{{ m.role | capitalize }}: {{ m.content }}

{% endfor %}{% if add_generation_prompt %}Assistant:{% endif %}"""
"""For a model without turn marks: text that even a model never trained to chat can continue."""

_BY_MARKS = (
    (("<start_of_turn>", "<end_of_turn>"), "Gemma's", _GEMMA),
    (("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"), "Llama 3's", _LLAMA_3),
    (("<|im_start|>", "<|im_end|>"), "the ChatML", _CHATML),
)


def template_of(facts: ModelFacts) -> str:
    """The model's own chat template, else the format its vocabulary was made for, else `PLAIN`."""
    if facts.chat_template is not None and facts.chat_template.strip():
        return facts.chat_template
    vocabulary = set(facts.control_texts)
    for marks, name, template in _BY_MARKS:
        if vocabulary.issuperset(marks):
            _LOG.warning("%s has no chat template; using %s turn format", facts.name, name)
            return template
    _LOG.warning(
        "%s has no chat template and no turn marks, so it may never have learnt to chat; "
        "using lines that start with 'User:' and 'Assistant:'",
        facts.name,
    )
    return PLAIN
