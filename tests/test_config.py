"""Finding the repo, reading and writing settings, and knowing who writes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import memlake as ml
from memlake import config
from memlake.cli.main import main
from memlake.defaults import Settings
from memlake.errors import Denied, InvalidInput, NotARepo
from memlake.records import Author

needs_git = pytest.mark.skipif(not any(os.access(f"{p}/git", os.X_OK) for p in os.get_exec_path()), reason="needs git")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an empty `.memlake`, and a home without any config."""
    root = tmp_path / "repo"
    (root / ".memlake").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home" / ".config"))
    return root


@pytest.fixture
def folder(repo: Path) -> Path:
    return repo / ".memlake"


def write_user(text: str) -> None:
    config.user_file().parent.mkdir(parents=True, exist_ok=True)
    config.user_file().write_text(text)


# -- where the repo is


def test_the_repo_is_found_from_a_folder_deep_below_it(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = repo / "a" / "b" / "c"
    deep.mkdir(parents=True)
    assert config.find_repo(deep) == repo
    monkeypatch.chdir(deep)
    assert config.find_repo() == config.get_repo() == repo


def test_the_nearest_repo_wins(repo: Path) -> None:
    inner = repo / "inner"
    (inner / ".memlake").mkdir(parents=True)
    assert config.find_repo(inner) == inner


def test_a_file_called_memlake_is_not_a_repo(tmp_path: Path) -> None:
    (tmp_path / ".memlake").write_text("x")
    assert config.find_repo(tmp_path) is None


def test_looking_ends_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, deep = tmp_path / "home", tmp_path / "home" / "a" / "b"
    deep.mkdir(parents=True)
    (tmp_path / ".memlake").mkdir()
    monkeypatch.setenv("HOME", str(home))
    assert config.find_repo(deep) is None and config.find_repo(home) is None
    assert config.find_repo(tmp_path) == tmp_path, "what does not lie under home is looked for as ever"
    (home / ".memlake").mkdir()
    assert config.find_repo(deep) == home, "home itself may be a repo"


def test_looking_ends_at_a_home_that_is_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk" / "ada" / "a").mkdir(parents=True)
    (tmp_path / "home").symlink_to(tmp_path / "disk" / "ada")
    (tmp_path / "disk" / ".memlake").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "home" / "a")
    assert config.find_repo() is None


def test_the_root_of_the_file_system_is_never_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    is_dir = os.path.isdir
    monkeypatch.setattr(os.path, "isdir", lambda path: str(path) == "/.memlake" or is_dir(path))
    assert config.find_repo(tmp_path) is None and config.find_repo("/") is None
    with pytest.raises(NotARepo, match="MEMLAKE_REPO names it"):
        config.get_repo("/")


def test_no_repo_is_none_to_find_and_an_error_with_a_cure_to_get(tmp_path: Path) -> None:
    assert config.find_repo(tmp_path) is None
    with pytest.raises(NotARepo, match="memlake init") as caught:
        config.get_repo(tmp_path)
    assert str(tmp_path) in caught.value.message


def test_an_explicit_path_wins_over_the_environment_and_that_over_the_current_folder(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("named", "given"):
        (tmp_path / name / ".memlake").mkdir(parents=True)
    monkeypatch.chdir(repo)
    monkeypatch.setenv("MEMLAKE_REPO", str(tmp_path / "named"))
    assert config.find_repo() == tmp_path / "named"
    assert config.find_repo(explicit=tmp_path / "given") == tmp_path / "given"
    monkeypatch.delenv("MEMLAKE_REPO")
    assert config.find_repo() == repo


def test_a_named_repo_may_be_the_memlake_folder_itself(repo: Path) -> None:
    assert config.find_repo(explicit=repo / ".memlake") == repo


def test_a_named_repo_is_not_looked_for_above(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repo / "sub").mkdir()
    with pytest.raises(NotARepo, match="sub"):
        config.find_repo(explicit=repo / "sub")
    monkeypatch.setenv("MEMLAKE_REPO", str(repo / "sub"))
    with pytest.raises(NotARepo, match="MEMLAKE_REPO"):
        config.find_repo()


def test_a_current_folder_that_was_removed_is_said_to_be_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(NotARepo, match="no longer exists"):
        config.find_repo()


# -- settings


def test_without_files_every_setting_has_its_default(folder: Path) -> None:
    settings = config.read_settings(folder)
    assert settings == Settings()
    assert (settings.gc_grace_hours, settings.gc_reflog_expire, settings.core_lease_seconds) == (24, "never", 3600)
    assert config.read_settings(None) == settings


def test_the_repo_wins_over_the_user_key_by_key(folder: Path) -> None:
    write_user('[user]\nname = "Ana"\nemail = "ana@example.org"\n[gc]\ngrace_hours = 2\n')
    (folder / "config.toml").write_text('user.name = "Bot"\n')
    settings = config.read_settings(folder)
    assert (settings.user_name, settings.user_email, settings.gc_grace_hours) == ("Bot", "ana@example.org", 2)
    origins = {value.key: value.origin for value in config.list_values(folder)}
    assert (origins["user.name"], origins["user.email"], origins["color.ui"]) == ("repo", "user", "default")


def test_every_setting_is_listed_with_what_it_is_for(folder: Path) -> None:
    listed = config.list_values(folder)
    assert [value.key for value in listed] == sorted(value.key for value in listed)
    assert len(listed) == len(vars(Settings()))
    assert all(value.says for value in listed)


@pytest.mark.parametrize(
    ("key", "text", "kept"),
    [
        ("user.name", 'Zoë "Z" \\ O\'Hara', 'Zoë "Z" \\ O\'Hara'),
        ("gc.grace_hours", "1.5", "1.5"),
        ("core.lease_seconds", "60", "60"),
        ("add.warn_secrets", "No", "false"),
        ("gc.reflog_expire", "90", "90"),
        ("color.ui", "never", "never"),
    ],
)
def test_what_is_set_is_read_back(folder: Path, key: str, text: str, kept: str) -> None:
    config.set_value(folder, key, text)
    assert config.get_value(folder, key) == kept
    assert config.get_value(None, key) != kept, "the user's own settings must not change"
    config.read_settings(folder)


def test_a_value_for_the_user_goes_to_the_users_file(folder: Path) -> None:
    config.set_value(None, "user.name", "Ana", where="user")
    assert not (folder / "config.toml").exists()
    assert config.get_value(folder, "user.name") == "Ana"


def test_none_unsets_and_the_default_returns(folder: Path) -> None:
    config.set_value(folder, "gc.grace_hours", 3)
    config.set_value(folder, "gc.grace_hours", None)
    assert config.get_value(folder, "gc.grace_hours") == "24"
    config.set_value(folder, "user.name", None)
    assert config.get_value(folder, "user.name") is None


def test_setting_one_key_keeps_comments_and_the_other_keys(folder: Path) -> None:
    path = folder / "config.toml"
    path.write_text("# mine\n[gc]\ngrace_hours = 5 # short\n")
    config.set_value(folder, "user.name", "Ana")
    assert "# mine" in path.read_text() and "grace_hours = 5 # short" in path.read_text()
    assert config.read_settings(folder).gc_grace_hours == 5


def test_a_linked_settings_file_of_the_user_stays_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfile").write_text("")
    config.user_file().parent.mkdir(parents=True, exist_ok=True)
    config.user_file().symlink_to(tmp_path / "dotfile")
    config.set_value(folder, "user.name", "Ana", "user")
    assert config.user_file().is_symlink()
    assert "Ana" in (tmp_path / "dotfile").read_text()


def test_a_linked_settings_file_of_a_repo_is_neither_read_nor_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "dotfile").write_text("[user]\nname = 'Eve'\n")
    (folder / "config.toml").symlink_to(tmp_path / "dotfile")
    for use in (lambda: config.set_value(folder, "user.name", "Ana"), lambda: config.read_settings(folder)):
        with pytest.raises(Denied, match="is a link to"):
            use()
    assert "Eve" in (tmp_path / "dotfile").read_text()


def test_a_crash_while_writing_leaves_the_old_file_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.set_value(folder, "user.name", "Ana")
    before = (folder / "config.toml").read_text()

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        config.set_value(folder, "user.name", "Eve")
    assert (folder / "config.toml").read_text() == before


@pytest.mark.parametrize(
    ("key", "near"), [("user.nmae", "user.name"), ("gc.grace", "gc.grace_hours"), ("colour.ui", "color.ui")]
)
def test_an_unknown_key_is_refused_with_the_nearest_one(folder: Path, key: str, near: str) -> None:
    for act in (lambda: config.get_value(folder, key), lambda: config.set_value(folder, key, "x")):
        with pytest.raises(InvalidInput, match=key.replace(".", r"\.")) as caught:
            act()
        assert near in caught.value.hint


def test_unknown_keys_in_a_file_are_told_and_can_be_taken_out(folder: Path) -> None:
    (folder / "config.toml").write_text("x = 1\n[gc]\ngrase_hours = 1\nreflog_expire = '9'\n[of.another.day]\ny = 1\n")
    with pytest.warns(UserWarning, match=r'config\.toml has an unknown setting "gc\.grase_hours".*`gc\.grace_hours`'):
        assert config.read_settings(folder).gc_reflog_expire == "9"
    for key in ("x", "gc.grase_hours", "of.another.day.y"):
        assert config.set_value(folder, key, None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert config.read_settings(folder).gc_reflog_expire == "9"
    with pytest.raises(InvalidInput):
        config.set_value(folder, "x", None)


@pytest.mark.parametrize(
    ("key", "bad"),
    [
        ("gc.grace_hours", "soon"),
        ("gc.grace_hours", "-1"),
        ("gc.grace_hours", "nan"),
        ("gc.grace_hours", "inf"),
        ("core.lease_seconds", "1.5"),
        ("core.lease_seconds", "0"),
        ("core.lease_seconds", "inf"),
        ("core.lease_seconds", "1" * 48),
        ("gc.grace_hours", "1e308"),
        ("gc.reflog_expire", "9" * 20),
        ("add.warn_secrets", "maybe"),
        ("color.ui", "sometimes"),
        ("gc.reflog_expire", "soon"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_and_nothing_is_written(folder: Path, key: str, bad: str) -> None:
    with pytest.raises(InvalidInput, match=key.replace(".", r"\.")) as caught:
        config.set_value(folder, key, bad)
    assert bad in caught.value.message
    assert not (folder / "config.toml").exists()


@pytest.mark.parametrize("value", ["true", "[1]", "1979-05-27", '"soon"'])
def test_a_value_of_the_wrong_kind_in_a_file_names_the_file(folder: Path, value: str) -> None:
    (folder / "config.toml").write_text(f"[gc]\ngrace_hours = {value}\n")
    with pytest.raises(InvalidInput, match=r"gc\.grace_hours takes a number from 0 to 1,.*config\.toml has"):
        config.read_settings(folder)


def test_bad_toml_names_the_file_and_the_line(folder: Path) -> None:
    (folder / "config.toml").write_text("[gc]\ngrace_hours = \n")
    with pytest.raises(InvalidInput, match=r"config\.toml is not valid TOML.*line 2"):
        config.read_settings(folder)
    with pytest.raises(InvalidInput, match="not changed"):
        config.set_value(folder, "user.name", "Ana")


def test_a_file_that_is_not_text_is_refused(folder: Path) -> None:
    (folder / "config.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInput, match=r"config\.toml is not UTF-8"):
        config.read_settings(folder)


def test_a_section_that_is_a_plain_value_is_refused(folder: Path) -> None:
    (folder / "config.toml").write_text("user = 3\n")
    with pytest.raises(InvalidInput, match="not as a section"):
        config.set_value(folder, "user.name", "Ana")


def test_no_toml_parser_is_imported_when_no_file_says_anything(folder: Path) -> None:
    (folder / "config.toml").write_text("# nothing yet\n\n")
    code = (
        "import sys; from pathlib import Path; from memlake import config\n"
        f"config.read_settings(Path({str(folder)!r})); config.find_repo({str(folder)!r})\n"
        "slow = {'tomllib', 'tomlkit', 'subprocess', 'difflib', 'pathlib2'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# -- who is writing


def test_the_environment_names_the_author_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config.set_value(folder, "user.name", "Ana")
    config.set_value(folder, "user.email", "ana@example.org")
    assert config.read_identity(folder) == Author("Ana", "ana@example.org")
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", "Bot")
    assert config.read_identity(folder) == Author("Bot", "ana@example.org")
    monkeypatch.setenv("MEMLAKE_AUTHOR_EMAIL", "bot@example.org")
    assert config.read_identity(folder) == Author("Bot", "bot@example.org")


def test_without_any_configuration_the_author_is_user_at_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "ana")
    assert config.read_identity(folder) == Author("ana", f"ana@{os.uname().nodename}")
    for name in ("LOGNAME", "USER", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    assert config.read_identity(None).name, "an account without a login name still has one"


@needs_git
def test_git_is_asked_when_memlake_was_told_nothing(folder: Path) -> None:
    gitconfig = Path(os.environ["HOME"]) / ".gitconfig"
    gitconfig.parent.mkdir(exist_ok=True)
    gitconfig.write_text("[user]\n\tname = Ana of Git\n\temail = ana@git.example\n")
    assert config.read_identity(folder) == Author("Ana of Git", "ana@git.example")
    config.set_value(folder, "user.name", "Bot")
    assert config.read_identity(folder).name == "Bot"


@needs_git
def test_a_git_repo_around_the_data_may_name_the_author(folder: Path) -> None:
    subprocess.run(["git", "init", "-q", folder.parent], check=True)
    subprocess.run(["git", "-C", folder.parent, "config", "user.name", "Local"], check=True)
    assert config.read_identity(folder).name == "Local"


def test_git_is_not_started_where_it_has_no_config(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "git"
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    config.read_identity(folder)
    assert not (tmp_path / "started").exists()
    (folder.parent / ".git").mkdir()
    config.read_identity(folder)
    assert (tmp_path / "started").exists(), "the fake git would have been seen"


def test_a_machine_without_git_still_has_an_author(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder.parent / ".git").mkdir()
    monkeypatch.setenv("PATH", "")
    assert config.read_identity(folder).name


@pytest.mark.parametrize("name", ["two\nlines", "a <b>", "bell\x07"])
def test_an_author_that_would_break_a_line_is_refused(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMLAKE_AUTHOR_NAME", name)
    with pytest.raises(InvalidInput, match="author's name"):
        config.read_identity(folder)


# -- what the environment asks of a door


@pytest.mark.parametrize(
    ("env", "terminal", "wish", "expected"),
    [
        ({}, True, "auto", True),
        ({}, False, "auto", False),
        ({}, False, "always", True),
        ({}, True, "never", False),
        ({"TERM": "dumb"}, True, "auto", False),
        ({"NO_COLOR": "1"}, True, "always", False),
        ({"NO_COLOR": ""}, True, "auto", True),
        ({"FORCE_COLOR": "1"}, False, "never", True),
        ({"FORCE_COLOR": "0"}, False, "auto", False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, "auto", False),
    ],
)
def test_colour_follows_the_environment_then_the_setting_then_the_terminal(
    env: dict[str, str], terminal: bool, wish: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert config.color(terminal, Settings(color_ui=wish)) is expected


def test_the_pager_is_memlakes_own_then_the_setting_then_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.pager() == "less"
    monkeypatch.setenv("PAGER", "more")
    assert config.pager() == "more"
    assert config.pager(Settings(core_pager="most")) == "most"
    monkeypatch.setenv("MEMLAKE_PAGER", "cat")
    assert config.pager(Settings(core_pager="most")) == ""


def test_the_editor_is_memlakes_own_then_the_setting_then_visual_then_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert config.editor() == "vi"
    monkeypatch.setenv("EDITOR", "ed")
    assert config.editor() == "ed"
    monkeypatch.setenv("VISUAL", "code -w")
    assert config.editor() == "code -w"
    assert config.editor(Settings(core_editor="nano")) == "nano"
    monkeypatch.setenv("MEMLAKE_EDITOR", "hx")
    assert config.editor(Settings(core_editor="nano")) == "hx"


def test_without_a_terminal_or_a_wish_there_is_no_editor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert config.editor() == ""


def test_debug_is_off_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, expected in (("", False), ("0", False), ("1", True)):
        monkeypatch.setenv("MEMLAKE_DEBUG", value)
        assert config.debug() is expected


@pytest.mark.parametrize("text", ["Ada\nauthor Eve", "Ada <eve@example.org>", "a>b", "a\x7fb", "a\rb"])
def test_a_name_or_address_that_would_forge_a_line_is_refused_wherever_it_comes_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    for key in ("user.name", "user.email"):
        with pytest.raises(InvalidInput, match=f"{key} is"):
            config.set_value(folder, key, text)
        assert not (folder / "config.toml").exists()
    for name in ("NAME", "EMAIL"):
        with monkeypatch.context() as patched:
            patched.setenv(f"MEMLAKE_AUTHOR_{name}", text)
            with pytest.raises(InvalidInput, match=f"the author's {name.lower()} is"):
                config.read_identity(folder)


# -- settings that act

INSIDE = {  # what stays within the repo, whatever its value: a repo's own file may say it
    "access.flush_seconds", "add.warn_secrets", "color.ui", "core.lease_seconds", "embedding.batch_size",
    "embedding.flush_seconds", "embedding.related", "embedding.timeout", "embedding.unrelated",
    "gc.grace_hours", "gc.reflog_expire", "hook.budget", "hook.categories",
    "init.branch", "memory.cleanup", "memory.enabled", "memory.follow_git", "memory.org", "memory.recalls",
    "memory.secrets",
    "merge.conflict", "merge.rerere", "model.timeout", "remote.retries", "remote.timeout",
    "reranker.timeout", "search.access", "search.importance", "search.max_results", "search.min_score",
    "search.recency", "storage.cache_gb", "user.email",
    "user.name",
}  # fmt: skip
ACTING = {
    "core.editor", "core.packs", "core.pager", "embedding.model", "embedding.provider", "embedding.url",
    "hook.summary_command", "memory.delete", "model.command", "model.model", "model.url", "reranker.model",
    "reranker.provider", "reranker.url",
}  # fmt: skip


@pytest.mark.parametrize("key", [value.key for value in config.list_values(None)])
def test_every_setting_is_known_to_stay_inside_or_to_act_only_when_trusted(folder: Path, key: str) -> None:
    """A new setting is added to one of the two lists: does it name a program, an address or a place?"""
    default = next(value.text for value in config.list_values(None) if value.key == key)
    value = {
        "": "text",
        "true": "false",
        "false": "true",
        "auto": "never",
        "warn": "block",
        "never": "7",
        "merge": "diff3",
        "forget": "purge",
        "off": "expired",
    }.get(default, "3")
    section, _, name = key.partition(".")
    (folder / "config.toml").write_text(f'[{section}]\n{name} = "{value}"\n')
    found = config.get_value(folder, key)
    assert found == (value if key in INSIDE else default or None)
    assert key in INSIDE | ACTING | {"safe.directory"}
    assert set(config.read_in_force(folder).ignored) == ({key} & ACTING)
    assert config.read_in_force(folder, lambda: "some id").ignored == config.read_in_force(folder).ignored


# -- repos of other users


@pytest.fixture
def foreign(repo: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repo that belongs to another user: for real where we may give it away, else we are the other."""
    if os.geteuid() == 0:
        os.chown(repo / ".memlake", 12345, 12345)
        monkeypatch.delenv("SUDO_UID", raising=False)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    return repo


def test_a_repo_of_another_user_is_refused_with_a_command_that_cures(
    foreign: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(foreign)
    looks = (
        config.find_repo,
        lambda: config.get_repo(explicit=foreign),
        lambda: config.get_repo(explicit=foreign / ".memlake"),
        lambda: ml.open(foreign),
        lambda: ml.init(foreign),
        lambda: ml.Agent(foreign),
        lambda: ml.Repo(foreign / ".memlake"),
    )
    for look in looks:
        with pytest.raises(Denied, match=r"belongs to another user .*It was not opened") as refused:
            look()
    for verb in ("status", "recall x", "config --list", "trust", "remember x", "dataset ls", "undo"):
        assert main(verb.split()) == 128
        assert "belongs to another user" in capfd.readouterr().err
    assert main(["hook", "prompt"]) == 0
    assert os.listdir(foreign / ".memlake") == []

    config.set_value(None, "safe.directory", "/somewhere", "user")
    with pytest.raises(Denied) as refused:
        config.find_repo()
    command = shlex.split(refused.value.hint.partition("memlake ")[2])
    assert command[-1] == f"/somewhere:{os.path.realpath(foreign)}"  # what was safe before stays so
    assert main(command) == 0
    assert config.find_repo() == foreign


@pytest.mark.parametrize(("safe", "is_safe"), [("*", True), ("{above}/*", True), ("{above}", False), ("{root}", True)])
def test_safe_directories_name_a_folder_or_all_below_one(foreign: Path, safe: str, is_safe: bool) -> None:
    write_user(f'[safe]\ndirectory = "/x:{safe.format(above=foreign.parent, root=foreign)}"\n')
    (foreign / ".memlake/config.toml").write_text('[safe]\ndirectory = "*"\n')  # not for the repo to say
    if is_safe:
        assert config.find_repo(foreign) == foreign
    else:
        with pytest.raises(Denied):
            config.find_repo(foreign)


def test_root_by_sudo_opens_what_belongs_to_who_called_it(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("SUDO_UID", str((foreign / ".memlake").stat().st_uid))
    assert config.find_repo(foreign) == foreign
    monkeypatch.setenv("SUDO_UID", "54321")
    with pytest.raises(Denied):
        config.find_repo(foreign)


def test_a_link_to_a_folder_of_ours_counts_by_who_made_it(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / ".memlake").symlink_to(foreign / ".memlake")
    with pytest.raises(Denied):
        config.find_repo(ours)


def test_safe_directory_is_not_set_for_a_repo(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="only counts in your own settings") as refused:
        config.set_value(folder, "safe.directory", "*")
    assert refused.value.hint == "Run: memlake config --user safe.directory '*'"
    assert not (folder / "config.toml").exists()
