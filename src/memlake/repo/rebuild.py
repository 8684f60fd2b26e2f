"""Rebuilding: what made a version or a file is run again in a scratch folder, and the result is compared.

The program is a stranger's where a repo was sent, so it runs only once the user trusted this very program over this
very commit. It runs in a repo of its own that is thrown away; the repo it is from is only read.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memlake import config, contents, dataset, trust, versions
from memlake.dataset.kind import DATASET
from memlake.errors import Denied, InvalidInput, NotFound, Purged, pasted
from memlake.named_tuple import NamedTuple
from memlake.objects import disk
from memlake.objects.leases import process_start_time
from memlake.records import Commit, count, short
from memlake.repo.find import init
from memlake.repo.lineage import Thing, find_thing
from memlake.repo.stages import find_packages
from memlake.reports import Rebuilt
from memlake.versions.paths import FILES

if TYPE_CHECKING:
    from memlake.dataset.parts.version_record import Version
    from memlake.repo.repo import Repo
    from memlake.versions.checkout.context import Checkout

_SCRATCH = "memlake-rebuild-"
_LARGE = 64 << 20  # bytes of a file that is written to the scratch folder only if it is a recorded input
_TAIL = 2000  # characters of what a program printed before it failed
_HIDDEN = "[redacted"
_RUNS = ("script", "module", "command", "stdin")


class Recipe(NamedTuple):
    """Everything that is recorded of how a thing was made, and what of it is `missing`."""

    of: str
    kind: str  # script, module, command or stdin
    name: str
    text: str
    commit: Commit  # the state of the files that it ran over
    params: Mapping[str, Any]
    files: Mapping[str, str] = {}  # path in the repo -> oid
    parents: tuple[Version, ...] = ()
    packages: Mapping[str, str] = {}
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()

    @property
    def grant(self) -> str:
        """What the user trusts: this program with these params over these files, some of which it may import."""
        told = [self.commit.oid, self.kind, self.name, self.text, dict(self.files), dict(self.params)]
        told += [list(self.arguments)] if self.arguments else []
        return json.dumps(told, sort_keys=True, default=str)


def rebuild(repo: Repo, of: str, *, check: bool) -> Rebuilt:
    """Run what made a thing again and compare; with `check` only say whether that could be done."""
    thing = find_thing(repo, of)
    recipe = read_recipe(repo, thing)
    if check or recipe.missing:
        return Rebuilt(recipe.of, None, missing=recipe.missing, notes=recipe.notes)
    if not trust.is_granted(programs_home(), repo._id, recipe.grant):
        raise Denied(
            f"rebuilding {recipe.of} runs {recipe.name}, which this repo recorded, and you did not allow that. Nothing "
            "was run.",
            hint=f"See what it needs with: memlake rebuild {pasted(of)} --check\n"
            f"To read the program and allow it: memlake trust --program {pasted(of)}",
        )
    with _open_scratch() as folder:
        work = folder / (repo.root.name or "work")
        with init(work) as scratch:
            _fill(repo, recipe, scratch)
        if thing.file is not None and recipe.of not in recipe.files and _is_inside(recipe.of):
            (work / recipe.of).unlink(missing_ok=True)  # or a program that does not write it would seem to
        done = _run(recipe, work)
        if done.returncode:
            tail = done.stdout.decode("utf-8", "replace")[-_TAIL:]
            return Rebuilt(recipe.of, False, why=f"{recipe.name} ended with exit code {done.returncode}", output=tail)
        if thing.version is None:
            return _compare_file(repo, thing, recipe, work)
        with init(work) as scratch:
            return _compare_version(repo, thing.version, recipe, scratch)


# -- what is recorded -----------------------------------------------------------------------------


def read_recipe(repo: Repo, thing: Thing) -> Recipe:
    if thing.version is not None:
        return _read_version(repo, thing.version)
    if thing.file is None:
        raise InvalidInput("only versions of datasets and files can be rebuilt. Nothing was run.")
    path, entry, tip = thing.file
    here, name = repo._look(), path.removeprefix(FILES)
    maker, facts = _find_maker(here, tip, path, entry.oid)
    known = {"path": path, "oid": entry.oid}
    if maker is not None:
        for run in facts["runs"] or ():
            if known in run["wrote"]:
                return _read_run(repo, name, maker, run)
    uses = facts["uses"] or [] if maker is not None else []
    programs = [one for one in uses if str(one["path"]).startswith(FILES) and str(one["path"]).endswith(".py")]
    if any((one["path"], one["oid"]) == (path, entry.oid) for one in uses):
        programs = []  # the commit used it as it is: it was not made there
    if maker is None or len(programs) != 1:
        named = f"names {len(programs)} programs" if programs else "does not say which program made it"
        raise NotFound(
            f"{name} cannot be rebuilt: commit {short(maker.oid) if maker else '-'} {named}. Nothing was run.",
            hint="Let memlake note it before you commit: memlake run train.py\n"
            "Or name the program when you commit: memlake commit -m MESSAGE --uses train.py",
        )
    run = {"program": programs[0], "params": facts["params"] or {}, "reads": uses}
    return _read_run(repo, name, maker, run)


def _find_maker(here: Checkout, tip: Commit, path: str, oid: str) -> tuple[Commit | None, dict[str, Any]]:
    """The commit where a file was made, and what it says: not one that only took it over from another."""
    maker = versions.commit_facts.find_maker(here, tip, path, oid)
    while maker is not None:
        facts = versions.commit_facts.read_facts(here, maker)
        taken = [one["commit"] for one in facts["uses"] or () if (one["path"], one["oid"]) == (path, oid)]
        source = here.history.get(taken[0]) if taken and taken[0] and here.history.has(taken[0]) else None
        earlier = versions.commit_facts.find_maker(here, source, path, oid) if source is not None else None
        if earlier is None or earlier.oid == maker.oid:
            return maker, facts
        maker = earlier
    return None, {}


def _read_run(repo: Repo, name: str, maker: Commit, run: Mapping[str, Any]) -> Recipe:
    """The recipe of a file: its program, what that read, and the params it was given."""
    told, missing = run["program"], list[str]()
    program = str(told["path"]).removeprefix(FILES)
    text = _read_text(repo, str(told["oid"] or ""))
    params, own = dict(run["params"]), {*run.get("saved", ())}
    for key in [key for key, value in params.items() if isinstance(value, str) and _HIDDEN in value]:
        params.pop(key)
        missing.append(f"param {key} was a secret and is not recorded")
    if any(_HIDDEN in one for one in run.get("arguments", ())):
        missing.append("a secret among its arguments was not recorded")
    files: dict[str, str] = {}
    parents = []
    for one in [told, *run["reads"]]:
        path, oid = str(one["path"]), str(one["oid"] or "")
        if path.startswith(DATASET.folder):
            parents += [_find_used(repo, one, missing)] if path not in own else []
        elif path.startswith(FILES) and oid and _has(repo, oid):
            files[path.removeprefix(FILES)] = oid
        elif path.startswith(FILES):
            why = "was too large to be hashed" if not oid else "was never committed, or was purged"
            missing.append(f"{path.removeprefix(FILES)} {why}")
        elif not os.path.isfile(path) or dataset.provenance.hash_file(path) != oid:
            missing.append(f"{path} " + ("changed since" if os.path.isfile(path) else "is not here"))
    if more := run.get("more"):
        missing.append(f"{count(more, 'file')} that it read beside these are not recorded")
    return Recipe(
        name, "script", program, text, maker, params, files, tuple(one for one in parents if one is not None),
        run.get("packages") or {}, tuple(dict.fromkeys(missing)),
        () if run.get("packages") else ("the commit does not record versions of packages",),
        tuple(run.get("arguments", ())),
    )  # fmt: skip


def _read_version(repo: Repo, version: Version) -> Recipe:
    told, missing, notes = version.provenance, list[str](), list[str]()
    kind, name, text = (str(told.get(key) or "") for key in ("source_kind", "source_name", "source"))
    if not text:
        missing.append("no program was recorded")
    elif kind == "test":
        missing.append(f"it was made by a test ({name}), which memlake does not run by itself")
    elif kind not in _RUNS:
        missing.append(f"it was made in a {kind} ({name}), whose functions were defined interactively")
    elif "Python kept no text of it" in text[:200]:
        missing.append(f"Python kept no text of {name}, so only its steps are recorded")
    elif _HIDDEN in text:
        missing.append(f"a secret in {name} was not recorded")
    parents = [_find_parent(repo, one, missing) for one in told.get("parents") or ()]
    files: dict[str, str] = {}
    read = [one for origin in told.get("origins") or () for one in origin.get("files") or ()]
    for one in [*read, *(told.get("opened") or ())]:
        _check_file(repo, one, files, missing)
    notes += [f"{one.get('uri')} is listed as it is now" for one in told.get("storages") or ()]
    params = {key: one.get("value") for key, one in (told.get("params") or {}).items() if one.get("from") != "default"}
    for key in [key for key, value in params.items() if isinstance(value, str) and _HIDDEN in value]:
        params.pop(key)
        missing += [f"param {key} was a secret and is not recorded"]
    return Recipe(
        version.spec, kind, name or "the program", text, _find_save(repo, version), params, files,
        tuple(one for one in parents if one is not None), told.get("packages") or {}, tuple(dict.fromkeys(missing)),
        tuple(notes),
    )  # fmt: skip


def _find_save(repo: Repo, version: Version) -> Commit:
    """The commit that saved a version: its tree has the files as they were then."""
    here = repo._look()
    head = here.head()
    assert head is not None, "a version is in a commit"
    found = list(versions.log.log(here.history, [head], [], versions.log.Filter(paths=(version.path,))))
    return found[-1] if found else head


def _check_file(repo: Repo, told: Mapping[str, Any], files: dict[str, str], missing: list[str]) -> None:
    """Note a file that was read as an input, if its bytes are known and here."""
    path, oid, inside = str(told.get("path")), told.get("oid"), told.get("file")
    if isinstance(inside, str) and isinstance(oid, str) and _has(repo, oid):
        files[inside] = oid
        return
    if oid is None:
        missing.append(f"{path} was too large to be hashed, so nobody can tell whether it is the same")
    elif not os.path.isfile(path):
        missing.append(f"{path} is not here" + (", and was never committed" if inside else ""))
    elif dataset.provenance.hash_file(path) != oid:
        missing.append(f"{path} changed since" + (", and what was read was never committed" if inside else ""))
    elif isinstance(inside, str):
        missing.append(f"{inside} was never committed")


def _find_parent(repo: Repo, told: Mapping[str, Any], missing: list[str]) -> Version | None:
    spec = str(told.get("spec") or f"{told.get('name')}@{told.get('version')}")
    try:
        found = repo.datasets().get(spec)
    except (NotFound, Purged, InvalidInput):
        missing.append(f"{spec} is no longer here")
        return None
    if told.get("content") not in (None, found.content):
        missing.append(f"{spec} has other rows now")
        return None
    return found


def _find_used(repo: Repo, use: Mapping[str, Any], missing: list[str]) -> Version | None:
    name, _, number = str(use["path"]).removeprefix("datasets/").rpartition("/")
    return _find_parent(repo, {"name": name, "version": number}, missing)


def _has(repo: Repo, oid: str) -> bool:
    try:
        return not repo._history.objects.find_missing([oid])
    except ValueError:
        return False


def _read_text(repo: Repo, oid: str) -> str:
    try:
        return repo._history.objects.read(oid).decode("utf-8", "replace") if oid else ""
    except (NotFound, Purged):  # a recipe says so of every file
        return ""


# -- the scratch folder ---------------------------------------------------------------------------


@contextlib.contextmanager
def _open_scratch() -> Iterator[Path]:
    """A folder outside every repo that is gone afterwards; what killed processes left is removed first."""
    home = Path(tempfile.gettempdir())
    for left in home.glob(f"{_SCRATCH}*"):
        parts = left.name.removeprefix(_SCRATCH).split("-")
        is_ours = len(parts) == 3 and parts[0].isdigit() and left.is_dir() and left.stat().st_uid == os.getuid()
        if is_ours and str(process_start_time(int(parts[0]))) != parts[1]:
            disk.remove_tree(left)
    folder = Path(tempfile.mkdtemp(prefix=f"{_SCRATCH}{os.getpid()}-{process_start_time(os.getpid())}-"))
    try:
        yield folder
    finally:
        disk.remove_tree(folder)


def _fill(repo: Repo, recipe: Recipe, scratch: Repo) -> None:
    """The files of the commit, the inputs as they were read, and the versions that were read."""
    work = scratch.root
    for tree_path, entry in repo._history.scan(recipe.commit, FILES):
        path = tree_path.removeprefix(FILES)
        is_needed = path in recipe.files or entry.size <= _LARGE
        if entry.kind == "file" and is_needed and _is_inside(path) and _has(repo, entry.oid):
            _write_file(repo, work / path, entry.oid, executable=bool(entry.mode))
    for path, oid in recipe.files.items():
        if _is_inside(path):
            _write_file(repo, work / path, oid)
    for version in recipe.parents:
        dataset.copy_version.copy_version(repo.datasets().context, scratch.datasets().context, version)


def _is_inside(path: str) -> bool:
    """Whether a path of a tree, which a stranger may have written, stays in the folder and out of the scratch repo."""
    parts = path.split("/")
    return bool(path) and not os.path.isabs(path) and not {"", ".", ".."} & set(parts) and (
        parts[0].casefold() != ".memlake" and "\0" not in path
    )  # fmt: skip


def _write_file(repo: Repo, target: Path, oid: str, *, executable: bool = False) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with repo._history.objects.open(oid) as source, target.open("wb") as file:
        while chunk := source.read(1 << 20):
            file.write(chunk)
    if executable:
        target.chmod(0o755)


def _run(recipe: Recipe, work: Path) -> subprocess.CompletedProcess[bytes]:
    own = {key: value for key, value in config.environment().items() if not key.startswith("MEMLAKE_")}
    params = {key: value if isinstance(value, str) else json.dumps(value) for key, value in recipe.params.items()}
    told = {"MEMLAKE_REPO": str(work), **({"MEMLAKE_RUN_PARAMS": json.dumps(params)} if params else {})}
    command, given = _command(recipe, work), recipe.text.encode() if recipe.kind == "stdin" else None
    return subprocess.run(
        command, cwd=work, env={**own, **told}, input=given, stdin=None if given else subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip


def _command(recipe: Recipe, work: Path) -> list[str]:
    if recipe.kind == "command":
        return [sys.executable, "-c", recipe.text]
    if recipe.kind == "stdin":
        return [sys.executable, "-"]
    name = recipe.name if _is_inside(recipe.name) else os.path.basename(recipe.name) or "program.py"
    (work / name).parent.mkdir(parents=True, exist_ok=True)
    (work / name).write_text(recipe.text, encoding="utf-8")
    if recipe.kind == "module":
        return [sys.executable, "-m", name.removesuffix(".py").removesuffix("/__main__").replace("/", ".")]
    return [sys.executable, name, *recipe.arguments]


# -- what came of it ------------------------------------------------------------------------------


def _compare_version(repo: Repo, version: Version, recipe: Recipe, scratch: Repo) -> Rebuilt:
    data = scratch.datasets()
    try:
        made = data.get(version.name)
    except NotFound:
        return Rebuilt(recipe.of, False, why=f"{recipe.name} ended without saving {version.name}")
    why, first = dataset.copy_version.compare_rows(repo.datasets().context, version, data.context, made)
    packages = _compare_packages(recipe.packages, made.provenance.get("packages") or {})
    return Rebuilt(recipe.of, not why, why=why, first=first, packages=packages, notes=recipe.notes)


def _compare_packages(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    names = sorted({*old, *new})
    return tuple((one, old.get(one, ""), new.get(one, "")) for one in names if old.get(one) != new.get(one))


def _compare_file(repo: Repo, thing: Thing, recipe: Recipe, work: Path) -> Rebuilt:
    assert thing.file is not None
    path, entry, _ = thing.file
    name = path.removeprefix(FILES)
    file = work / name
    if not file.is_file() or file.is_symlink():
        return Rebuilt(recipe.of, False, why=f"{recipe.name} did not write {name}")
    if dataset.provenance.hash_file(str(file)) == entry.oid:
        return Rebuilt(recipe.of, True, notes=recipe.notes)
    packages = _compare_packages(recipe.packages, find_packages(recipe.packages)) if recipe.packages else ()
    old = contents.content.open_stored(repo._history.objects, name, entry)
    with old, contents.content.open_file(name, file) as new:
        inside = contents.explain.explain(old, new, contents.explain.How(limit=1))
    return Rebuilt(recipe.of, False, why="the bytes differ", inside=inside, packages=packages, notes=recipe.notes)


# -- trust ----------------------------------------------------------------------------------------


def programs_home() -> Path:
    """Where it stands which programs the user allowed: beside the settings of the user, outside of every repo."""
    return config.user_file().with_name("programs")


def read_program(repo: Repo, of: str) -> Recipe:
    """What rebuilding a thing would run: for who is asked to trust it."""
    recipe = read_recipe(repo, find_thing(repo, of))
    if not recipe.text:
        raise NotFound(f"no program was recorded for {recipe.of}, so there is nothing to trust.")
    return recipe


def trust_program(repo: Repo, recipe: Recipe) -> None:
    """Allow this program to be run over the files of its commit."""
    allowed = trust.Grant(str(repo.root), (f"program of {recipe.of}",))
    trust.grant(programs_home(), repo._id, recipe.grant, allowed)
