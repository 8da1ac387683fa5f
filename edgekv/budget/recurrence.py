"""Which layers keep recurrent state, and how much: llama.cpp's own rules, from GGUF metadata."""

from __future__ import annotations

from edgekv.budget.metadata import ModelKeys, at

_FULLY_RECURRENT = {"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"}
_FULL_ATTENTION_INTERVAL = {
    "qwen3next": 4,
    "qwen35": 4,
    "qwen35moe": 4,
    "qwen4exp": 4,
    "minimax-01": 8,
}
# A layer without KV heads holds recurrent state instead.
_RECURRENT_WITHOUT_HEADS = {
    "bailingmoe3",
    "glm5-next",
    "granitehybrid",
    "jamba",
    "kimi-k3",
    "kimi-linear",
    "lfm2",
    "lfm2moe",
    "nemotron_h",
    "nemotron_h_moe",
    "plamo2",
}


def keeps_state(keys: ModelKeys, il: int) -> bool:
    """Whether a layer has recurrent state."""
    architecture = keys.architecture
    if architecture in _FULLY_RECURRENT or architecture == "falcon-h1":
        return True
    if architecture in _FULL_ATTENTION_INTERVAL:
        listed = keys.numbers("attention.recurrent_layers")
        if listed:
            return bool(at(listed, il))
        default = _FULL_ATTENTION_INTERVAL[architecture]
        return (il + 1) % max(1, keys.number("full_attention_interval", default)) != 0
    if architecture in _RECURRENT_WITHOUT_HEADS:
        # Nemotron's feed-forward layers have no KV heads either, and keep nothing.
        is_feed_forward = "nemotron" in architecture and keys.per_layer("feed_forward_length", il)
        return keys.kv_heads(il) == 0 and not is_feed_forward
    return False


def width_of_state(keys: ModelKeys) -> int:
    """Elements of recurrent state that one layer keeps for one sequence id.

    Source: `llama_hparams::n_embd_r` (the convolution's last inputs) + `n_embd_s` (the state).
    """
    embedding = keys.number("embedding_length")
    conv_inputs = max(0, keys.number("ssm.conv_kernel") - 1)
    if head := keys.number("wkv.head_size"):
        return embedding * (keys.number("token_shift_count", 2) + head)
    if length := keys.number("shortconv.l_cache"):
        return embedding * (length - 1)
    heads = keys.per_layer("attention.head_count", 0)
    if head := keys.number("kda.head_dim"):
        queries_keys_values = 3
        return heads * head * (queries_keys_values * (conv_inputs or 3) + head)
    inner, state = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    convolution = conv_inputs * (inner + 2 * keys.number("ssm.group_count") * state)
    if keys.architecture == "minimax-01":
        return convolution + heads * keys.number("attention.key_length") ** 2
    return convolution + inner * state
