"""The verbs as click knows them: the table of them, the group, and click's own errors in our words. No verb's code.

`--help` reads the table below and imports no verb: start-up is what a person feels at every command.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from memlake import __version__
from memlake.cli.examples import epilog
from memlake.cli.failures import say, show_traceback
from memlake.errors import NotFound, Usage

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "init": ("memlake.cli.files.stage", "Make a repo in this folder or another."),
        "status": ("memlake.cli.files.status", "Show what is staged, changed and untracked."),
        "add": ("memlake.cli.files.stage", "Stage files and folders for the next commit."),
        "commit": ("memlake.cli.history.commit", "Commit what is staged."),
    },
    "Files": {
        "rm": ("memlake.cli.files.stage", "Remove files from this folder and the next commit."),
        "mv": ("memlake.cli.files.stage", "Move or rename files."),
        "restore": ("memlake.cli.files.restore", "Bring files back from the stage or a commit."),
        "cat": ("memlake.cli.files.browse", "Print a file as any commit has it."),
        "ls": ("memlake.cli.files.browse", "List the paths of a commit."),
        "ls-files": ("memlake.cli.files.clean", "List the files of this checkout, for scripts."),
        "grep": ("memlake.cli.files.grep", "Find lines in files and memories, of any commit."),
        "clean": ("memlake.cli.files.clean", "Remove files that are not tracked."),
    },
    "History": {
        "log": ("memlake.cli.history.log", "Show commits."),
        "show": ("memlake.cli.history.show", "Show a commit with its changes, or a file at a commit."),
        "diff": ("memlake.cli.history.diff", "Show what differs between files, stage and commits."),
        "metrics": ("memlake.cli.history.metrics", "Show the metrics that commits record, with differences."),
        "blame": ("memlake.cli.files.browse", "Show which commit wrote each line."),
        "bisect": ("memlake.cli.history.bisect", "Find the commit that first went wrong."),
        "reflog": ("memlake.cli.history.log", "Show where HEAD or a branch has been."),
        "lineage": ("memlake.cli.history.lineage", "Show what a thing was made from, and what was made from it."),
        "tag": ("memlake.cli.history.tag", "List, make or delete tags."),
        "describe": ("memlake.cli.history.names", "Name a commit by the nearest tag."),
        "rev-parse": ("memlake.cli.history.names", "Print the commit id of a revision, for scripts."),
    },
    "Branches": {
        "branch": ("memlake.cli.branches.branch", "List, make, rename or delete branches."),
        "switch": ("memlake.cli.branches.branch", "Go to another branch."),
        "checkout": ("memlake.cli.branches.branch", "Go to a branch or commit, or bring files back."),
        "merge": ("memlake.cli.branches.merge", "Merge another branch into this one."),
        "conflicts": ("memlake.cli.branches.conflicts", "List what a waiting merge has to decide."),
        "resolve": ("memlake.cli.branches.conflicts", "Settle conflicts, place by place."),
        "cherry-pick": ("memlake.cli.branches.merge", "Apply the changes of a commit to this branch."),
        "rebase": ("memlake.cli.branches.rebase", "Repeat the commits of a branch on top of another."),
        "revert": ("memlake.cli.branches.merge", "Undo the changes of a commit with a new commit."),
        "reset": ("memlake.cli.files.restore", "Move the branch to a commit, or unstage paths."),
        "promote": ("memlake.cli.branches.promote", "Take paths over to a branch exactly as another has them."),
        "stash": ("memlake.cli.branches.stash", "Put changes aside, and take them back later."),
    },
    "Sharing": {
        "clone": ("memlake.cli.sync.share", "Make a repo with the history of another."),
        "remote": ("memlake.cli.sync.remote", "List the places this repo is shared with, and add more."),
        "fetch": ("memlake.cli.sync.share", "Bring what a remote has."),
        "pull": ("memlake.cli.sync.share", "Fetch, and join what came to this branch."),
        "push": ("memlake.cli.sync.share", "Send branches and tags to a remote."),
        "drop": ("memlake.cli.sync.share", "Let the content of files be at a remote only."),
        "bundle": ("memlake.cli.sync.bundle", "Write branches with all they need into one file."),
        "archive": ("memlake.cli.sync.archive", "Move the data of old commits into one file at a remote."),
    },
    "Datasets": {
        "dataset": ("memlake.cli.dataset.group", "Look at datasets, compare, export, delete and restore them."),
        "run": ("memlake.cli.dataset.runs", "Run a script with params, and list what it saved."),
        "rebuild": ("memlake.cli.dataset.rebuild", "Run what made a version or a file again, and compare."),
        "runs": ("memlake.cli.dataset.runs", "List chains that ended without a save, and save them after all."),
    },
    "Memory": {
        "remember": ("memlake.cli.memory.remember", "Store one fact for later."),
        "recall": ("memlake.cli.memory.recall", "Find what was remembered."),
        "why": ("memlake.cli.memory.why", "Show when a memory was told, to whom and why."),
        "why-not": ("memlake.cli.memory.why", "Show what keeps a memory from being told."),
        "doubt": ("memlake.cli.memory.doubt", "List memories whose foundation changed, and settle them."),
        "embed": ("memlake.cli.memory.embed", "Compute the vectors that memories still lack."),
        "recalls": ("memlake.cli.memory.why", "List what was told on this machine."),
        "recall-diff": ("memlake.cli.memory.why", "Show whose answers differ between two branches or models."),
        "recall-test": ("memlake.cli.memory.why", "Ask golden questions, and check the answers."),
        "memory": ("memlake.cli.memory.group", "Look at memories, change, forget and restore them."),
        "state": ("memlake.cli.memory.state", "Read and change what agents keep under keys."),
        "mcp": ("memlake.mcp.command", "Serve memories to agents over MCP, or set up a client."),
        "hook": ("memlake.cli.hook.group", "Bring memories into a coding agent, and store what it says."),
    },
    "Upkeep": {
        "undo": ("memlake.cli.upkeep.undo", "Take back the last operation, whatever it was."),
        "redo": ("memlake.cli.upkeep.undo", "Do again what the last undo took back."),
        "ops": ("memlake.cli.upkeep.undo", "List the operations done in this checkout."),
        "du": ("memlake.cli.upkeep.storage", "Show how many bytes the repo takes, and for what."),
        "tier": ("memlake.cli.upkeep.tier", "Move what nobody has read for long to a colder place."),
        "gc": ("memlake.cli.upkeep.storage", "Remove what nothing needs any more."),
        "fsck": ("memlake.cli.upkeep.check", "Check what is stored against its hashes."),
        "doctor": ("memlake.cli.upkeep.check", "Check this machine and repo, and name a cure for each fault."),
        "backup": ("memlake.cli.upkeep.storage", "Copy the repo into one file."),
        "rescue": ("memlake.cli.upkeep.storage", "Make a repo again from its packs alone."),
        "purge": ("memlake.cli.upkeep.purge", "Erase content for good and leave a tombstone."),
    },
    "Settings": {
        "config": ("memlake.cli.upkeep.config", "Read and change settings."),
        "trust": (
            "memlake.cli.upkeep.trust",
            "Allow settings of a repo that run programs or reach other places.",
        ),
        "completion": ("memlake.cli.upkeep.config", "Print the completion script of a shell."),
        "help": ("memlake.cli.upkeep.config", "Explain a verb."),
    },
}
VERBS = {verb: entry for section in SECTIONS.values() for verb, entry in section.items()}


class LazyGroup(click.Group):
    """The verbs by the table: a verb's module is imported when the verb runs, never for the list of them."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        names = vars(importlib.import_module(VERBS[cmd_name][0])).values()
        command = next(found for found in names if isinstance(found, click.Command) and found.name == cmd_name)
        command.epilog = epilog(cmd_name)
        for name, inner in command.commands.items() if isinstance(command, click.Group) else ():
            inner.epilog = epilog(f"{cmd_name} {name}")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-") and not ctx.resilient_parsing:
            unknown = Usage(f"'{args[0]}' is not a memlake command.", hint=_verb_hint(args[0]))
            unknown.exit_code = 1  # as git's
            raise unknown
        return super().resolve_command(ctx, args)

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, verbs in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(f"{verb:<11}", line) for verb, (_, line) in verbs.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(verb, help=line) for verb, (_, line) in VERBS.items() if verb.startswith(incomplete)]
        return verbs + click.Command.shell_complete(self, ctx, incomplete)


def _verb_hint(word: str) -> str:
    import difflib

    near = difflib.get_close_matches(word, VERBS, n=3, cutoff=0.6)
    return f"Did you mean {' or '.join(repr(verb) for verb in near)}?" if near else "See `memlake --help`."


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if not value or ctx.resilient_parsing:
        return
    click.echo(f"memlake {__version__}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("-C", "folders", multiple=True, metavar="DIR", help="Run as if started in DIR.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    is_flag=False,
    flag_value="always",
    default="auto",
    help="When to colour output.",
)
@click.option("--pager/--no-pager", "pager", default=True, help="Show long output in a pager.")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
@click.pass_context
def memlake(ctx: click.Context, /, folders: tuple[str, ...], **_output: object) -> None:
    """memlake keeps files, datasets and agent memories in one versioned repo, with the verbs of git."""
    for folder in folders:
        _go_to(folder)
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(1)


def _go_to(folder: str) -> None:
    try:
        os.chdir(folder)
    except (OSError, ValueError) as error:  # a ValueError for NUL in a name
        raise NotFound(f"cannot change to '{folder}': {getattr(error, 'strerror', error)}.") from error


def run(args: Sequence[str], completion: str = "") -> int:
    """Run one command line as click reads it; `completion` is what a shell asks instead. Returns the exit code."""
    try:
        if completion:
            from click.shell_completion import add_completion_class, shell_complete

            add_completion_class(importlib.import_module("memlake.cli.completion").Bash)
            return shell_complete(memlake, {}, "memlake", "MEMLAKE_COMPLETE", completion)
        with memlake.make_context("memlake", list(args)) as ctx:
            code = memlake.invoke(ctx)
        return code if isinstance(code, int) else 0
    except click.Abort as stop:
        raise KeyboardInterrupt(*stop.args) from stop
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        show_traceback()
        return _report(error)


def _report(error: click.ClickException) -> int:
    message, hint = error.format_message(), ""
    if isinstance(error, click.NoSuchOption):  # click itself suggests options that have little but their dashes alike
        near = importlib.import_module("memlake.cli.suggest").option_hint(error)
        message = f"{error.message} {near}".rstrip()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # as `memlake` alone: the list of what there is
        say("", message)
        return 1
    if isinstance(error, click.UsageError) and error.ctx is not None:
        message += f"\n{error.ctx.get_usage().replace('Usage:', 'usage:')}"
        hint = f"See `{error.ctx.command_path} --help`."
        if error.message.startswith("No such command '"):
            word = error.message.split("'")[1]
            near = importlib.import_module("memlake.cli.suggest").command_hint(error.ctx, word)
            hint = f"{near}\n{hint}".strip()
    say("error", message, hint)
    return error.exit_code
