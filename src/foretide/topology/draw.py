"""Pictures of a topology: as SVG, as Mermaid, and as text for a terminal."""

from foretide.topology.draw_mermaid import to_mermaid
from foretide.topology.draw_svg import to_svg
from foretide.topology.draw_text import to_text
from foretide.topology.draw_theme import DARK, LIGHT, THEMES, Theme

__all__ = ["DARK", "LIGHT", "THEMES", "Theme", "to_mermaid", "to_svg", "to_text"]
