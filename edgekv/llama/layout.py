"""Whether the loaded libllama has the structs that the bindings believe in.

ctypes knows no header: bindings and a library of another version read each other's fields at the
wrong places, and nothing complains until memory is written over. The default parameters are known
values at known places, the last fields among them, so they tell.
"""

from __future__ import annotations

from llama_cpp import llama_cpp as api

from edgekv.errors import Unavailable

MODEL_DEFAULTS = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "use_extra_bufts": True,
    "no_alloc": False,
}
CONTEXT_DEFAULTS = {
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_outputs_max_per_seq": 1,
    "pooling_type": -1,
    "yarn_beta_slow": -1.0,
    "type_k": 1,
    "type_v": 1,
    "offload_kqv": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
    "n_samplers": 0,
}


def check_layout() -> None:
    """Raises `Unavailable` if a default is not where it belongs."""
    parameters = (
        (api.llama_model_default_params(), MODEL_DEFAULTS),
        (api.llama_context_default_params(), CONTEXT_DEFAULTS),
    )
    for struct, defaults in parameters:
        for name, value in defaults.items():
            if getattr(struct, name, None) != value:
                raise Unavailable(
                    f"The library {api._lib._name} does not belong to the installed "
                    f"llama-cpp-python ('{name}' is not where it should be); unset "
                    "LLAMA_CPP_LIB_PATH, or install llama-cpp-python again."
                )
