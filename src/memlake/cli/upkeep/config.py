"""config, completion, help: settings by key, the shells' scripts, and words about verbs."""

from __future__ import annotations

import functools
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from memlake import config as store
from memlake import memories
from memlake.cli.arguments import completing, json_option, pass_screen
from memlake.cli.exit_codes import exiting
from memlake.cli.screen import Screen
from memlake.errors import InvalidInput, Usage
from memlake.repo import read_repo_id, set_setting

_COMPLETE = "MEMLAKE_COMPLETE"
_NOT_SET = 5  # git's


@click.command()
@click.argument("key", required=False, shell_complete=completing("key"))
@click.argument("value", required=False)
@click.option("-l", "--list", "listing", is_flag=True, help="Every setting, its value and where that comes from.")
@click.option("--get", is_flag=True, help="Print the value of KEY, as KEY alone does.")
@click.option("--unset", is_flag=True, help="Take KEY out, so that its default holds.")
@click.option("--user", "--global", "of_user", is_flag=True, help="Your own settings, for every repo.")
@click.option("--local", is_flag=True, help="The settings of this repo; the default.")
@json_option
@pass_screen
def config(screen: Screen, /, *, key: str | None, value: str | None, of_user: bool, **how: bool) -> int:
    """Read a setting (KEY), change it (KEY VALUE) or list them all.

    A setting of this repo that names a program, an address or a place counts only in a repo you trust (see `memlake
    trust`). You trust what you set here yourself, unless the repo already has such settings that you did not trust.

    Exits with 1 when a setting that is read has no value, with 5 when one to take out was not set.
    """
    if of_user and how["local"]:
        raise Usage("--user and --local exclude each other.")
    root = None if of_user else store.find_repo()
    folder = store.repo_folder(root) if root else None
    repo_id = functools.partial(read_repo_id, folder) if folder else None
    where: store.Where = "user" if of_user else "repo"
    if key is None:
        if how["unset"] or not (how["listing"] or how["as_json"]):
            raise Usage("name a setting, or list them with --list.")
        _list(screen, store.list_values(folder, repo_id), as_json=how["as_json"])
    elif value is not None and (how["unset"] or how["get"] or how["listing"]):
        raise Usage(f"'{value}': a value is only taken to change a setting.")
    elif how["unset"]:
        return 0 if _set(folder, key, None, where) else _NOT_SET
    elif value is not None:
        memories.embedders.check_setting(key, value)
        _set(folder, key, value, where)
    else:
        with exiting(1, InvalidInput):
            return _get(screen, key, store.get_value(folder, key, repo_id), as_json=how["as_json"])
    return 0


def _set(folder: Path | None, key: str, value: str | None, where: store.Where) -> bool:
    return set_setting(folder, key, value) if folder else store.set_value(None, key, value, where)


def _get(screen: Screen, key: str, found: str | None, *, as_json: bool) -> int:
    if as_json:
        screen.json({"key": key, "value": found})
    elif found is not None:
        screen.line(screen.clean(found))
    return int(found is None)


def _list(screen: Screen, values: list[store.Value], *, as_json: bool) -> None:
    if as_json:
        screen.json({"settings": values})
        return
    for value in values:
        origin = "" if value.origin == "default" else f"  ({value.origin})"
        screen.line(f"{value.key}={screen.clean(value.text)}{origin}")
        if value.ignored:
            screen.line(f"  ignored: {screen.clean(value.ignored)}  (repo; you have not trusted it: memlake trust)")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  eval "$(memlake completion bash)"      in ~/.bashrc
    zsh:   eval "$(memlake completion zsh)"       in ~/.zshrc
    fish:  memlake completion fish > ~/.config/fish/completions/memlake.fish
    """
    script = get_completion_class(shell)
    if script is None:
        raise Usage(f"no completion for {shell}.")
    click.echo(script(ctx.find_root().command, {}, "memlake", _COMPLETE).source())


@click.command("help")
@click.argument("verb", required=False, shell_complete=completing("verb"))
@click.pass_context
def help_verb(ctx: click.Context, verb: str | None) -> None:
    """Explain VERB, or list all verbs."""
    root = ctx.find_root()
    group = root.command
    assert isinstance(group, click.Group)
    if verb is None:
        click.echo(group.get_help(root))
        return
    name, command, _ = group.resolve_command(root, [verb])
    assert command is not None
    with click.Context(command, info_name=name, parent=root) as about:
        click.echo(command.get_help(about))
