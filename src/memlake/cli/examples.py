"""An example or two of every command, shown below its options by `--help`. Pure text; each line is parsed in a test.

Commands whose help is a list of their uses already (log, diff, checkout, merge, completion) have none here.
"""

from __future__ import annotations

EXAMPLES: dict[str, tuple[str, ...]] = {
    "init": ("memlake init", "memlake init -b trunk ~/pets"),
    "status": ("memlake status", "memlake status --short"),
    "add": ("memlake add data/ params.json", "memlake add -A"),
    "commit": ('memlake commit -m "New labels" --metric acc=0.91', 'memlake commit -m "Only this file" params.json'),
    "rm": ("memlake rm old.csv", "memlake rm -r --cached models/"),
    "mv": ("memlake mv old.csv data/train.csv",),
    "restore": ("memlake restore params.json", "memlake restore --source HEAD~2 data/"),
    "cat": ("memlake cat params.json", "memlake cat HEAD~2:data/train.csv"),
    "ls": ("memlake ls -l", "memlake ls HEAD~2 data/"),
    "show": ("memlake show", "memlake show main~2:params.json"),
    "blame": ("memlake blame params.json",),
    "reflog": ("memlake reflog", "memlake reflog main"),
    "tag": ("memlake tag v1.0", 'memlake tag -a -m "As published" v1.0 HEAD~2'),
    "branch": ("memlake branch experiment HEAD~2", "memlake branch -d experiment"),
    "switch": ("memlake switch -c experiment", "memlake switch -"),
    "cherry-pick": ("memlake cherry-pick experiment~1",),
    "revert": ("memlake revert HEAD~1",),
    "reset": ("memlake reset params.json", "memlake reset --hard HEAD~1"),
    "stash": ('memlake stash -m "half done"', "memlake stash pop"),
    "stash push": ('memlake stash push -u -m "half done"',),
    "stash pop": ("memlake stash pop",),
    "stash apply": ("memlake stash apply stash@{1}",),
    "stash list": ("memlake stash list",),
    "stash clear": ("memlake stash clear",),
    "stash drop": ("memlake stash drop 1",),
    "stash show": ("memlake stash show -p",),
    "undo": ("memlake undo",),
    "redo": ("memlake redo",),
    "ops": ("memlake ops -n 5",),
    "du": ("memlake du",),
    "gc": ("memlake gc --dry-run", "memlake gc --prune"),
    "fsck": ("memlake fsck --full",),
    "doctor": ("memlake doctor",),
    "backup": ("memlake backup ../pets.tar",),
    "purge": ('memlake purge --all-versions secret.txt --reason "leaked token"',),
    "config": ('memlake config --user user.name "Ada Lovelace"', "memlake config --list"),
    "help": ("memlake help commit",),
}


def epilog(command: str) -> str | None:
    """The examples as click shows them, without folding their lines."""
    lines = EXAMPLES.get(command, ())
    title = "Examples:" if len(lines) > 1 else "Example:"
    return "\n".join(("\b", title, *(f"  {line}" for line in lines))) if lines else None
