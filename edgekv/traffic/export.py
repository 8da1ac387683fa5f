"""The start commands of other servers with the room of a plan, for people who outgrow one machine.

Each is as near as the other server's options allow; what has no equal there is said in a comment.
Sources: `llama-server --help` of the llama.cpp release that llama-cpp-python 0.3.36 carries, and
the engine arguments of vLLM's documentation.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from edgekv.core.plan import MemoryPlan

PORT = 8642
MIB, GIB = 1024**2, 1024**3
LLAMA_SERVER_TYPES = frozenset(
    {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"}
)
"""Of keys and values."""
NEAREST_TYPE = "q4_0"


def llama_server(plan: MemoryPlan) -> str:
    choice = plan.choice
    arguments = [
        *("--model", plan.model.path),
        *("--ctx-size", str(choice.cells)),
        *("--parallel", str(choice.slots)),
        "--kv-unified",
        *("--kv-unified-per-slot", str(choice.context_length)),
        *("--cache-type-k", _llama_server_type(choice.kv_type_k)),
        *("--cache-type-v", _llama_server_type(choice.kv_type_v)),
        *("--flash-attn", "on" if choice.flash_attention else "off"),
        *("--batch-size", str(choice.batch)),
        *("--ubatch-size", str(choice.ubatch)),
        *("--n-gpu-layers", str(choice.gpu_layers)),
        *("--threads", str(choice.threads)),
        *(("--swa-full",) if choice.swa_full else ()),
        *(("--n-cpu-moe", str(choice.host_experts)) if choice.host_experts else ()),
        # Unless told, it takes 8 GiB.
        *("--cache-ram", str(choice.host_cache_bytes // MIB)),
        *("--port", str(PORT)),
    ]
    types = {choice.kv_type_k, choice.kv_type_v} - LLAMA_SERVER_TYPES
    unknown = "".join(
        f"# llama-server has no {name}; {NEAREST_TYPE} is nearest, and not what was tested.\n"
        for name in sorted(types)
    )
    return (
        "# llama-server ends every running request when its cells run out; this plan lets a\n"
        f"# conversation have {choice.context_length:,} tokens of a pool that all share.\n"
        f"{unknown}llama-server {shlex.join(arguments)}\n"
    )


def _llama_server_type(kv_type: str) -> str:
    return kv_type if kv_type in LLAMA_SERVER_TYPES else NEAREST_TYPE


def vllm(plan: MemoryPlan) -> str:
    choice = plan.choice
    # Keys and values for so many tokens; vLLM has no types between 16 and 8 bits.
    kv_type = "fp8" if choice.kv_type_k not in {"f32", "f16", "bf16"} else "auto"
    arguments = [
        *("--max-model-len", str(choice.context_length)),
        *("--max-num-seqs", str(choice.slots)),
        *("--max-num-batched-tokens", str(max(choice.batch, choice.slots))),
        *("--kv-cache-dtype", kv_type),
        "--enable-prefix-caching",
        *("--port", str(PORT)),
    ]
    return (
        "# vLLM serves the model's original repository, not the GGUF file; name it instead of\n"
        "# MODEL. It decides by itself how many tokens of keys and values the graphics memory\n"
        f"# holds; this plan had {choice.cells:,}.\n"
        f"vllm serve MODEL {shlex.join(arguments)}\n"
    )


def compose(plan: MemoryPlan) -> str:
    # A folder without a / before it would be the name of a volume.
    choice, path = plan.choice, Path(plan.model.path).absolute()
    arguments = [
        *("serve", f"/models/{path.name}"),
        *("--host", "0.0.0.0"),
        *("--api-key-file", "/run/secrets/edgekv_key"),
        *("--ctx", str(choice.context_length)),
        *("--slots", str(choice.slots)),
        *("--cells", str(choice.cells)),
        *("--kv-type", f"{choice.kv_type_k}/{choice.kv_type_v}"),
        *("--host-cache", str(choice.host_cache_bytes)),
    ]
    command = "".join(f"\n      - {_quoted(argument)}" for argument in arguments)
    # What the plan takes, and a tenth for the server itself and the page cache.
    limit = -(-plan.total_bytes * 11 // 10 // (GIB // 4)) * 256
    return f"""# Build the image from packaging/container, and put a key into ./edgekv_key.
services:
  edgekv:
    image: edgekv
    command:{command}
    ports:
      - "127.0.0.1:{PORT}:{PORT}"
    volumes:
      - {_quoted(f"{path.parent}:/models:ro")}
    secrets:
      - edgekv_key
    mem_limit: {limit}m
    memswap_limit: {limit}m
secrets:
  edgekv_key:
    file: ./edgekv_key
"""


EXPORTS: dict[str, Callable[[MemoryPlan], str]] = {
    "llama-server": llama_server,
    "vllm": vllm,
    "compose": compose,
}


def _quoted(text: str) -> str:
    """A YAML string, whatever it holds; Compose would put a variable for what follows a $."""
    return "'" + text.replace("'", "''").replace("$", "$$") + "'"
