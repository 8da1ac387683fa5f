"""A tiny model that only gives vectors of texts: an encoder, with random weights."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, LAYERS, INNER, CONTEXT = 64, 4, 2, 128, 128
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + [
    f"{start}{chr(97 + letter)}" for start in ("\u2581", "") for letter in range(26)
]


def write_encoder(path: Path) -> Path:
    """BERT's architecture, whose attention looks both ways."""
    writer = gguf.GGUFWriter(str(path), "bert")
    writer.add_name("tiny encoder")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    _add_words(writer)
    for name, values in _tensors().items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_words(writer: gguf.GGUFWriter) -> None:
    writer.add_tokenizer_model("bert")
    writer.add_token_list(WORDS)
    writer.add_token_scores([0.0] * len(WORDS))
    writer.add_token_types([3] * 5 + [1] * (len(WORDS) - 5))
    writer.add_token_type_count(2)
    for number, add in enumerate(
        (
            writer.add_pad_token_id,
            writer.add_unk_token_id,
            writer.add_bos_token_id,
            writer.add_sep_token_id,
            writer.add_mask_token_id,
        )
    ):
        add(number)
    writer.add_eos_token_id(WORDS.index("[SEP]"))


def _tensors() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(1)
    found: dict[str, np.ndarray] = {}

    def add(name: str, rows: int, columns: int) -> None:
        found[f"{name}.weight"] = draw.normal(0, 0.05, (rows, columns)).astype(np.float32)
        found[f"{name}.bias"] = np.zeros(rows, np.float32)

    def add_norm(name: str) -> None:
        found[f"{name}.weight"] = np.ones(WIDTH, np.float32)
        found[f"{name}.bias"] = np.zeros(WIDTH, np.float32)

    for name, rows in (("token_embd", len(WORDS)), ("token_types", 2), ("position_embd", CONTEXT)):
        add(name, rows, WIDTH)
        del found[f"{name}.bias"]
    add_norm("token_embd_norm")
    for layer in range(LAYERS):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{name}", WIDTH, WIDTH)
        add(f"blk.{layer}.ffn_up", INNER, WIDTH)
        add(f"blk.{layer}.ffn_down", WIDTH, INNER)
        add_norm(f"blk.{layer}.attn_output_norm")
        add_norm(f"blk.{layer}.layer_output_norm")
    return found
