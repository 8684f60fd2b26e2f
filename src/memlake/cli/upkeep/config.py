"""config, completion, help: settings by key, completion scripts of shells, and help about verbs."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import click
from click.shell_completion import get_completion_class

from memlake import config as store
from memlake import memories
from memlake.cli.arguments import JSON, complete_with, open_screen_only, verb
from memlake.cli.screen import Screen
from memlake.cli.suggest import exit_with
from memlake.errors import InvalidInput, Usage
from memlake.repo import read_repo_id, set_setting

_COMPLETE = "MEMLAKE_COMPLETE"
_NOT_SET = 5  # git's


@verb(opens=open_screen_only, shared=[JSON])
@click.argument("key", required=False, shell_complete=complete_with("key"))
@click.argument("value", required=False)
@click.option("-l", "--list", "listing", is_flag=True, help="List every setting, its value and where it comes from.")
@click.option("--get", is_flag=True, help="Print the value of KEY; the same as KEY alone.")
@click.option("--unset", is_flag=True, help="Remove KEY, so that its default applies.")
@click.option("--user", "--global", "of_user", is_flag=True, help="Use your own settings, for every repo.")
@click.option("--local", is_flag=True, help="Use the settings of this repo; the default.")
def config(screen: Screen, /, *, key: str | None, value: str | None, of_user: bool, **how: bool) -> int:
    """Read a setting (KEY), change it (KEY VALUE) or list them all.

    If a setting of this repo names a program, an address or a place, it counts only if you trust the repo (see
    `memlake trust`). What you set yourself is trusted, unless the repo already has such settings that you do not trust.

    The exit code is 1 if the setting has no value, and 5 if --unset is used on a setting that is not set.
    """
    if of_user and how["local"]:
        raise Usage("--user and --local cannot be used together.")
    root = None if of_user else store.find_repo()
    folder = store.repo_folder(root) if root else None
    repo_id = functools.partial(read_repo_id, folder) if folder else None
    where: store.Where = "user" if of_user else "repo"
    if key is None:
        if how["unset"] or not (how["listing"] or screen.as_json):
            raise Usage("name a setting, or list all of them with --list.")
        values = store.list_values(folder, repo_id)
        screen.show({"settings": values}, _list(screen, values), pages=False)
    elif value is not None and (how["unset"] or how["get"] or how["listing"]):
        raise Usage(f"a value ('{value}') can only be given to change a setting.")
    elif value is not None or how["unset"]:
        if value is not None:
            memories.embedders.check_setting(key, value)
        done = set_setting(folder, key, value) if folder else store.set_value(None, key, value, where)
        return 0 if done or value is not None else _NOT_SET
    else:
        with exit_with(1, InvalidInput):
            text = store.get_value(folder, key, repo_id)
        screen.show({"key": key, "value": text}, [] if text is None else [screen.clean(text)], pages=False)
        return int(text is None)
    return 0


def _list(screen: Screen, values: list[store.Value]) -> Iterator[str]:
    for value in values:
        origin = "" if value.origin == "default" else f"  ({value.origin})"
        yield f"{value.key}={screen.clean(value.text)}{origin}"
        if value.ignored:
            yield f"  ignored: {screen.clean(value.ignored)}  (from the repo, which you do not trust: memlake trust)"


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
        raise Usage(f"there is no completion for {shell}.")
    click.echo(script(ctx.find_root().command, {}, "memlake", _COMPLETE).source())


@click.command("help")
@click.argument("verb", required=False, shell_complete=complete_with("verb"))
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
