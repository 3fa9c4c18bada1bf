"""Shell completion scripts, generated from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from projector.cli.commands import build_parser


class Context(NamedTuple):
    """Possible words after a command."""

    path: str
    """The command, such as `config check`; empty for the program itself."""
    options: dict[str, tuple[str, ...] | None]
    """Option -> values that can follow it, none if a file or any text can; None if nothing follows."""
    words: tuple[str, ...]
    """Subcommands or values; none where a file or any text is expected."""
    help: dict[str, str]
    """Option or word -> its description."""


def print_script(arguments: argparse.Namespace) -> int:
    """Print the script for a shell."""
    print("\n".join(SCRIPTS[arguments.shell](list(contexts(build_parser())))))
    return 0


def contexts(parser: argparse.ArgumentParser, path: str = "") -> Iterator[Context]:
    """Yield the context of a parser, then those of its subcommands."""
    options: dict[str, tuple[str, ...] | None] = {}
    words: tuple[str, ...] = ()
    about: dict[str, str] = {}
    inner: list[Context] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of arguments
        choices = tuple(map(str, action.choices or ()))
        for option in action.option_strings:
            options[option] = None if action.nargs == 0 else choices
            about[option] = (action.help or "") % {"default": action.default}
        words = words or (() if action.option_strings else choices)
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - it has no public name
            about |= {one.dest: one.help or "" for one in action._choices_actions}  # noqa: SLF001 - as above
            for name, command in action.choices.items():
                inner += contexts(command, f"{path} {name}".strip())
    yield Context(path, options, words, about)
    yield from inner


def _bash(found: list[Context]) -> Iterator[str]:
    paths = " | ".join(f'" {one.path}"' for one in found if one.path)
    yield from (
        "_projector() {",
        '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '    local path="" word words options',
        '    for word in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do',
        f'        case "$path $word" in {paths}) path="$path $word" ;; esac',
        "    done",
        '    case "$path" in',
    )
    by_path = {f" {one.path}" if one.path else "": one for one in found}
    for path, one in by_path.items():
        yield f'        "{path}") words="{" ".join(one.words)}" options="{" ".join(one.options)}" ;;'
    yield from ("    esac", '    case "$path $previous" in')
    for path, one in by_path.items():
        for option, values in one.options.items():
            if values:
                yield f'        "{path} {option}") words="{" ".join(values)}" options="" ;;'
    yield from (
        "    esac",
        '    if [[ "$current" == -* ]]; then words="$options"; fi',
        '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
        "}",
        "complete -o default -F _projector projector",
    )


def _zsh(found: list[Context]) -> Iterator[str]:
    yield "autoload -U +X compinit bashcompinit && compinit && bashcompinit"
    head, *rest = _bash(found)
    yield from (head, "    setopt localoptions ksharrays  # arrays begin at 0, as in bash", *rest)


def _fish(found: list[Context]) -> Iterator[str]:
    yield "complete -c projector -f"
    for one in found:
        seen = [f"__fish_seen_subcommand_from {word}" for word in one.path.split()]
        # without this, the subcommands would be offered again after one of them
        unseen = [f"not __fish_seen_subcommand_from {' '.join(one.words)}"] if one.words else []
        start = f"complete -c projector -n '{'; and '.join([*seen, *unseen])}'"
        for word in one.words:
            yield f"{start} -a {word} -d {_quoted(one.help.get(word, ''))}"
        for option, values in one.options.items():
            if option.startswith("--"):
                following = "" if values is None else f" -x -a '{' '.join(values)}'" if values else " -r -F"
                yield f"{start} -l {option[2:]}{following} -d {_quoted(one.help[option])}"
        if not one.words:
            yield f"{start} -F"


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"  # fish has escapes inside single quotes


SCRIPTS: Final[Mapping[str, Callable[[list[Context]], Iterator[str]]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
