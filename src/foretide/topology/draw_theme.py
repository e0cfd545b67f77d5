"""The colours of a drawn topology. Each theme brings its own background, so it can be read on any page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DARK", "LIGHT", "THEMES", "Theme"]


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours as CSS writes them: page and text, then fill and border by kind of element."""

    name: str
    page: str
    text: str
    faint: str
    line: str
    source: tuple[str, str]
    operator: tuple[str, str]
    sink: tuple[str, str]
    state: str


LIGHT = Theme(
    "light",
    page="#ffffff",
    text="#1c2733",
    faint="#5b6b7b",
    line="#6b7c8d",
    source=("#e3f4ec", "#2f8f68"),
    operator=("#eaf1fb", "#3f74bd"),
    sink=("#fbf0df", "#b27a26"),
    state="#8a4fb5",
)
DARK = Theme(
    "dark",
    page="#12181f",
    text="#e8eef5",
    faint="#9fb0c1",
    line="#8698aa",
    source=("#16342a", "#4cc193"),
    operator=("#1a2b43", "#6ea3ee"),
    sink=("#3a2b13", "#e0a84e"),
    state="#c794ee",
)

#: The themes by name.
THEMES: Mapping[str, Theme] = MappingProxyType({theme.name: theme for theme in (LIGHT, DARK)})
