from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from typer.testing import CliRunner

from foretide.cli import app
from foretide.forecast.registry import FORECASTERS
from foretide.plan.registry import PLANNERS
from foretide.reference import SETTINGS, configuration_markdown, settings_markdown

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"


class Inner(BaseModel):
    """The inner group."""


class Example(BaseModel):
    """What it is, in
    one paragraph.

    And what is left out.
    """

    needed: float = Field(gt=0, le=1, description="A share.")
    limit: int | None = Field(default=None, ge=1, description="A | limit.")
    mode: Literal["fast", "safe"] = "fast"
    on: bool = True
    names: tuple[str, ...] = Field(default=(), max_length=3)
    table: dict[str, dict[str, Any]] = Field(default_factory=dict)
    short: Annotated[str, Field(min_length=2)] = "ab"
    inner: Inner = Field(default_factory=Inner)


def rows(page: str) -> dict[str, list[str]]:
    lines = [line for line in page.splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").replace("\\|", "\0").split("|")] for line in lines]
    return {row[0].strip("`"): [cell.replace("\0", "|") for cell in row[1:]] for row in cells}


def test_the_page_in_docs_is_in_step_with_the_settings() -> None:
    written = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    assert written == configuration_markdown(), (
        "docs/configuration.md is not in step; run: foretide docs configuration --out docs/configuration.md"
    )


def test_a_section_describes_every_kind_of_field() -> None:
    page = settings_markdown(Example, "Example")
    assert page.startswith("### Example\n\nWhat it is, in one paragraph.\n\n| setting |")
    assert rows(page) == {
        "needed": ["number", "required", "> 0, ≤ 1", "A share."],
        "limit": ["whole number or nothing", "not set", "≥ 1", "A | limit."],
        "mode": ["`fast` or `safe`", "`fast`", "", ""],
        "on": ["true or false", "`true`", "", ""],
        "names": ["list of text", "empty", "at most 3 long", ""],
        "table": ["table of table of anything", "empty", "", ""],
        "short": ["text", "`ab`", "at least 2 long", ""],
        "inner": ["Inner", "its defaults", "", ""],
    }


def test_a_group_without_fields_says_so() -> None:
    assert settings_markdown(Inner, "Inner") == "### Inner\n\nThe inner group.\n\nIt has no settings.\n"


def test_the_page_has_a_section_for_every_group_planner_and_forecaster() -> None:
    page = configuration_markdown()
    for title in (*(model.__name__ for model in SETTINGS), *(f"`{name}`" for name in (*PLANNERS, *FORECASTERS))):
        assert f"\n### {title}\n" in page


def test_every_setting_has_a_description() -> None:
    for model in (*SETTINGS, *PLANNERS.values(), *FORECASTERS.values()):
        for name, field in model.model_fields.items():
            assert field.description, f"{model.__name__}.{name} has no description"


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    out = tmp_path / "docs" / "configuration.md"
    result = CliRunner().invoke(app, ["docs", "configuration", "--out", str(out)])
    assert result.exit_code == 0
    assert out.read_text(encoding="utf-8") == configuration_markdown()
    assert CliRunner().invoke(app, ["docs", "configuration"]).stdout == configuration_markdown()
