"""Runs the examples of a page, compares what they print with what the page says, or writes it in. Knows no verb.

A `console` block holds commands (`$ ...`) and what each prints; a `python` block is a script. All blocks of a page
run in order, in one shell, in an empty folder. Ids, times and sizes differ from run to run and are not compared.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAME = (
    (r"\b[0-9a-f]{10,64}\b", "<id>"),
    (r"\b\w{3} \w{3} \d+ \d\d:\d\d:\d\d \d{4} [+-]\d{4}", "<time>"),
    (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}", "<time>"),
    (r"\b\d+ (seconds?|minutes?) ago", "<ago>"),
    (r"\b\d+(\.\d)? [KM]?i?B\b", "<size>"),
    (r"(?<![\w.])/\S+/(pets|shared|theirs)\b", r"/home/ada/\1"),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-(<id>|[0-9a-f]{12})", "<id>"),
    (r"\b\d{4}-\d\d-\d\d\b", "<date>"),
    (r" +", " "),
)
MARK = "@@step@@"


@dataclass(frozen=True)
class Step:
    """One command of a page and what the page says it prints; a block of Python says nothing."""

    command: str
    says: str | None


@dataclass(frozen=True)
class Ran:
    step: Step
    printed: str
    code: int

    @property
    def problem(self) -> str:
        """What is wrong, or nothing. A command may fail where the page shows the error, and a grep may find nothing."""
        says, command = self.step.says, self.step.command
        if self.code and not (says and re.match("error:|fatal:", says)) and not command.startswith("grep "):
            return f"$ {command}\nended with {self.code}:\n{self.printed}"
        if says is not None and alike(says) != alike(self.printed):
            return f"$ {command}\nprinted:\n{self.printed}\nbut the page says:\n{says}"
        return ""


def steps(text: str) -> Iterator[Step]:
    for found in BLOCK.finditer(text):
        if found[1] == "python":
            yield Step(f"{shlex.quote(sys.executable)} -c {shlex.quote(found[2])}", None)
            continue
        for one in re.split(r"^\$ ", found[2], flags=re.MULTILINE)[1:]:
            command, _, says = one.partition("\n")
            yield Step(command, says.rstrip("\n"))


def run(text: str, folder: Path) -> list[Ran]:
    """Run a page in `folder`, which is left behind."""
    todo = list(steps(text))
    script = "".join(f"{{ {step.command}\n}} 2>&1; printf '\\n{MARK}%d\\n' $?\n" for step in todo)
    home, work = folder / "home", folder / "work"
    home.mkdir()
    work.mkdir()
    env = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "TZ": "UTC",
        "MEMLAKE_AUTHOR_NAME": "Ada", "MEMLAKE_AUTHOR_EMAIL": "ada@example.org", "LANG": "C.UTF-8",
        "MEMLAKE_HOOK_SECONDS": "100", "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }  # fmt: skip
    command = ["bash", "-c", script]
    done = subprocess.run(
        command, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
    )
    pieces = re.split(rf"\n{MARK}(\d+)\n", done.stdout)
    if len(pieces) != 2 * len(todo) + 1:
        raise RuntimeError(f"the shell stopped early:\n{done.stdout[-2000:]}{done.stderr}")
    return [Ran(step, pieces[2 * n].rstrip("\n"), int(pieces[2 * n + 1])) for n, step in enumerate(todo)]


def alike(text: str) -> str:
    for pattern, word in SAME:
        text = re.sub(pattern, word, text)
    return "\n".join(line.strip() for line in text.splitlines())


def filled(text: str, ran: list[Ran]) -> str:
    """The page with what its commands printed; where that is alike, what it says stays."""
    left = iter(ran)

    def block(found: re.Match[str]) -> str:
        if found[1] == "python":
            next(left)
            return found[0]
        mine = [next(left) for _ in re.findall(r"^\$ ", found[2], re.MULTILINE)]
        return "```console\n" + "".join(f"$ {one.step.command}\n{_output(one)}" for one in mine) + "```"

    return BLOCK.sub(block, text)


def _output(one: Ran) -> str:
    same = one.step.says is not None and alike(one.step.says) == alike(one.printed)
    text = (one.step.says or "") if same else re.sub(*SAME[5], one.printed)
    return f"{text}\n" if text else ""
