"""The tools that are compared, each a table of the commands it needs for a verb, and how peers are installed.

Every verb runs as processes in the tool's own repo folder. Knows no figures and no targets.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

from measure import NOTHING, CommandFailed, Cost, Place, run

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its command lines by verb, the folders it stores in, and how often a slow one is repeated."""

    name: str
    version: str
    store: tuple[str, ...]
    verbs: Mapping[str, tuple[str, ...]]
    rounds: int = 100

    def do(self, verb: str, place: Place, **words: str | int) -> Cost:
        """Run the commands of a verb and add up what they cost."""
        if verb not in self.verbs:
            raise CommandFailed(f"{self.name} has no way to {verb}")
        total = NOTHING
        for line in self.verbs[verb]:
            cost = run([part.format(**words) for part in shlex.split(line)], place)
            total += replace(cost, cpu=_own_clock(cost)) if self.name == "Oxen" else cost
        return total


GIT = {
    "init": ("git init -q -b main .", "git config gc.auto 0"),
    "record": ("git add {path}", "git commit -q -m {message}"),
    "status": ("git status --short",),
    "branch": ("git branch {name}",),
    "start": ("git switch -q -c {name}",),
    "switch": ("git switch -q {name}",),
    "merge": ("git merge -q --no-edit {name}",),
    "diff": ("git diff --name-status {old} {new}",),
    "help": ("git --help",),
}

# DVC versions data beside git, so each verb is git's and its own; autostage lets `dvc add` stage its .dvc file.
DVC = {
    "init": (
        "git init -q -b main .",
        "git config gc.auto 0",
        "dvc init -q",
        "dvc config core.analytics false",
        "dvc config core.check_update false",
        "dvc config core.autostage true",
        "git config merge.dvc.name dvc",
        "git config merge.dvc.driver 'dvc git-hook merge-driver --ancestor %O --our %A --their %B'",
        "sh -c \"echo '*.dvc merge=dvc' > .gitattributes\"",
        "git add -A",
        "git commit -q -m init",
    ),
    "record": ("dvc add -q {path}", "git add -A", "git commit -q -m {message}"),
    "status": ("dvc status", "git status --short"),
    "branch": ("git branch {name}",),
    "start": ("git switch -q -c {name}",),
    "switch": ("git switch -q {name}", "dvc checkout -q"),
    "merge": ("git merge -q --no-edit {name}", "dvc checkout -q"),
    "diff": ("dvc diff --json {old} {new}",),
    "help": ("dvc --help",),
}

MEMLAKE = {
    "init": ("memlake init",),
    "record": ("memlake add {path}", "memlake commit -m {message}"),
    "status": ("memlake status",),
    "branch": ("memlake branch {name}",),
    "start": ("memlake switch -c {name}",),
    "switch": ("memlake switch {name}",),
    "merge": ("memlake merge {name}",),
    "diff": ("memlake diff --name-status {old}..{new}",),
    "help": ("memlake --help",),
    "add": ("memlake add {path}",),
    "commit": ("memlake commit -m {message}",),
    "fetch": ("memlake checkout HEAD -- {path}",),
}


def git() -> Tool:
    text = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout
    return Tool("git", text.split()[-1], (".git",), GIT)


def memlake() -> Tool | None:
    if not Path(sys.executable).with_name("memlake").exists():
        print(f"memlake is left out: it is not installed beside {sys.executable}", file=sys.stderr)
        return None
    return Tool("memlake", version("memlake"), (".memlake",), MEMLAKE)


def dvc(cache: Path) -> Tool | None:
    found = installed(cache, "dvc")
    return Tool("DVC", found, (".git", ".dvc"), DVC, rounds=2) if found else None


def oxen(cache: Path) -> Tool | None:
    found = installed(cache, "oxenai")
    driver = f"{shlex.quote(str(cache / 'oxenai/bin/python'))} {shlex.quote(str(HERE / 'oxen_driver.py'))}"
    verbs = {
        "init": (f"{driver} init",),
        "record": (f"{driver} record {{path}} {{message}}",),
        "status": (f"{driver} status",),
        "start": (f"{driver} start {{name}}",),
        "switch": (f"{driver} switch {{name}}",),
        "merge": (f"{driver} merge {{name}}",),
    }
    return Tool("Oxen", found, (".oxen",), verbs, rounds=2) if found else None


def environment(work: Path, cache: Path) -> dict[str, str]:
    """What children see: a home of their own, one author, no telemetry, byte code kept as after any install."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
    who = {f"GIT_{role}_{part}": value for role in ("AUTHOR", "COMMITTER") for part, value in AUTHOR.items()}
    return {
        **kept,
        **who,
        **{f"MEMLAKE_AUTHOR_{part}": value for part, value in AUTHOR.items()},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(cache / "dvc/bin"), kept["PATH"]]),
        "HOME": str(work / "home"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "DVC_NO_ANALYTICS": "1",
        "DVC_SITE_CACHE_DIR": str(work / "dvc-site"),
        "NO_COLOR": "1",
    }


AUTHOR = {"NAME": "bench", "EMAIL": "bench@example.com"}


def installed(cache: Path, package: str) -> str:
    """The version of a peer in an environment of its own, made on the first run; empty when that fails."""
    name = package.partition("[")[0].partition("==")[0]
    home = cache / name
    ask = [str(home / "bin/python"), "-c", f"import importlib.metadata as m; print(m.version('{name}'))"]
    if not _answers(ask):
        print(f"installing {package} into {home} ...", file=sys.stderr)
        cache.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(home, ignore_errors=True)
        for argv in ([sys.executable, "-m", "venv", str(home)], [str(home / "bin/pip"), "install", "-q", package]):
            done = subprocess.run(argv, check=False, capture_output=True, text=True)
            if done.returncode:
                reason = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
                print(f"{package} is left out: its install failed: {reason[0]}", file=sys.stderr)
                return ""
    return _answers(ask)


def _answers(argv: list[str]) -> str:
    if not Path(argv[0]).exists():
        return ""
    return subprocess.run(argv, check=False, capture_output=True, text=True).stdout.strip()


def _own_clock(cost: Cost) -> float:
    """The CPU seconds the Oxen driver counted itself, without the import of its package."""
    return float(cost.out.strip().splitlines()[-1].split()[1])
