"""The layer table of docs/design/layers.md and the size limits, enforced on the source; each check fails once."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PACKAGE = "memlake"
LONGEST_FUNCTION = 60
LONGEST_FILE = 800
BANNED = {"utils", "util", "helpers", "common", "base", "manager", "service", "misc"}
READS_ENVIRONMENT = f"{PACKAGE}.config"
DOOR = 5
MAY_GO_SIDEWAYS = (0, 4)  # views show what Repo gives
LOADS_PICKLES = {
    f"{PACKAGE}.dataset.executors.messages",  # from a worker process that we started, over a pipe of ours
    f"{PACKAGE}.dataset.run.call_work",  # of bytes it has just made, to see whether an error can be sent at all
}
TRUTH = ("history", "lease", "meta", "node", "object", "pack", "purge", "ref", "reflog", "stray", "tombstone")
NAMES_TRUTH = re.compile(rf"\b(FROM|INTO|UPDATE|JOIN)\s+({'|'.join(TRUTH)})\b")
HOLDS_TRUTH = (f"{PACKAGE}.objects.tables", f"{PACKAGE}.versions.tables")
OTHER_META = {
    f"{PACKAGE}.objects.db",  # asks a file for its format before it trusts any of its tables
    f"{PACKAGE}.index.embedding_store",  # vectors.db has a table of that name, too
    f"{PACKAGE}.index.index",  # so has index.db
    f"{PACKAGE}.index.rows",
}
COMPOSES_SQL = f"{PACKAGE}.rows.sql"
OWN_SQL = {  # functions that put parts of one statement of their own together
    "memlake.versions.verbs.undo": {"_find_last"},
    "memlake.versions.upkeep.rebuild": {"_track"},
    "memlake.objects.db": {"_prepare", "_orphans"},
}
QUOTES_NAMES = f"{PACKAGE}.identifiers"
COMPOSERS = {"compose": 0, "template": 0, "_form": 1}  # and which argument is the text
LOOKS_LIKE_SQL = re.compile(
    r"\b(SELECT|INSERT (OR \w+ )?INTO|UPDATE \w+ SET|DELETE FROM|CREATE (TEMP )?(TABLE|VIEW|INDEX)|DROP TABLE"
    r"|ALTER TABLE|UNION ALL|GROUP BY|ORDER BY|LEFT JOIN|PRAGMA|ATTACH)\b"
)
# What all threads and verbs share. A verb hands on what it found; it does not leave it here for another to find.
SHARED_CLASSES = {"History", "Local", "Opened", "Repo", "Checkout", "Shared", "Store"}
SHARED_NAMES = {"history", "local", "here", "repo", "shared"}
MAY_ASSIGN = {"__init__", "open", "close"}
OPENED_LATER = {  # parts that are opened by whoever needs them first, and are the same for all
    ("Opened", "_identity"),
    ("Repo", "_store"),
    ("Repo", "_shared"),
    ("Shared", "_told"),  # which generation of the index was told the model's name, so that it is told once
}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True)
class Room:
    """One name of the layer table: a module or folder directly under the package."""

    name: str
    level: int
    line: int


@dataclass(frozen=True)
class Import:
    target: str
    line: int
    hidden: bool


# -- the checks: each takes text and returns what is wrong with it


def read_layers(text: str) -> dict[str, Room]:
    """The rooms in the block of layers.md that starts with `src/memlake/`."""
    block = re.search(rf"^```\w*\nsrc/{PACKAGE}/\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block, f"docs/design/layers.md has no block that starts with src/{PACKAGE}/"
    rooms = {}
    for number, line in enumerate(block[1].splitlines()):
        told = re.match(r"  (\S+(?: \S+)*)\s+L(\d)\s", line)
        for name in told[1].split() if told else ():
            room = name.removesuffix(".py").removesuffix("/")
            rooms[room] = Room(room, int(told[2]) if told else 0, number)
    return rooms


def read_rooms(text: str, folder: str) -> list[str]:
    """The rooms of a folder that has a table of its own, in the order they build on each other."""
    block = re.search(rf"^```\n{re.escape(folder)}/\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert block, f"docs/design/layers.md has no block that starts with {folder}/"
    return re.findall(r"^  (\w+)/ ", block[1], re.MULTILINE)


def imports(module: str, tree: ast.Module, *, is_package: bool = False) -> Iterator[Import]:
    """Every import of the project's own modules, with `from memlake import x` as memlake.x."""
    for node, hidden in _with_hidden(tree, hidden=False):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = _absolute(module, node, is_package=is_package)
            targets = [f"{start}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == PACKAGE:
                yield Import(target, node.lineno, hidden)


def _with_hidden(node: ast.AST, *, hidden: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, hidden
        yield from _with_hidden(child, hidden=hidden or isinstance(child, FUNCTION))


def _absolute(module: str, node: ast.ImportFrom, *, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    above = parts[: len(parts) - node.level + is_package]
    return ".".join([*above, *([node.module] if node.module else [])])


def wrong_layers(module: str, source: str, rooms: dict[str, Room], *, is_package: bool = False) -> list[str]:
    """Imports that go down the table, or sideways within a level that may not."""
    if module == PACKAGE:
        return []  # the public names come from everywhere, lazily
    own = rooms.get(module.split(".")[1])
    if own is None:
        return [f"{module}: {module.split('.')[1]} is not in the layer table of docs/design/layers.md"]
    wrong = []
    for found in imports(module, ast.parse(source), is_package=is_package):
        name = found.target.split(".")[1] if "." in found.target else ""
        other = rooms.get(name)
        if other is None:  # a public name of the package itself: what doors use
            bad = own.level != DOOR
        elif other.name == own.name:
            bad = False
        else:
            bad = other.line > own.line or (other.level == own.level and own.level not in MAY_GO_SIDEWAYS)
        if bad:
            wrong.append(f"{module}:{found.line} (L{own.level}) may not import {found.target}")
    return wrong


def wrong_rooms(module: str, source: str, within: str, rooms: list[str]) -> list[str]:
    """Imports of a room from one that stands below it in the table of its folder."""

    def room(name: str) -> str:
        return name.removeprefix(f"{within}.").split(".")[0] if name.startswith(f"{within}.") else ""

    below = rooms[rooms.index(room(module)) + 1 :] if room(module) in rooms else []
    found = [one for one in imports(module, ast.parse(source)) if room(one.target) in below]
    return [f"{module}:{one.line} may not import {one.target}" for one in found]


def hidden_imports(module: str, source: str) -> list[str]:
    found = imports(module, ast.parse(source))
    return [f"{module}:{one.line} imports {one.target} inside a function" for one in found if one.hidden]


def long_functions(module: str, source: str) -> list[str]:
    wrong = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1 - _docstring_lines(node)
            if lines > LONGEST_FUNCTION:
                wrong.append(f"{module}:{node.lineno} {node.name} has {lines} lines; {LONGEST_FUNCTION} is the limit")
    return wrong


def _docstring_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    if ast.get_docstring(node) is None:
        return 0
    return (node.body[0].end_lineno or 0) - node.body[0].lineno + 1


def long_file(module: str, source: str) -> list[str]:
    lines = len(source.splitlines())
    return [f"{module} has {lines} lines; {LONGEST_FILE} is the limit"] if lines > LONGEST_FILE else []


def banned_name(module: str) -> list[str]:
    parts = {part.strip("_") for part in module.split(".")}
    return [f"{module}: {name} says nothing; name the noun of the field" for name in sorted(parts & BANNED)]


def no_docstring(module: str, source: str) -> list[str]:
    told = ast.get_docstring(ast.parse(source))
    return [] if told else [f"{module} does not say in its first line what it is for"]


def reads_environment(module: str, source: str) -> list[str]:
    """Uses of os.environ and os.getenv anywhere but in config.py."""
    if module == READS_ENVIRONMENT:
        return []
    names = {"environ", "environb", "getenv", "getenvb"}
    wrong = []
    for node in ast.walk(ast.parse(source)):
        attribute = isinstance(node, ast.Attribute) and node.attr in names and ast.unparse(node.value) == "os"
        imported = isinstance(node, ast.ImportFrom) and node.module == "os" and {a.name for a in node.names} & names
        if attribute or imported:
            wrong.append(f"{module}:{node.lineno} reads the environment; ask config.py")
    return wrong


def loads_pickles(module: str, source: str) -> list[str]:
    """Calls that make objects of bytes by running what the bytes say, but for messages between our own processes."""
    wrong = []
    for node in ast.walk(ast.parse(source)) if module not in LOADS_PICKLES else ():
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        unsafe = called in {"np.load", "numpy.load"} and "allow_pickle=False" not in ast.unparse(node)
        if unsafe or re.fullmatch(r"(\w*pickle|marshal|dill|shelve|joblib)\.(loads?|open|Unpickler)", called):
            wrong.append(f"{module}:{node.lineno} loads pickled bytes; nothing of a repo may be run")
    return wrong


def parked_state(module: str, source: str) -> list[str]:
    """Attributes that a method of a shared object, or a function that was handed one, leaves on it."""
    wrong = []
    below = module.startswith(f"{PACKAGE}.objects.")  # knows none of them; what it calls local is of a thread
    for owner, function in _functions(ast.parse(source)) if not below else ():
        for node in ast.walk(function) if not (owner in SHARED_CLASSES and function.name in MAY_ASSIGN) else ():
            if not (isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)):
                continue
            holder = ast.unparse(node.value).rsplit(".", 1)[-1].lstrip("_")
            is_shared = holder in SHARED_NAMES or (holder == "self" and owner in SHARED_CLASSES)
            if is_shared and (owner, node.attr) not in OPENED_LATER:
                wrong.append(
                    f"{module}:{node.lineno} {function.name} leaves {ast.unparse(node)} behind; pass it instead"
                )
    return wrong


def _functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Every function at the top of a module or of a class, and the name of that class."""
    owners = [("", tree), *((node.name, node) for node in tree.body if isinstance(node, ast.ClassDef))]
    for name, owner in owners:
        yield from ((name, node) for node in owner.body if isinstance(node, ast.FunctionDef))


def formatted_sql(module: str, source: str) -> list[str]:
    """SQL whose text is put together from anything but texts that are written in the source itself."""
    wrong = []
    tree = _without(ast.parse(source), OWN_SQL.get(module, set()))
    literal = _literal_parameters(tree)
    for node in ast.walk(tree):
        name = _called(node) if isinstance(node, ast.Call) else ""
        if name in COMPOSERS and module.startswith(f"{PACKAGE}.dataset") and module != COMPOSES_SQL:
            given = node.args[COMPOSERS[name]]
            if not _is_written(given) and getattr(given, "id", None) not in literal:
                wrong.append(f"{module}:{node.lineno} composes SQL of a text that is not written there")
        if name == "Sql" and node.args and module != COMPOSES_SQL:
            wrong.append(f"{module}:{node.lineno} makes an Sql of its own; ask rows/sql.py")
        if _is_formatted(node) and LOOKS_LIKE_SQL.search(_constants(node)) and not _is_written(node):
            wrong.append(
                f"{module}:{node.lineno} formats SQL: {_constants(node)[:60]!r}; compose it, bind, or see OWN_SQL"
            )
        if _doubles_quotes(node) and module != QUOTES_NAMES:
            wrong.append(f"{module}:{node.lineno} quotes a name by itself; ask sqlnames.quote()")
    return wrong


def scattered_sql(module: str, source: str) -> list[str]:
    """Statements on the tables of repo.db anywhere but in the two modules that hold all of them."""
    wrong = []
    for node in ast.walk(ast.parse(source)) if module not in HOLDS_TRUTH else ():
        text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
        tables = [found[2] for found in NAMES_TRUTH.finditer(text) if found[2] != "meta" or module not in OTHER_META]
        wrong += [f"{module}:{node.lineno} has a statement on {table}; give it a name in tables.py" for table in tables]
    return wrong


def _without(tree: ast.Module, functions: set[str]) -> ast.Module:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in functions:
            node.body = []
    return tree


def _literal_parameters(tree: ast.Module) -> set[str]:
    """Parameters that are said to be literal texts: those who give them are in COMPOSERS, and looked at themselves."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in COMPOSERS]
    return {a.arg for f in found for a in f.args.args if a.annotation and ast.unparse(a.annotation) == "LiteralString"}


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_written(node: ast.AST) -> bool:
    """Text that stands in the source: in quotes, or a constant named in capitals; or of such, and of quoted names."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Name):
        return node.id.isupper()
    if isinstance(node, ast.Call):
        return _called(node) == "quote"
    if isinstance(node, ast.IfExp):
        return _is_written(node.body) and _is_written(node.orelse)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and _is_written(node.left) and _is_written(node.right)
    parts = node.values if isinstance(node, ast.JoinedStr) else None
    return parts is not None and all(
        _is_written(one.value if isinstance(one, ast.FormattedValue) else one) for one in parts
    )


def _is_formatted(node: ast.AST) -> bool:
    """An f-string, a %, a + or a .format() of a text."""
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "format_map")
    operation = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add)
    return isinstance(node, ast.JoinedStr) or operation


def _constants(node: ast.AST) -> str:
    inner = node.func if isinstance(node, ast.Call) else node
    return " ".join(
        one.value for one in ast.walk(inner) if isinstance(one, ast.Constant) and isinstance(one.value, str)
    )


def _doubles_quotes(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and _called(node) == "replace" and len(node.args) == 2):
        return False
    old, new = (one.value if isinstance(one, ast.Constant) else None for one in node.args)
    return isinstance(old, str) and old in ("'", '"', "`") and new == old * 2


# -- the project


@dataclass(frozen=True)
class Module:
    name: str
    source: str
    is_package: bool


def modules() -> list[Module]:
    found = []
    for path in sorted((SOURCE / PACKAGE).rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        found.append(
            Module(".".join(parts[:-1] if is_package else parts), path.read_text(encoding="utf-8"), is_package)
        )
    return found


MODULES = modules()
LAYERS = read_layers((ROOT / "docs" / "design" / "layers.md").read_text(encoding="utf-8"))


def every(check: str) -> list[str]:
    """What one check says of all modules."""
    run = globals()[check]
    return [problem for module in MODULES for problem in run(module.name, module.source)]


def test_the_layer_table_names_every_room() -> None:
    assert {"errors", "records", "config", "objects", "versions", "repo", "cli"} <= LAYERS.keys()
    assert LAYERS["errors"].level == 0 and LAYERS["cli"].level == LAYERS["mcp"].level == DOOR
    assert len(MODULES) > 5, "the source was found"


def test_the_layer_table_shows_no_room_that_is_only_planned() -> None:
    names = {module.name.split(".")[1] for module in MODULES if "." in module.name}
    assert LAYERS.keys() == names


def test_imports_only_go_up_the_layer_table() -> None:
    wrong = [
        problem
        for module in MODULES
        for problem in wrong_layers(module.name, module.source, LAYERS, is_package=module.is_package)
    ]
    assert wrong == []


@pytest.mark.parametrize("folder", ["dataset", "memories", "versions"])
def test_rooms_import_only_those_above_them(folder: str) -> None:
    text = (ROOT / "docs" / "design" / "layers.md").read_text(encoding="utf-8")
    rooms = read_rooms(text, f"src/memlake/{folder}")
    folders = {path.parent.name for path in (SOURCE / PACKAGE / folder).glob("*/__init__.py")}
    assert folders == set(rooms)
    wrong = [p for m in MODULES for p in wrong_rooms(m.name, m.source, f"{PACKAGE}.{folder}", rooms)]
    assert wrong == []


def test_a_room_that_imports_one_below_it_is_told() -> None:
    source = "from memlake.dataset.plan import nodes\nfrom memlake.dataset import feedback"
    rooms = ["types", "plan"]
    assert wrong_rooms("memlake.dataset.types.files", source, "memlake.dataset", rooms) == [
        "memlake.dataset.types.files:1 may not import memlake.dataset.plan.nodes"
    ]
    assert wrong_rooms("memlake.dataset.plan.build", source, "memlake.dataset", rooms) == []


def test_no_file_has_a_name_that_says_nothing() -> None:
    assert [problem for module in MODULES for problem in banned_name(module.name)] == []


@pytest.mark.parametrize(
    "check",
    [
        "hidden_imports",
        "long_functions",
        "long_file",
        "no_docstring",
        "reads_environment",
        "formatted_sql",
        "scattered_sql",
        "loads_pickles",
        "parked_state",
    ],
)
def test_every_module_passes(check: str) -> None:
    assert every(check) == []


# -- the checks can fail

TABLE = """
```
src/memlake/
  __init__.py    the public names
  errors.py      L0  every error
  config.py      L0  settings
  objects/       L1  bytes
  versions/      L2  history
  index/         L2  finding
  datasets/      L3  rows
  memories/      L3  facts
  repo.py        L4  wiring
  cli/ api/ client.py     L5  doors
```
"""


@pytest.fixture(scope="module")
def table() -> dict[str, Room]:
    return read_layers(TABLE)


def test_the_table_is_read_in_order_with_several_names_on_a_line(table: dict[str, Room]) -> None:
    assert " ".join(table) == "errors config objects versions index datasets memories repo cli api client"
    assert [table[name].level for name in ("errors", "objects", "repo", "client")] == [0, 1, 4, 5]
    assert table["cli"].line == table["client"].line


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("memlake.objects.packs", "from memlake.versions.trees import tree"),
        ("memlake.objects.packs", "import memlake.versions.trees.tree"),
        ("memlake.objects.packs", "from memlake import versions"),
        ("memlake.objects.packs", "from ..versions import tree"),
        ("memlake.objects.packs", "from .. import repo"),
        ("memlake.objects.packs", "def f():\n    from memlake import repo"),
        ("memlake.objects.packs", "if TYPE_CHECKING:\n    from memlake.repo import Repo"),
        ("memlake.errors", "from memlake.config import x"),
        ("memlake.index.words", "from memlake.versions.trees import tree"),
        ("memlake.memories.store", "from memlake.dataset import plan"),
        ("memlake.repo", "from memlake.cli import main"),
        ("memlake.repo", "from memlake import open"),
        ("memlake.repo", "import memlake"),
        ("memlake.api.app", "from memlake.cli import screen"),
        ("memlake.client", "from memlake.api import app"),
        ("memlake.attic.thing", "x = 1"),
    ],
)
def test_an_import_in_the_wrong_direction_is_flagged(table: dict[str, Room], module: str, source: str) -> None:
    assert len(wrong_layers(module, source, table)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        (
            "memlake.versions.history.merge_trees",
            "from memlake.objects.packs import Pack\nfrom memlake import errors\nimport os",
        ),
        (
            "memlake.versions.history.merge_trees",
            "from .tree import Node\nfrom . import diff\nfrom ..objects import packs",
        ),
        ("memlake.config", "from memlake.errors import Error"),
        (
            "memlake.cli.main",
            "from memlake import open\nfrom memlake.repo import Repo\nfrom memlake.cli.screen import show",
        ),
        ("memlake", "from memlake.cli import main"),
    ],
)
def test_an_import_in_the_right_direction_is_not(table: dict[str, Room], module: str, source: str) -> None:
    assert wrong_layers(module, source, table) == []


def test_a_relative_import_of_a_folder_starts_at_the_folder(table: dict[str, Room]) -> None:
    assert wrong_layers("memlake.objects", "from .packs import Pack", table, is_package=True) == []
    assert wrong_layers("memlake.objects", "from ..versions import tree", table, is_package=True)


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    import memlake.objects",
        "async def f():\n    if x:\n        from memlake import errors",
        "class A:\n    def f(self):\n        def g():\n            from memlake.errors import Error",
    ],
)
def test_an_import_of_ours_inside_a_function_is_flagged(source: str) -> None:
    assert len(hidden_imports("memlake.x", source)) == 1


def test_a_lazy_import_of_others_and_a_plain_one_of_ours_are_not_hidden() -> None:
    assert hidden_imports("memlake.x", "from memlake import errors\ndef f():\n    import pyarrow") == []


def test_a_function_over_the_limit_is_flagged_and_its_docstring_is_free() -> None:
    fits = "def f():\n" + '    """' + "say\n" * 30 + '    """\n' + "    x = 1\n" * (LONGEST_FUNCTION - 1)
    assert long_functions("memlake.x", fits) == []
    assert len(long_functions("memlake.x", fits + "    x = 1\n")) == 1
    inside = "class A:\n    async def f(self):\n" + "        x = 1\n" * LONGEST_FUNCTION
    assert len(long_functions("memlake.x", inside)) == 1


def test_a_file_over_the_limit_is_flagged() -> None:
    assert long_file("memlake.x", "x = 1\n" * LONGEST_FILE) == []
    assert len(long_file("memlake.x", "x = 1\n" * (LONGEST_FILE + 1))) == 1


@pytest.mark.parametrize("name", ["memlake.utils", "memlake.objects.helpers", "memlake.common.x", "memlake._base"])
def test_a_name_that_says_nothing_is_flagged(name: str) -> None:
    assert len(banned_name(name)) == 1
    assert banned_name("memlake.objects.packs") == []


def test_a_module_without_a_docstring_is_flagged() -> None:
    assert len(no_docstring("memlake.x", "x = 1")) == 1
    assert no_docstring("memlake.x", '"""What it is for."""') == []


@pytest.mark.parametrize(
    "source", ["import os\nx = os.environ['A']", "import os\nos.getenv('A')", "from os import environ"]
)
def test_reading_the_environment_outside_config_is_flagged(source: str) -> None:
    assert len(reads_environment("memlake.cli.main", source)) == 1
    assert reads_environment(READS_ENVIRONMENT, source) == []


@pytest.mark.parametrize(
    "source",
    [
        "con.execute(f'SELECT {name} FROM t')",
        "con.execute('SELECT {} FROM t'.format(name))",
        "con.execute('SELECT %s FROM t' % name)",
        "con.execute('SELECT * FROM ' + name)",
        "compose(text, name)",
        "compose(f'{a} = {b}')",
        "sql.template(form)",
        "Sql((name,))",
        "made = '\"' + name.replace('\"', '\"\"') + '\"'",
    ],
)
def test_sql_that_is_formatted_is_flagged(source: str) -> None:
    assert len(formatted_sql("memlake.dataset.compare", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "con.execute(f'SELECT {COLUMNS} FROM t WHERE a = ?', (name,))",
        "compose('SELECT {} FROM {}', identifier(name), table)",
        "compose(f'SELECT {{}} AS {PLACE}' if sorted else 'SELECT {}', identifier(name))",
        "raise InvalidInput(f'{name} is selected from nothing')",
    ],
)
def test_sql_that_is_written_or_composed_is_not(source: str) -> None:
    assert formatted_sql("memlake.dataset.compare", source) == []


@pytest.mark.parametrize(
    "source",
    [
        "db.row('SELECT value FROM meta WHERE key = ?', (key,))",
        "SQL = 'SELECT 1 FROM\\n  lease'",
        "db.run(f'UPDATE lease SET expires = {WHEN}')",
        "db.run('INSERT OR IGNORE '\n'INTO stray VALUES(?, ?)', row)",
    ],
)
def test_a_statement_on_the_truth_outside_its_tables_is_flagged(source: str) -> None:
    assert len(scattered_sql("memlake.memories.timeline", source)) == 1
    assert scattered_sql("memlake.objects.tables", source) == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("memlake.memories.timeline", "db.rows('SELECT oid FROM row WHERE key = ?', (key,))"),
        ("memlake.memories.timeline", "db.rows('SELECT seen FROM meta_of_mine')"),
        ("memlake.index.rows", "db.row('SELECT value FROM meta WHERE key = ?', (key,))"),
    ],
)
def test_a_statement_on_another_database_is_not(module: str, source: str) -> None:
    assert scattered_sql(module, source) == []


@pytest.mark.parametrize("source", ["pickle.loads(x)", "cloudpickle.load(f)", "np.load(p)", "marshal.loads(x)"])
def test_loading_a_pickle_is_flagged(source: str) -> None:
    assert len(loads_pickles("memlake.objects.store", source)) == 1
    assert (
        loads_pickles("memlake.objects.store", "np.load(p, allow_pickle=False)\njson.loads(x)\npickle.dumps(x)") == []
    )


@pytest.mark.parametrize(
    "source",
    [
        "class History:\n    def plan(self):\n        self._plan = 1",
        "class Local:\n    def look(self):\n        self.seen += 1",
        "class Repo:\n    def switch(self):\n        a, self.last = 1, 2",
        "def stand(here):\n    here.local.assumed = 'main'",
        "class Shared:\n    def wake(self):\n        del self.worker",
    ],
)
def test_state_left_on_a_shared_object_is_flagged(source: str) -> None:
    assert len(parked_state("memlake.versions.x", source)) == 1


@pytest.mark.parametrize(
    "source",
    [
        "class History:\n    def __init__(self):\n        self._recent = {}",
        "class Repo:\n    def close(self):\n        self._closed = True",
        "class Plan:\n    def add(self):\n        self.rows = 1",
        "def go(verb):\n    verb.before.saved = {}",
        "class Rows:\n    def rows(self):\n        self._store = 1",
    ],
)
def test_state_of_ones_own_is_not(source: str) -> None:
    assert parked_state("memlake.versions.x", source) == []
