"""Every command line that a message of memlake names, read from the source, so that no hint escapes the tests.

A command stands in backticks or double quotes, or bare after one of `LEADS` until a full stop, comma, semicolon,
bracket or the end of its line. Anything else that begins like one is prose in which a reader cannot tell where the
command ends: its text is empty here. A value that is put in stands as `⟦expression⟧`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from memlake.cli.commands import VERBS

SOURCE = Path(__file__).resolve().parents[1] / "src" / "memlake"
EXAMPLES = "cli/examples.py"  # what --help shows
LEADS = (": ", "Run ", "run ", "(", ", ", "&& ", "| ", "  ", "\n", "⟧")
VALUE = re.compile(r"⟦([^⟧]*)⟧")
_START = re.compile(r"memlake (?=(?:-C \S+ )?(?:" + "|".join(map(re.escape, VERBS)) + r"|⟦[^⟧]*⟧)(?![\w-]))")
_BARE_END = re.compile(r"(?<! )[.,;)]+(?=\s|$)| \(|`|\n|$| && | \| | > ")


@dataclass(frozen=True)
class Text:
    """A string of the source with its values as `⟦expression⟧`."""

    module: str
    number: int
    text: str


@dataclass(frozen=True)
class Hint:
    """One command in one line of a message."""

    module: str
    number: int
    line: str
    command: str

    @property
    def key(self) -> tuple[str, str]:
        """The line and the command as a table of tests writes them: a value is `{}`, whatever computes it."""
        return _blank(self.line), _blank(self.command)

    @property
    def values(self) -> list[str]:
        return VALUE.findall(self.command)

    def __str__(self) -> str:
        return f"{self.module}:{self.number}: {self.line}"


def _blank(template: str) -> str:
    return VALUE.sub("{}", template)


@cache
def collect() -> tuple[Hint, ...]:
    """Every command that a message names; the examples of --help too."""
    return tuple(hint for path in sorted(SOURCE.rglob("*.py")) for text in _read_texts(path) for hint in _find(text))


def _find(text: Text) -> Iterator[Hint]:
    for start in _START.finditer(text.text):
        line = text.text[text.text.rfind("\n", 0, start.start()) + 1 :].partition("\n")[0]
        yield Hint(text.module, text.number, line.strip(), _read_command(text.text, start.start(), start.end()))


def _read_command(text: str, start: int, end: int) -> str:
    before, rest = text[:start], text[end:]
    if before[-1:] in ("`", '"'):
        return "memlake " + rest.partition(before[-1])[0]
    if before and not before.endswith(LEADS):
        return ""
    found = _BARE_END.search(VALUE.sub(lambda value: "x" * len(value[0]), rest))
    return "memlake " + (rest[: found.start()].rstrip() if found else rest)


# -- strings of a module --------------------------------------------------------------------------


def _read_texts(path: Path) -> Iterator[Text]:
    """Every string but docstrings; f-strings and sums of strings whole."""
    tree, module = ast.parse(path.read_text(encoding="utf-8")), path.relative_to(SOURCE).as_posix()
    seen: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            seen.update(first.value for first in node.body[:1] if isinstance(first, ast.Expr))
        if node not in seen and isinstance(node, ast.expr) and (text := _template(node)) is not None:
            seen.update(_pieces(node))
            yield Text(module, node.lineno, text)


def _pieces(node: ast.AST) -> Iterator[ast.AST]:
    """The pieces of a string, without those inside the values put in, which are strings of their own."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant | ast.JoinedStr | ast.BinOp):
            yield child
            yield from _pieces(child)


def _template(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) or "" for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return _value(node.value)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _template(node.left), _template(node.right)
        if left is not None or right is not None:
            return (left or _value(node.left)) + (right or _value(node.right))
    return None


def _value(node: ast.expr) -> str:
    return f"⟦{ast.unparse(node).replace('memlake ', '')}⟧"  # a command in it is found as a string of its own
