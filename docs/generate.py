"""Writes docs/reference/cli.md and the picture from the commands. Knows click's objects, not what a verb does.

python docs/generate.py            write the pages
python docs/generate.py --check    exit with 1 when a page is not what would be written
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pages
import picture

from memlake import errors
from memlake.cli.commands import SECTIONS, LazyGroup, memlake
from memlake.defaults import Settings

DOCS = Path(__file__).resolve().parent
CLI = DOCS / "reference" / "cli.md"
RUN = (DOCS / "tutorial.md", *sorted((DOCS / "how-to").glob("*.md")))  # pages whose commands are run
SHAPE: dict[str, Any] = {"terminal_width": 100, "max_content_width": 100, "help_option_names": ["-h", "--help"]}
HEAD = """\
# The command line

Written by `make docs` from the commands themselves; do not edit it. The same verbs are methods of `Repo` in Python.

Paths are relative to the folder you are in. The repo is the one in this folder or the nearest above it, or the one
`MEMLAKE_REPO` names. A rev is `HEAD` (or `@`), a branch, a tag, at least four characters of a commit id, with
`~2`, `^2`, `@{1}`, `@{yesterday}` or `@{2 hours ago}` after it; `A..B` and `A...B` are ranges. Commands that read print
one JSON document with `--json`.

A path may be a pattern in quotes: `'*.csv'`, `'data/*'`, `'run-[0-9]*'`. As in git, a wildcard also matches slashes,
and if a file has exactly the name of a pattern, the pattern means that file. Commands that change something refuse a
pattern that matches nothing; commands that only look show nothing for it.
"""
VARIABLES = (
    ("MEMLAKE_REPO", "the repo to use, instead of the one in this folder or above"),
    ("MEMLAKE_AUTHOR_NAME, MEMLAKE_AUTHOR_EMAIL", "who commits; else the settings, git's settings, user@host"),
    ("MEMLAKE_EDITOR", "the editor for messages; else core.editor, VISUAL, EDITOR, vi"),
    ("MEMLAKE_PAGER", "the program that shows long output; else core.pager, PAGER, less"),
    ("MEMLAKE_HOOK_SECONDS", "how many seconds a hook of a coding agent may take before it gives up; 1.5 unless set"),
    ("MEMLAKE_DEBUG", "any value except 0 shows tracebacks"),
    ("NO_COLOR, FORCE_COLOR", "never colour; always colour"),
    (
        "XDG_CONFIG_HOME",
        "the folder of your own settings (memlake/config.toml) and of the repos you trust (memlake/trusted)",
    ),
)
CODES = (
    (0, "done"),
    (1, "no: something differs (`--exit-code`), a conflict, nothing to do, an unknown command, fsck found a problem"),
    (2, "the command line cannot be understood"),
    (5, "`config --unset` of a setting that is not set"),
    (128, "it cannot be done: not found, refused, damaged, purged, disk full; the message says which"),
    (130, "interrupted"),
    (141, "the program that read the output has ended, as with `| head`"),
)


def page() -> str:
    """The whole page."""
    with click.Context(memlake, info_name="memlake", **SHAPE) as ctx:
        return "\n".join([HEAD, *_contents(), "## memlake\n", _help(memlake, ctx), *_verbs(ctx), *_tables()])


def _contents() -> Iterator[str]:
    yield "| | |\n|---|---|"
    for section, verbs in SECTIONS.items():
        yield f"| {section} | {', '.join(f'[{verb}](#memlake-{verb})' for verb in verbs)} |"
    yield ""


def _verbs(ctx: click.Context) -> Iterator[str]:
    assert isinstance(memlake, LazyGroup)
    for verbs in SECTIONS.values():
        for verb in verbs:
            command = memlake.get_command(ctx, verb)
            assert command is not None
            yield from _command(command, ctx, f"memlake {verb}")


def _command(command: click.Command, above: click.Context, name: str) -> Iterator[str]:
    with click.Context(command, above, name.rpartition(" ")[2], **SHAPE) as ctx:
        yield f"## {name}\n"
        yield _help(command, ctx)
        if isinstance(command, click.Group):
            for inner in command.list_commands(ctx):
                found = command.get_command(ctx, inner)
                assert found is not None
                yield from _command(found, ctx, f"{name} {inner}")


def _help(command: click.Command, ctx: click.Context) -> str:
    lines = "\n".join(line.rstrip() for line in command.get_help(ctx).splitlines())
    return f"```text\n{lines.strip()}\n```\n"


def _tables() -> Iterator[str]:
    yield "## Exit codes\n\n| code | means |\n|---|---|"
    yield from (f"| {code} | {means} |" for code, means in CODES)
    yield "\nThe codes are the same as git's, except 2."
    yield "\nErrors of the Python API carry the same code as `exit_code`, and a stable `kind`:\n"
    yield "| error | kind | exit code | HTTP status |\n|---|---|---|---|"
    for kind in _errors(errors.Error):
        yield f"| `{kind.__name__}` | {kind.kind} | {kind.exit_code} | {kind.http_status} |"
    yield "\n## Settings\n\nRead and changed with [memlake config](#memlake-config).\n"
    yield "| setting | default | what it is |\n|---|---|---|"
    for name, setting in vars(Settings).items():
        if hasattr(setting, "says"):
            default = str(setting.default).lower() if isinstance(setting.default, bool) else setting.default
            key = name.replace("_", ".", 1)
            yield f"| `{key}` | {default if default != '' else '-'} | {setting.says} |"
    yield "\n## Environment\n\n| variable | what it does |\n|---|---|"
    yield from (f"| `{name}` | {what} |" for name, what in VARIABLES)
    yield ""


def _errors(kind: type[errors.Error]) -> Iterator[type[errors.Error]]:
    for below in kind.__subclasses__():
        if below.__module__ != errors.__name__:
            continue  # a detail of the module that makes it
        yield below
        yield from _errors(below)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true", help="write nothing; exit with 1 when a page is stale")
    wanted = page()
    if options.parse_args().check:
        fresh = CLI.exists() and CLI.read_text(encoding="utf-8") == wanted
        sys.stdout.write("" if fresh else f"{CLI.name} is stale: run make docs\n")
        return 0 if fresh else 1
    CLI.parent.mkdir(exist_ok=True)
    CLI.write_text(wanted, encoding="utf-8")
    for file in RUN:
        fill(file)
    return picture.main()


def fill(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        file.write_text(pages.filled(text, pages.run(text, Path(folder))), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
