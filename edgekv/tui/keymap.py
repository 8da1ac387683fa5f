"""The keys that a user chose in the settings, checked before the app starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from textual.binding import Binding
from textual.keys import Keys
from textual.widgets import TextArea

from edgekv.config.spelling import nearest
from edgekv.errors import SettingsError
from edgekv.tui.keys import KEYS

MODIFIERS = {"ctrl", "shift", "alt", "super", "hyper", "meta"}
_NAMED = {key.value for key in Keys}
_WRITING = {
    key
    for binding in TextArea.BINDINGS
    if isinstance(binding, Binding)
    for key in binding.key.split(",")
}
EVERYWHERE = "everywhere"


def bindings(section: str, chosen: Mapping[str, Sequence[str]]) -> list[Binding]:
    """The keys of one section of `KEYS`, as chosen."""
    return [
        _as_chosen(binding, chosen) for binding in KEYS[section] if isinstance(binding, Binding)
    ]


def keymap_of(chosen: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """For `App.set_keymap`. Raises `SettingsError` for an unknown name or key, and for a key that
    would do two things in one place.
    """
    known = {binding.id for section in KEYS for binding in bindings(section, {})}
    for name, keys in chosen.items():
        if name not in known:
            hint = nearest(name, (known_name for known_name in known if known_name))
            raise SettingsError(f"The settings name a key '{name}' that is not known; {hint}")
        for key in keys:
            _check_key(name, key)
    for section in (EVERYWHERE, "the conversation"):
        _check_writing(bindings(section, chosen), chosen)
    for section in KEYS:
        _check_clash([*bindings(section, chosen), *bindings(EVERYWHERE, chosen)], chosen)
    return {name: ",".join(keys) for name, keys in chosen.items()}


def _as_chosen(binding: Binding, chosen: Mapping[str, Sequence[str]]) -> Binding:
    keys = chosen.get(binding.id or "")
    return binding if keys is None else replace(binding, key=",".join(keys), key_display=None)


def _check_key(name: str, key: str) -> None:
    *modifiers, last = key.split("+") if key != "+" else [key]
    if not set(modifiers) <= MODIFIERS or not (len(last) == 1 or last in _NAMED):
        raise SettingsError(
            f"The settings give '{name}' the key '{key}', which no terminal sends; "
            "write it like 'ctrl+n', 'f5' or 'x'."
        )


def _check_writing(shown: Iterable[Binding], chosen: Mapping[str, Sequence[str]]) -> None:
    """Beside the message box a key must not be one that writes there, or it would do only that."""
    for binding in shown:
        for key in chosen.get(binding.id or "", ()):
            if len(key) == 1 or (key in _WRITING and not binding.priority):
                raise SettingsError(
                    f"The settings give '{binding.id}' the key '{key}', which the message box "
                    "needs for writing; choose another."
                )


def _check_clash(shown: Iterable[Binding], chosen: Mapping[str, Sequence[str]]) -> None:
    taken: dict[str, Binding] = {}
    for binding in shown:
        for key in binding.key.split(","):
            other = taken.setdefault(key, binding)
            if other.id != binding.id and {other.id, binding.id} & chosen.keys():
                raise SettingsError(
                    f"The settings give '{key}' to both '{other.id}' and '{binding.id}'; "
                    "choose another key for one of them."
                )
