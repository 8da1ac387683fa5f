"""Whole models of every kind of layer, small enough to write in a test: random weights, real files.

llama.cpp opens, sizes and computes them like any other. Their vocabulary is one token a byte, so
any text can be asked of them; their answers mean nothing.

    path = write(tmp_path / "window.gguf", gemma3())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

EMBEDDING, HEADS, KV_HEADS, HEAD, HIDDEN = 64, 2, 2, 32, 128
WIDTH = KV_HEADS * HEAD
VOCABULARY = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
NUM_VOCAB = len(VOCABULARY)


@dataclass(frozen=True)
class TinyModel:
    """Keys without the architecture's name in front, and tensors as ggml counts their lengths."""

    architecture: str
    keys: Mapping[str, object]
    tensors: Mapping[str, tuple[int, ...]]


def write(path: Path, model: TinyModel) -> Path:
    """The model as a file of some hundred KiB."""
    writer = gguf.GGUFWriter(str(path), model.architecture)
    _write_keys(writer, model)
    draw = np.random.default_rng(1)
    for name, lengths in model.tensors.items():
        shape = tuple(reversed(lengths))
        if "norm.weight" in name:
            values = np.ones(shape)
        elif name.endswith("ssm_a"):
            values = -np.ones(shape)  # a state that fades
        else:
            values = draw.normal(0, 0.1, shape)
        writer.add_tensor(name, values.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_header(path: Path, model: TinyModel) -> Path:
    """The keys alone, as a file without tensors or vocabulary, which llama.cpp refuses."""
    writer = gguf.GGUFWriter(str(path), model.architecture)
    _write_keys(writer, model, with_vocabulary=False)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return path


def _write_keys(writer: gguf.GGUFWriter, model: TinyModel, *, with_vocabulary: bool = True) -> None:
    writer.add_name(f"tiny {model.architecture}")
    for key, value in model.keys.items():
        name = f"{model.architecture}.{key}"
        match value:
            case bool():
                writer.add_bool(name, value)
            case int():
                writer.add_uint32(name, value)
            case float():
                writer.add_float32(name, value)
            case _:
                writer.add_array(name, value)
    if with_vocabulary:
        writer.add_tokenizer_model("llama")
        writer.add_token_list(VOCABULARY)
        writer.add_token_scores([0.0] * NUM_VOCAB)
        kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL]
        writer.add_token_types([*kinds, *[gguf.TokenType.BYTE] * 256])
        writer.add_bos_token_id(1)
        writer.add_eos_token_id(2)


def _model(
    architecture: str,
    layers: int,
    tensors_of: Callable[[int], Mapping[str, tuple[int, ...]]],
    **keys: object,
) -> TinyModel:
    """`tensors_of` gives a layer's tensors by their names behind "blk.N."; `keys` have dots as
    `__`.
    """
    tensors: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (EMBEDDING, NUM_VOCAB),
        "output_norm.weight": (EMBEDDING,),
    }
    for il in range(layers):
        tensors |= {f"blk.{il}.{name}": lengths for name, lengths in tensors_of(il).items()}
    usual = {
        "context_length": 4096,
        "embedding_length": EMBEDDING,
        "block_count": layers,
        "feed_forward_length": HIDDEN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD,
        "attention.value_length": HEAD,
        "attention.layer_norm_rms_epsilon": 1e-5,
    }
    named = {key.replace("__", "."): value for key, value in keys.items()}
    return TinyModel(architecture, usual | named, tensors)


_ATTENTION = {
    "attn_norm.weight": (EMBEDDING,),
    "attn_q.weight": (EMBEDDING, HEADS * HEAD),
    "attn_k.weight": (EMBEDDING, WIDTH),
    "attn_v.weight": (EMBEDDING, WIDTH),
    "attn_output.weight": (HEADS * HEAD, EMBEDDING),
}
_NORMS_OF_HEADS = {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
_FEED_FORWARD = {
    "ffn_norm.weight": (EMBEDDING,),
    "ffn_gate.weight": (EMBEDDING, HIDDEN),
    "ffn_up.weight": (EMBEDDING, HIDDEN),
    "ffn_down.weight": (HIDDEN, EMBEDDING),
}
_EXPERTS = 4
_MIXTURE = {
    "ffn_gate_inp.weight": (EMBEDDING, _EXPERTS),
    "ffn_gate_exps.weight": (EMBEDDING, HIDDEN, _EXPERTS),
    "ffn_up_exps.weight": (EMBEDDING, HIDDEN, _EXPERTS),
    "ffn_down_exps.weight": (HIDDEN, EMBEDDING, _EXPERTS),
}
_MIXTURE_KEYS = {
    "expert_count": _EXPERTS,
    "expert_used_count": 2,
    "expert_feed_forward_length": HIDDEN,
}
_INNER, _STATE, _GROUPS, _KERNEL, _STATE_HEADS = 2 * EMBEDDING, 16, 1, 4, 4
_STATE_KEYS = {
    "ssm__conv_kernel": _KERNEL,
    "ssm__inner_size": _INNER,
    "ssm__state_size": _STATE,
    "ssm__time_step_rank": _STATE_HEADS,
    "ssm__group_count": _GROUPS,
}
_CONVOLVED = _INNER + 2 * _GROUPS * _STATE
_STATE_SPACE = {
    "attn_norm.weight": (EMBEDDING,),
    "ssm_in.weight": (EMBEDDING, _INNER + _CONVOLVED + _STATE_HEADS),
    "ssm_conv1d.weight": (_KERNEL, _CONVOLVED),
    "ssm_conv1d.bias": (_CONVOLVED,),
    "ssm_dt.bias": (_STATE_HEADS,),
    "ssm_a": (1, _STATE_HEADS),
    "ssm_d": (1, _STATE_HEADS),
    "ssm_norm.weight": (_INNER // _GROUPS, _GROUPS),
    "ssm_out.weight": (_INNER, EMBEDDING),
}


def llama(layers: int = 3) -> TinyModel:
    """Every layer sees everything."""
    return _model("llama", layers, lambda _: _ATTENTION | _FEED_FORWARD)


def qwen3(layers: int = 3) -> TinyModel:
    return _model("qwen3", layers, lambda _: _ATTENTION | _NORMS_OF_HEADS | _FEED_FORWARD)


def qwen3moe(layers: int = 2) -> TinyModel:
    """A mixture of experts."""
    norm = {"ffn_norm.weight": (EMBEDDING,)}
    tensors = _ATTENTION | _NORMS_OF_HEADS | norm | _MIXTURE
    return _model("qwen3moe", layers, lambda _: tensors, **_MIXTURE_KEYS)


def gemma3(layers: int = 6, window: int = 64) -> TinyModel:
    """Every sixth layer sees everything, the others a window."""
    after = {"post_attention_norm.weight": (EMBEDDING,), "post_ffw_norm.weight": (EMBEDDING,)}
    tensors = _ATTENTION | _NORMS_OF_HEADS | _FEED_FORWARD | after
    return _model("gemma3", layers, lambda _: tensors, attention__sliding_window=window)


def gpt_oss(layers: int = 2, window: int = 128) -> TinyModel:
    """Every second layer sees a window; experts; sinks."""
    tensors = {
        **_ATTENTION,
        **_MIXTURE,
        "attn_output.bias": (EMBEDDING,),
        "attn_sinks.weight": (HEADS,),
        "post_attention_norm.weight": (EMBEDDING,),
        "ffn_gate_inp.bias": (_EXPERTS,),
        "ffn_gate_exps.bias": (HIDDEN, _EXPERTS),
        "ffn_up_exps.bias": (HIDDEN, _EXPERTS),
        "ffn_down_exps.bias": (EMBEDDING, _EXPERTS),
    }
    keys = {"attention__sliding_window": window, **_MIXTURE_KEYS}
    made = _model("gpt-oss", layers, lambda _: tensors, **keys)
    output = {"output.weight": (EMBEDDING, NUM_VOCAB)}
    return TinyModel(made.architecture, made.keys, {**made.tensors, **output})


def deepseek2(layers: int = 2) -> TinyModel:
    """One latent row a token instead of keys and values."""
    latent, rope, queries = 32, 32, 32
    tensors = {
        "attn_norm.weight": (EMBEDDING,),
        "attn_q_a_norm.weight": (queries,),
        "attn_kv_a_norm.weight": (latent,),
        "attn_q_a.weight": (EMBEDDING, queries),
        "attn_q_b.weight": (queries, HEADS * 2 * rope),
        "attn_kv_a_mqa.weight": (EMBEDDING, latent + rope),
        "attn_k_b.weight": (rope, latent, HEADS),
        "attn_v_b.weight": (latent, HEAD, HEADS),
        "attn_output.weight": (HEADS * HEAD, EMBEDDING),
    }
    return _model(
        "deepseek2",
        layers,
        lambda _: tensors | _FEED_FORWARD,
        attention__head_count_kv=1,
        attention__key_length=latent + rope,
        attention__value_length=latent,
        attention__key_length_mla=2 * rope,
        attention__value_length_mla=HEAD,
        attention__q_lora_rank=queries,
        attention__kv_lora_rank=latent,
        rope__dimension_count=rope,
        leading_dense_block_count=layers,
        expert_feed_forward_length=HIDDEN,
        expert_shared_count=0,
    )


def lfm2(layers: int = 3) -> TinyModel:
    """Short convolutions, and one layer in three that sees everything."""
    convolution = {
        "attn_norm.weight": (EMBEDDING,),
        "shortconv.conv.weight": (3, EMBEDDING),
        "shortconv.in_proj.weight": (EMBEDDING, 3 * EMBEDDING),
        "shortconv.out_proj.weight": (EMBEDDING, EMBEDDING),
    }
    sees = [il % 3 == 2 for il in range(layers)]
    made = _model(
        "lfm2",
        layers,
        lambda il: (_ATTENTION | _NORMS_OF_HEADS if sees[il] else convolution) | _FEED_FORWARD,
        attention__head_count_kv=[KV_HEADS * one for one in sees],
        shortconv__l_cache=3,
    )
    tensors = dict(made.tensors)
    tensors["token_embd_norm.weight"] = tensors.pop("output_norm.weight")
    return TinyModel(made.architecture, made.keys, tensors)


def granite_hybrid(layers: int = 4) -> TinyModel:
    """Mamba-2 states, and one layer in four that sees everything."""
    sees = [il % 4 == 3 for il in range(layers)]
    return _model(
        "granitehybrid",
        layers,
        lambda il: (_ATTENTION if sees[il] else _STATE_SPACE) | _FEED_FORWARD,
        attention__head_count_kv=[KV_HEADS * one for one in sees],
        rope__dimension_count=HEAD,
        **_STATE_KEYS,
    )


def mamba2(layers: int = 2) -> TinyModel:
    """States alone: a token takes nothing."""
    keys = {"feed_forward_length": 0, "attention__head_count": 0, "attention__head_count_kv": 0}
    return _model("mamba2", layers, lambda _: _STATE_SPACE, **keys, **_STATE_KEYS)


ALL = (
    llama,
    qwen3,
    qwen3moe,
    gemma3,
    gpt_oss,
    deepseek2,
    lfm2,
    granite_hybrid,
    mamba2,
)
"""One builder for each kind of layer."""
