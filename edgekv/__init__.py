"""EdgeKV: local language models that never run out of memory."""

__version__ = "0.1.0"
