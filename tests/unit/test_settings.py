"""What the settings file says, and the one sentence about what is wrong with it."""

from __future__ import annotations

import ast
import itertools
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from edgekv.cli import chat, config, options, serve
from edgekv.cli.settable import QUESTION, Settable
from edgekv.config import settings as module
from edgekv.config.settings import (
    ModelSettings,
    PlanSettings,
    SamplingSettings,
    ServeSettings,
    Settings,
)
from edgekv.config.settings_file import parse_settings, read_settings
from edgekv.core.request import SamplingParams
from edgekv.errors import SettingsError
from tests.conftest import REPOSITORY

PATH = Path("/etc/edgekv.toml")


def parse(text: str) -> Settings:
    return parse_settings(text, PATH)


def test_an_empty_file_says_nothing() -> None:
    assert parse("") == Settings()
    assert parse("").of_model("any") == ModelSettings()


def test_a_model_has_its_own_words_over_those_for_all() -> None:
    settings = parse(
        """
        system = "Be kind."
        [plan]
        ctx = 1024
        memory = "4GiB"
        [sampling]
        temperature = 0
        top_k = 5
        [models.tiny]
        ctx = "auto"
        [models.tiny.sampling]
        temperature = 1
        """
    )
    own = settings.of_model("tiny")
    assert (own.ctx, own.memory, own.system) == ("auto", "4GiB", "Be kind.")
    assert own.sampling.params() == SamplingParams(temperature=1, top_k=5)
    assert settings.of_model("other").ctx == 1024


@pytest.mark.parametrize("name", ["small", "models/small.gguf", "/a/b/small.gguf"])
@pytest.mark.parametrize("section", ["small", "small.gguf"])
def test_a_section_is_found_by_the_name_of_the_file(name: str, section: str) -> None:
    settings = parse(f'[models."{section}"]\nslots = 3')
    assert settings.of_model(name, "/a/b/small.gguf").slots == 3


def test_keys_are_lists_by_the_name_of_what_they_do() -> None:
    settings = parse('[keys]\nchat.stop = ["escape"]\n"chat.new" = ["f9", "ctrl+n"]')
    assert settings.keys == {"chat.stop": ["escape"], "chat.new": ["f9", "ctrl+n"]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[plan]\nslot = 1", "'plan.slot' is no setting; did you mean 'slots'?"),
        ("[plans]\nslots = 1", "'plans' is no setting; did you mean 'plan'?"),
        ("[serve]\nkv-type = 'f16'", "'serve.kv-type' is no setting; there is api_key_file, cors"),
        ("[models.x]\nctxx = 1", "'models.\"x\".ctxx' is no setting; did you mean 'ctx'?"),
        ("[models.x.sampling]\nheat = 1", "'models.\"x\".sampling.heat' is no setting"),
        ("[plan]\nslots = 0", "plan.slots: expected a whole number >= 1"),
        ("[plan]\nctx = 1.5", "plan.ctx: expected a whole number or a text, got a number"),
        ("[plan]\nctx = 'all'", "plan.ctx: a number or 'auto' is wanted, not 'all'"),
        ("[plan]\nmemory = '4 apples'", "'4 apples' is not a size; write it like 512MiB"),
        ("[plan]\nkv_type = 'q3'", "'q3' is not a KV type; take 'auto' or one of f32"),
        ("[models.x]\nmemory = 'much'", "models.\"x\": 'much' is not a size"),
        ("[keys]\nchat.stop = 'escape'", "keys[...]: expected a list, got a text"),
        ("models = 3", "write a section for each model"),
        ("ctx = ", "at end of document"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_place_and_the_remedy(text: str, sentence: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text)
    assert sentence in str(caught.value)
    assert str(PATH) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_named_in_the_environment_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEKV_CONFIG", str(tmp_path / "mine.toml"))
    with pytest.raises(SettingsError, match=r"EDGEKV_CONFIG names .*mine\.toml"):
        read_settings()
    (tmp_path / "mine.toml").write_bytes(b"model = '\xff'")
    with pytest.raises(SettingsError, match="UTF-8"):
        read_settings()
    (tmp_path / "mine.toml").write_text("model = '한국어.gguf'", encoding="utf-8")
    assert read_settings().model == "한국어.gguf"


def test_a_user_without_a_home_has_no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert read_settings() == Settings()


def test_every_setting_of_the_plan_and_of_the_server_is_an_option() -> None:
    @options.budget_options
    def command() -> None: ...

    budget = {o.key for o in command.__click_params__ if isinstance(o, Settable)}  # type: ignore[attr-defined]
    assert budget == set(PlanSettings.__struct_fields__)
    serving = {o.key for o in serve.command.params if isinstance(o, Settable)}
    assert serving == budget | set(ServeSettings.__struct_fields__)


@pytest.mark.parametrize(
    ("kind", "heading"),
    [
        (Settings, "Outside every section"),
        (PlanSettings, "`[plan]`"),
        (SamplingSettings, "`[sampling]`"),
        (ModelSettings, '`[models."NAME"]`'),
        (ServeSettings, "`[serve]`"),
    ],
)
def test_every_key_is_documented_in_the_words_of_the_code(kind: type, heading: str) -> None:
    page = (REPOSITORY / "docs/configuration.md").read_text(encoding="utf-8")
    table = page[page.index(f"\n{heading}") :].split("\n\n")[1]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", table, re.MULTILINE))
    assert rows == documented(kind.__name__)


def documented(name: str) -> dict[str, str]:
    """The fields of a class that are values, with the text below each."""
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name).body
    found = {}
    for field, text in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            assert isinstance(field.target, ast.Name)
            found[field.target.id] = ast.literal_eval(text.value)
    return found


def test_a_question_in_the_place_of_a_model_is_asked_of_the_usual_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tiny.gguf").touch()
    (tmp_path / "mine.toml").write_text(f'model = "{tmp_path / "tiny.gguf"}"')
    monkeypatch.setenv("EDGEKV_CONFIG", str(tmp_path / "mine.toml"))
    context = chat.command.make_context("chat", ["Why is it so?"])
    assert context.meta[QUESTION] == "Why is it so?"
    assert context.params["model"] == str(tmp_path / "tiny.gguf")


def test_what_is_shown_is_the_file_again_and_what_overrules_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'model = "한국어.gguf"\n[plan]\nctx = 9\nmmap = false\n'
    text += '[models."a.b".sampling]\ntop_p = 0.5\n'
    text += '[keys]\nchat.stop = ["escape"]\n[serve]\ncors = ["https://a.org"]'
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("EDGEKV_CONFIG", str(tmp_path / "mine.toml"))
    monkeypatch.setenv("EDGEKV_CTX", "10")
    shown = CliRunner().invoke(config.command, ["show"], catch_exceptions=False).output
    assert parse(shown) == parse(text)
    assert shown.splitlines()[0] == f"# {tmp_path / 'mine.toml'}"
    assert shown.splitlines()[-1] == "# EDGEKV_CTX=10 overrules it"


def test_the_path_of_the_file_is_told_though_it_is_not_there(own_home: Path) -> None:
    done = CliRunner().invoke(config.command, ["path"], catch_exceptions=False)
    assert done.output.strip() == str(own_home / "config/edgekv/config.toml")
