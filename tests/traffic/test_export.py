"""Start commands of other servers with the room of a plan."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from edgekv.traffic.export import EXPORTS, compose, llama_server, vllm
from tests.unit.budget_models import plan

DATA = Path(__file__).parents[1] / "data" / "exports"


def arguments(text: str) -> list[str]:
    return shlex.split(text, comments=True)


def test_llama_server_gets_the_cells_the_slots_and_the_types() -> None:
    made = plan()
    found = arguments(llama_server(made))
    assert found[0] == "llama-server"
    assert found[found.index("--ctx-size") + 1] == str(made.choice.cells)
    assert found[found.index("--parallel") + 1] == str(made.choice.slots)
    assert found[found.index("--cache-type-v") + 1] == made.choice.kv_type_v
    assert "--kv-unified" in found


def test_llama_server_knows_every_option_it_is_given() -> None:
    listed = (DATA / "llama-server-options.txt").read_text(encoding="utf-8").splitlines()
    known = {line for line in listed if not line.startswith("#")}
    made = plan()
    everything = replace(made, choice=replace(made.choice, swa_full=True, host_experts=3))
    given = {word for word in arguments(llama_server(everything)) if word.startswith("--")}
    assert {"--swa-full", "--n-cpu-moe"} <= given
    assert given <= known


def test_llama_server_takes_no_more_host_memory_than_the_plan() -> None:
    made = plan()
    roomy = replace(made, choice=replace(made.choice, host_cache_bytes=300 * 1024**2))
    found = arguments(llama_server(roomy))
    assert found[found.index("--cache-ram") + 1] == "300"


def test_a_type_that_llama_server_has_not_is_said_and_the_nearest_taken() -> None:
    made = plan()
    odd = replace(made, choice=replace(made.choice, kv_type_k="q8_0", kv_type_v="mxfp4"))
    text = llama_server(odd)
    found = arguments(text)
    assert found[found.index("--cache-type-k") + 1] == "q8_0"
    assert found[found.index("--cache-type-v") + 1] == "q4_0"
    assert "# llama-server has no mxfp4" in text
    assert "has no q8_0" not in text


def test_vllm_gets_the_context_and_the_slots() -> None:
    made = plan()
    found = arguments(vllm(made))
    assert found[:3] == ["vllm", "serve", "MODEL"]
    assert found[found.index("--max-model-len") + 1] == str(made.choice.context_length)
    assert found[found.index("--max-num-seqs") + 1] == str(made.choice.slots)


def test_a_container_is_limited_to_what_the_plan_takes() -> None:
    made = plan()
    text = compose(made)
    limit = int(text.split("mem_limit: ")[1].split("m", 1)[0]) * 1024**2
    assert made.total_bytes * 1.1 <= limit <= made.total_bytes * 1.1 + 256 * 1024**2
    assert f"- '{made.choice.context_length}'" in text


@pytest.mark.parametrize("name", EXPORTS)
def test_a_path_with_spaces_and_quotes_stays_one_argument(name: str) -> None:
    made = plan()
    odd = replace(made, model=replace(made.model, path="/m o/it's.gguf"))
    text = EXPORTS[name](odd)
    if name == "llama-server":
        assert "/m o/it's.gguf" in arguments(text)
    if name == "compose":
        assert "- '/models/it''s.gguf'" in text
        assert "- '/m o:/models:ro'" in text


def test_a_model_named_from_here_is_mounted_from_here_and_no_variable_is_put_for_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    made = plan()
    text = compose(replace(made, model=replace(made.model, path="a$b/model.gguf")))
    assert f"- '{tmp_path}/a$$b:/models:ro'" in text
