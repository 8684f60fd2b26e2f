"""Which folders are one project and which are two: layouts made by real git, written in one folder, read in others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import memlake as ml
from memlake import config, git_files, projects
from memlake.memories.memories import Draft
from memlake.memories.search import Query
from memlake.repo import open_for_memories, open_narrow

pytestmark = pytest.mark.usefixtures("_nothing_from_outside")
SHOP = "https://github.com/ada/shop.git"


def git(folder: Path, *args: str) -> None:
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=main")
    quiet = ("-c", "protocol.file.allow=always", "-c", "advice.detachedHead=false", "-c", "gc.auto=0")
    subprocess.run(["git", *who, *quiet, *args], cwd=folder, check=True, capture_output=True)


class Ground:
    """A folder in which layouts are made: `at("shop")` is a folder of it, made if it is not there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def repo(self, name: str = "shop", remote: str = "", *, commit: bool = False) -> Path:
        folder = self.at(name)
        git(folder, "init", "-q")
        if remote:
            git(folder, "remote", "add", "origin", remote)
        if commit:
            git(folder, "commit", "-q", "--allow-empty", "-m", "first")
        return folder


class Layout(NamedTuple):
    """What is made, the folder to write in, and where that is read: `!` before what must not read it.

    `then` happens after the writing.
    """

    make: Callable[[Ground], object]
    write: str
    read: tuple[str, ...]
    then: Callable[[Ground], object] = lambda _: None


def clones(*addresses: str) -> Callable[[Ground], None]:
    """Folders c0, c1 ... with these remotes."""

    def make(ground: Ground) -> None:
        for number, address in enumerate(addresses):
            ground.repo(f"c{number}", address)

    return make


def worktree(name: str, *, remote: str = "", detached: bool = False) -> Callable[[Ground], None]:
    def make(ground: Ground) -> None:
        folder = ground.repo("shop", remote, commit=True)
        git(folder, "worktree", "add", "-q", *(["--detach"] if detached else []), str(ground.root / name))

    return make


def submodule(ground: Ground) -> None:
    ground.repo("lib", commit=True)
    folder = ground.repo("shop", SHOP, commit=True)
    git(folder, "submodule", "add", "-q", str(ground.root / "lib"), "vendor/lib")


def init(*names: str) -> Callable[[Ground], None]:
    def make(ground: Ground) -> None:
        for name in names:
            ml.init(ground.at(name)).close()

    return make


def both(*makes: Callable[[Ground], object]) -> Callable[[Ground], None]:
    def make(ground: Ground) -> None:
        for one in makes:
            one(ground)

    return make


def link(name: str, to: str) -> Callable[[Ground], None]:
    return lambda ground: (ground.root / name).symlink_to(ground.root / to)


def move(old: str, new: str) -> Callable[[Ground], None]:
    return lambda ground: os.rename(ground.root / old, ground.root / new)


def run_git(name: str, *args: str) -> Callable[[Ground], None]:
    return lambda ground: git(ground.root / name, *args)


def clone(source: str, name: str, *args: str) -> Callable[[Ground], None]:
    return lambda ground: git(ground.root, "clone", "-q", *args, source, name)


def copy(source: str, name: str) -> Callable[[Ground], None]:
    return lambda ground: subprocess.run(["cp", "-a", source, name], cwd=ground.root, check=True)


def shop(*names: str, remote: str = "") -> Callable[[Ground], None]:
    """A git repo with some folders in it, and what makes those in `packages` packages."""

    def make(ground: Ground) -> None:
        ground.repo("shop", remote, commit=True)
        for name in names:
            ground.at(f"shop/{name}")

    return make


add_remote = run_git("shop", "remote", "add", "origin", SHOP)
LAYOUTS = {
    "a folder without git": Layout(lambda g: (g.at("a"), g.at("b")), "a", ("a", "!b")),
    "a folder below one without git is another": Layout(lambda g: g.at("a/b"), "a", ("!a/b",)),
    "two repos of git": Layout(lambda g: (g.repo("a"), g.repo("b")), "a", ("a", "!b")),
    "a subfolder": Layout(shop("src/api"), "shop/src/api", ("shop", "shop/src", "shop/src/api")),
    "from the top a subfolder sees it": Layout(shop("src"), "shop", ("shop/src",)),
    "a repo of git nested in one": Layout(
        both(shop(), lambda g: g.repo("shop/inner")), "shop", ("shop", "!shop/inner")
    ),
    "from a nested repo": Layout(both(shop(), lambda g: g.repo("shop/inner")), "shop/inner", ("!shop",)),
    "a worktree beside": Layout(worktree("tree"), "shop", ("tree", "shop")),
    "from a worktree beside": Layout(worktree("tree"), "tree", ("tree", "shop")),
    "a worktree nested": Layout(worktree("shop/.trees/x"), "shop", ("shop/.trees/x",)),
    "from a worktree nested": Layout(worktree("shop/.trees/x"), "shop/.trees/x", ("shop",)),
    "a detached worktree": Layout(worktree("tree", detached=True), "tree", ("shop",)),
    "a worktree of a repo with a remote": Layout(worktree("tree", remote=SHOP), "tree", ("shop",)),
    "two worktrees": Layout(
        both(worktree("tree"), run_git("shop", "worktree", "add", "-q", "../other")), "tree", ("other",)
    ),
    "worktrees of a bare repo": Layout(
        both(
            lambda g: g.repo("src", commit=True), clone("src", "bare.git", "--bare"),
            run_git("bare.git", "worktree", "add", "-q", "../one", "-b", "one"),
            run_git("bare.git", "worktree", "add", "-q", "../two", "-b", "two"),
        ), "one", ("two",),
    ),
    "a submodule is its own": Layout(submodule, "shop", ("!shop/vendor/lib", "!lib")),
    "from a submodule": Layout(submodule, "shop/vendor/lib", ("shop/vendor/lib", "!shop", "lib")),
    "a submodule in a repo of memlake": Layout(both(submodule, init("shop")), "shop", ("shop", "!shop/vendor/lib")),
    "from a submodule in a repo of memlake": Layout(
        both(submodule, init("shop")), "shop/vendor/lib", ("shop/vendor/lib", "!shop")
    ),
    "a symbolic link": Layout(both(shop("src"), link("way", "shop")), "way/src", ("shop", "way", "shop/src")),
    "a symbolic link without git": Layout(both(lambda g: g.at("a"), link("way", "a")), "way", ("a",)),
    "a renamed folder": Layout(shop("src"), "shop", ("new", "new/src"), move("shop", "new")),
    "a renamed folder with a remote": Layout(clones(SHOP), "c0", ("new",), move("c0", "new")),
    "a renamed folder of memlake": Layout(init("pets"), "pets", ("new",), move("pets", "new")),
    "another path, as in a container": Layout(shop(), "shop", ("work",), copy("shop", "work")),
    "two clones of one address": Layout(clones(SHOP, SHOP), "c0", ("c1",)),
    "addresses by ssh and https": Layout(clones(SHOP, "git@github.com:ada/shop.git"), "c0", ("c1",)),
    "an address with a token": Layout(clones("https://ada:ghp_1234@github.com/Ada/Shop/", SHOP), "c0", ("c1",)),
    "an address with a port": Layout(clones("ssh://git@git.x.org:2222/a/b", "git@git.x.org:a/b.git"), "c0", ("c1",)),
    "a fork": Layout(clones(SHOP, "https://github.com/bob/shop"), "c0", ("!c1",)),
    "hosts with one path": Layout(clones(SHOP, "https://gitlab.com/ada/shop"), "c0", ("!c1",)),
    "a clone of a folder": Layout(both(shop(), clone("shop", "mine")), "mine", ("shop", "mine")),
    "from the folder to its clone": Layout(both(shop(), clone("shop", "mine")), "shop", ("mine",)),
    "a clone of a clone": Layout(
        both(shop(remote=SHOP), clone("shop", "mine"), clone("mine", "deep"), clones(SHOP)), "deep", ("shop", "c0")
    ),
    "a remote that is added later": Layout(shop(), "shop", ("shop",), add_remote),
    "another clone, after the remote is added": Layout(
        both(shop(), clones(SHOP)), "shop", ("shop", "c0"), add_remote
    ),
    "a copy as a template": Layout(
        both(shop(remote=SHOP), copy("shop", "new"), run_git("new", "remote", "set-url", "origin", "git@x.org:a/new")),
        "shop", ("!new",),
    ),
    "git comes later": Layout(lambda g: g.at("shop"), "shop", ("shop",), lambda g: g.repo("shop")),
    "a name that is given": Layout(
        both(clones(SHOP, "git@x.org:b/shop"), run_git("c1", "config", "memlake.project", "github.com/ada/shop")),
        "c0", ("c1",),
    ),
    "a remote that is renamed": Layout(
        clones(SHOP), "c0", ("c0",),
        both(
            run_git("c0", "remote", "set-url", "origin", "https://github.com/ada/store"),
            run_git("c0", "config", "--add", "memlake.was", "github.com/ada/shop"),
        ),
    ),
    "a repo of memlake shared by a fork": Layout(
        both(clones(SHOP), init("c0")), "c0", ("c0",), run_git("c0", "remote", "set-url", "origin", "git@x.org:b/c")
    ),
    "a repo of memlake and a worktree": Layout(both(worktree("tree"), init("shop")), "tree", ("shop", "tree")),
    "packages of a monorepo are read everywhere": Layout(
        shop("packages/web", "packages/api"), "shop/packages/web", ("shop", "shop/packages/api")
    ),
    "home is no project": Layout(lambda g: (g.at("home"), g.repo("a")), "home", ("a",)),
    "what a project has is not seen at home": Layout(lambda g: (g.at("home"), g.repo("a")), "a", ("!home",)),
    "a git file that leads elsewhere": Layout(
        both(worktree("tree"), lambda g: (g.at("evil") / ".git").write_text((g.root / "tree/.git").read_text())),
        "shop", ("!evil",),
    ),
}  # fmt: skip
FACT = "The dev server listens on port 1313"


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    config.set_value(None, "embedding.provider", "none", "user")
    return Ground(tmp_path)


def read(folder: Path) -> list[str]:
    """What somebody in a folder is shown, by a search and by a hook, which must agree."""
    os.chdir(folder)
    with open_for_memories() as repo:
        hits = [hit["content"] for hit in repo.memories().search(Query("dev server port"))]
        assert [memory.content for memory in open_narrow(repo).search(("dev", "server", "port"), 5).memories] == hits
    return hits


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_memory_is_read_where_its_project_is_and_nowhere_else(
    ground: Ground, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = LAYOUTS[name]
    monkeypatch.chdir(ground.root)
    layout.make(ground)
    monkeypatch.chdir(ground.root / layout.write)
    with open_for_memories() as repo:
        repo.memories().remember(Draft(FACT))
    os.chdir(ground.root)
    layout.then(ground)
    found = {folder: read(ground.root / folder.removeprefix("!")) for folder in layout.read}
    assert found == {folder: [] if folder.startswith("!") else [FACT] for folder in layout.read}


def remember(folder: Path, text: str) -> str:
    os.chdir(folder)
    with open_for_memories() as repo:
        return repo.memories().remember(Draft(text)).decision


def test_a_project_corrects_what_it_was_told_under_an_older_name(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder := ground.repo())
    assert remember(folder, FACT) == "add"
    git(folder, "remote", "add", "origin", SHOP)
    assert remember(folder, "The dev server listens on port 1414") == "conflict"
    assert remember(ground.repo("other", SHOP), "The dev server listens on port 1515") == "conflict"
    assert remember(ground.repo("third"), "The dev server listens on port 1616") == "add"


def test_packages_do_not_correct_each_other_unless_the_text_says_it_is_for_all(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder := ground.repo())
    web, api = ground.at("shop/packages/web/src"), ground.at("shop/packages/api")
    assert remember(web, FACT) == "add"
    assert remember(api, "The dev server listens on port 1414") == "coexist"
    assert remember(folder / "packages/web", "The dev server listens on port 1515") == "conflict"
    assert (
        remember(ground.at("shop/packages/docs"), "In all packages the dev server now listens on port 9000")
        == "conflict"
    )
    with open_for_memories() as repo:
        listed = repo.memories().list_memories(Query())
    assert {(one.area, one.package) for one in listed} <= {
        ("packages/web/src", "packages/web"), ("packages/api", "packages/api"),
    }  # fmt: skip


def test_no_password_of_a_remote_is_kept(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder := ground.repo("shop", "https://ada:ghp_secret@git.x.org:8443/ada/shop.git"))
    remember(folder, FACT)
    with open_for_memories() as repo:
        assert repo.memories().list_memories(Query())[0].project == "git.x.org/ada/shop"
    files = [file for file in (ground.root / "data").rglob("*") if file.is_file()]
    assert files and not any(b"ghp_secret" in file.read_bytes() for file in files)


def test_where_git_may_not_be_written_the_path_names_the_project(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("read-only")

    monkeypatch.setattr(git_files, "write_once", refuse)
    monkeypatch.chdir(folder := ground.repo())
    remember(folder, FACT)
    assert read(folder) == [FACT] and projects.find_place(folder).names == (str(folder),)


def test_a_git_repo_of_another_user_gives_no_name(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = ground.repo("shop", SHOP)
    assert projects.find_place(folder).names == ("github.com/ada/shop", str(folder))
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert projects.find_place(folder).names == (str(folder),)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("git@github.com:ada/shop.git", "github.com/ada/shop"),
        ("ssh://git@ssh.github.com:443/ada/shop.git", "github.com/ada/shop"),
        ("https://x-access-token:abc@GitHub.com/Ada/Shop.git/", "github.com/ada/shop"),
        ("https://git.x.org/Ada/Shop", "git.x.org/Ada/Shop"),
        ("git+ssh://git@git.x.org/a%20b/c", "git.x.org/a b/c"),
        ("git@[2001:db8::1]:a/b", "[2001:db8::1]/a/b"),
        ("/srv/shop.git", ""),
        ("../shop", ""),
        ("file:///srv/shop.git", ""),
        ("https://github.com/", ""),
        ("https://x.org/a\nb", ""),
        ("", ""),
    ],
)
def test_an_address_is_named_the_same_however_it_is_written(address: str, name: str) -> None:
    assert git_files.name_remote(address) == name


def test_settings_of_git_are_read_as_git_writes_them(tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        '[core]\n\tbare = false\n# [remote "no"]\n[Remote "up stream"] url = "a b" ; first\n'
        '[remote "two"]\n\tfetch = x\n\tURL = https://x.org/a # note\n[memlake]\n\twas = one\n\twas = two\n'
    )
    assert list(git_files.read_values(str(tmp_path), "remote", "url", named=True)) == ["a b", "https://x.org/a"]
    assert list(git_files.read_values(str(tmp_path), "memlake", "was")) == ["one", "two"]
    assert git_files.read_remote(str(tmp_path / "nowhere")) == ""
