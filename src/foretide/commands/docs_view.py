"""The page of all commands, written from the commands themselves so that it cannot fall behind them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

__all__ = ["all_commands", "commands_markdown"]

_KINDS: dict[Any, str] = {int: "INTEGER", float: "NUMBER", Path: "PATH"}
_HEAD = """# Command line

Each command has `--help`, which says the same as this page. `foretide --install-completion` teaches your shell to
complete commands and options (bash, zsh, fish, PowerShell).

## Exit status

| status | meaning |
|---:|---|
| 0 | It worked. |
| 1 | It ran, and the answer is no: a check of `doctor` failed, an experiment missed its target, training failed. |
| 2 | Wrong arguments, settings or files; one message on standard error says what is expected and what to do. |
| 3 | Something unexpected, in Foretide or in a library it uses; `--traceback` shows where. |
| 130 | Interrupted with Ctrl-C before it had finished. |

Results go to standard output, everything else to standard error. `--json` without a value prints the result as JSON
to standard output; where it takes a file, `-` stands for standard output. `foretide --traceback COMMAND` (or
`--debug`, or `FORETIDE_TRACEBACK=1`) shows where in the code an error arose.
"""


def all_commands(command: Any, path: str = "foretide") -> Iterator[tuple[str, Any]]:
    """Yield every command with the words that invoke it; groups come before their commands, hidden ones are left out.

    Parameters
    ----------
    command : click command
        Where to begin.
    path : str
        The words that invoke it.
    """
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from all_commands(inner, f"{path} {name}")


def commands_markdown(root: Any) -> str:
    """Return the whole page."""
    parts = [_HEAD]
    for path, command in all_commands(root):
        if command is not root:
            parts.append(_section(path, command))
    return "\n".join(parts)


def _section(path: str, command: Any) -> str:
    params = [param for param in command.params if not getattr(param, "hidden", False)]
    arguments = " ".join(_usage(param) for param in params if param.param_type_name == "argument")
    options = [param for param in params if param.param_type_name == "option" and param.name != "help"]
    words = " ".join(word for word in (path, arguments, "[OPTIONS]" if options else "") if word)
    usage = f"```text\n{words}\n```\n" if not hasattr(command, "commands") else ""
    level = "##" if path.count(" ") == 1 else "###"
    parts = [f"{level} {path}\n", _text(command.help or ""), usage, _table(params)]
    return "\n".join(part for part in parts if part)


def _usage(param: Any) -> str:
    name = param.metavar or param.name.upper()
    if param.nargs == -1 and not name.endswith("..."):
        name += "..."
    return name if param.required else f"[{name}]"


def _text(help: str) -> str:
    r"""Return the help of a command as Markdown: its markup for terminals becomes Markdown's.

    >>> print(_text("Show it.\n\n[bold]Example:[/] foretide show a.toml\n--json"))
    Show it.
    <BLANKLINE>
    Example: `foretide show a.toml --json`
    <BLANKLINE>
    """
    paragraphs = [" ".join(part.split()) for part in inspect.cleandoc(help).split("\n\n")]
    return "\n\n".join(_paragraph(part) for part in paragraphs) + "\n"


def _paragraph(text: str) -> str:
    shown = re.sub(r"\[bold\](.*?)\[/\]", r"\1", text)
    example = re.fullmatch(r"([A-Z][^:`]*:) (foretide .*)", shown)
    return f"{example[1]} `{example[2]}`" if example else shown


def _table(params: list[Any]) -> str:
    rows = [_row(param) for param in params if param.name != "help"]
    if not rows:
        return ""
    return "\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows]) + "\n"


def _row(param: Any) -> str:
    if param.param_type_name == "argument":
        name = _usage(param)
    else:
        shown = param.metavar or (None if param.is_flag else _kind(param))
        name = ", ".join(param.opts) + (f" {shown}" if shown else "")
    cells = (f"`{name}`", getattr(param, "help", None) or "", _default(param))
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


def _kind(param: Any) -> str:
    """Return what an option takes, whichever way this version of typer keeps it."""
    if hasattr(param, "type_descriptor"):
        annotation = param.type_descriptor.annotation
        choices = get_args(annotation) if get_origin(annotation) is Literal else ()
        return "|".join(str(one) for one in choices) or _KINDS.get(annotation, "TEXT")
    return str(param.type.name).upper()


def _default(param: Any) -> str:
    if param.required:
        return "required"
    default = param.default
    if default is None or default == () or getattr(param, "is_flag", False) or callable(default):
        return ""
    return f"`{default}`"
