"""Which llama.cpp is taken, and which is refused."""

from __future__ import annotations

import subprocess
import sys

import llama_cpp
import pytest
from packaging.requirements import Requirement

from edgekv.core.library import TESTED_VERSIONS
from edgekv.errors import Unavailable
from edgekv.llama import layout, library
from edgekv.llama.description import describe
from tests.unit.test_repository import requirements


def test_the_installed_library_has_the_structs_of_its_bindings() -> None:
    layout.check_layout()


@pytest.mark.parametrize("defaults", [layout.MODEL_DEFAULTS, layout.CONTEXT_DEFAULTS])
def test_a_library_with_other_structs_is_refused_by_its_path(
    defaults: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = list(defaults)[-1]
    monkeypatch.setitem(defaults, last, 77)
    with pytest.raises(Unavailable, match=rf"libllama.*'{last}' is not where"):
        layout.check_layout()


def test_a_release_that_nobody_checked_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_cpp, "__version__", "0.4.1")
    with pytest.raises(Unavailable, match=r"llama-cpp-python 0\.4\.1 .* install .*==0\.3\.36"):
        library.start()


def test_a_build_with_nothing_for_this_processor_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build for many processors loads what runs here, which may be nothing, without a word."""
    monkeypatch.setattr(library, "handles", lambda: iter(()))
    with pytest.raises(Unavailable, match=r"None of llama\.cpp's .* this processor; compile one"):
        library.start()


def test_the_project_asks_for_no_other_releases_than_those_checked() -> None:
    needed: Requirement = next(r for r in requirements() if r.name == "llama-cpp-python")
    checked = TESTED_VERSIONS
    assert [version for version in checked if version not in needed.specifier] == []
    major, minor, patch = map(int, checked[-1].split("."))
    first = list(map(int, checked[0].split(".")))
    assert f"{major}.{minor}.{patch + 1}" not in needed.specifier
    assert f"{first[0]}.{first[1]}.{first[2] - 1}" not in needed.specifier


def test_the_library_tells_what_it_is() -> None:
    facts = describe()
    assert facts.version in TESTED_VERSIONS
    assert "CPU" in facts.backends
    assert "CPU" in [device.id for device in facts.devices]
    assert facts.has_bundled_path
    if sys.platform == "linux":
        assert facts.path in facts.loaded


def test_nothing_but_the_description_goes_to_stdout() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "edgekv", "library"], capture_output=True, check=True
    )
    assert done.stdout.startswith(b'{"version":')


def test_the_properties_of_a_device_are_where_the_library_writes_them() -> None:
    library.start()
    for handle in library.handles():
        read, info = handle.properties, handle.info
        assert (read.name.decode(), read.memory_total) == (info.id, info.total_bytes)
        assert read.description.decode("utf-8", "replace") == info.name
        assert info.address == "" or ":" in info.address
