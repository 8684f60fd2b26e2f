"""Where the repo is, what is configured, who is writing: the only file that reads environment or config files.

Knows names of settings, not what they do. Settings live in `.memlake/config.toml` (this repo) and in
`$XDG_CONFIG_HOME/memlake/config.toml` (this user); the repo's win. A repo may come from a stranger, so what its file
says of programs, addresses and places counts only when the user trusted it. A command starts here, so nothing slow is
imported before a config file with something in it is found.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from memlake import nofollow, trust
from memlake.defaults import FIELDS, Settings, one_line
from memlake.errors import Denied, InvalidInput, NotARepo, Unavailable, pasted
from memlake.named_tuple import NamedTuple
from memlake.records import Author

FOLDER = ".memlake"
FILE = "config.toml"
_LARGEST = 1 << 16  # bytes of a settings file
_DOTS = 100  # in one line of it: what tomllib takes for a dotted key grows with the square of its parts
_MOST = 1_000_000_000  # what a setting that is a number may be at most: three decades of seconds
Where = Literal["repo", "user"]
AnyPath = str | os.PathLike[str]
RepoId = Callable[[], str]  # asked only where a repo's file holds settings that act: finding the id opens a database


# -- where the repo is


def is_bare(root: Path) -> bool:
    """Whether a folder is a bare repo: what lies in `.memlake` elsewhere lies in it itself, and it has no checkout."""
    if root.name == FOLDER or (root / FOLDER).is_dir() or (root / "local.db").exists():
        return False
    return all((root / name).is_dir() for name in ("packs", "parts", "tmp"))


def repo_folder(root: Path) -> Path:
    """The folder where a repo keeps everything: the `.memlake` in its root, or of a bare repo the root itself."""
    return root if is_bare(root) else root / FOLDER


def repo_root(folder: Path) -> Path:
    """The root of the repo that keeps everything in this folder."""
    return folder.parent if folder.name == FOLDER else folder


def get_repo(start: AnyPath | None = None, explicit: AnyPath | None = None) -> Path:
    """The root of a repo, as `find_repo` finds it; NotARepo when there is none."""
    root = find_repo(start, explicit)
    if root is None:
        here = Path(start or ".").absolute()
        raise NotARepo(
            f"not a memlake repo: neither {here} nor any folder above it has a {FOLDER} folder.",
            hint="Make one with `memlake init`, or name one with `memlake -C FOLDER ...` or MEMLAKE_REPO."
            + (" (/ is a repo only if MEMLAKE_REPO names it.)" if here == here.parent else ""),
        )
    return root


def find_repo(start: AnyPath | None = None, explicit: AnyPath | None = None) -> Path | None:
    """The root of a repo, bare or not: `explicit`, else MEMLAKE_REPO, else `start` (here) or the nearest above.

    The search ends at home and never takes the root of the file system, because a repo that somebody left there is
    nobody's. A repo that is named must exist; without a name, None means that there is none.
    """
    if explicit is not None:
        return _open_named(explicit, "the path given")
    if named := os.environ.get("MEMLAKE_REPO"):
        return _open_named(named, "MEMLAKE_REPO")
    try:
        here = os.path.abspath(os.fspath(start) if start is not None else ".")
    except FileNotFoundError as error:
        raise NotARepo("the current folder no longer exists.", hint="Go to another folder with `cd`.") from error
    home = os.path.expanduser("~")
    ends = (os.path.abspath(home), os.path.realpath(home))
    while (above := os.path.dirname(here)) != here:
        if os.path.isdir(os.path.join(here, FOLDER)) or is_bare(Path(here)):
            return check_owner(Path(here))
        if here in ends:
            return None
        here = above
    return None


def real_name(path: AnyPath) -> AnyPath:
    """The path, or InvalidInput if no file or folder can have it: empty, with NUL, or with half a character."""
    text = os.fspath(path)
    if not text or any(char == "\0" or "\ud800" <= char < "\udc80" for char in text):
        raise InvalidInput(f"{text!r} cannot be the name of a file or folder. Nothing was changed.")
    return path


def _open_named(path: AnyPath, who: str) -> Path:
    """A repo named outright: its root, or the `.memlake` folder itself."""
    root = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    if root.name == FOLDER and root.is_dir():
        return check_owner(root.parent)
    if not repo_folder(root).is_dir():
        why = f"has no {FOLDER} folder" if root.exists() else "does not exist"
        raise NotARepo(
            f"not a memlake repo: {who} names {root}, which {why}.",
            hint=f"Make one there with `memlake init {pasted(root)}`, or name another folder.",
        )
    return check_owner(root)


def check_owner(root: Path) -> Path:
    """The root of a repo, or Denied when its folder is another user's, as git does: it may be a trap for us.

    A link counts by who made it and by what it leads to. Root that came by sudo is also who called sudo.
    """
    folder = repo_folder(root)
    if is_ours(folder, root):
        return root
    owners, own = _list_owners(folder), os.geteuid()
    safe, real = read_settings(None).safe_directory, os.path.realpath(root)
    raise Denied(
        f"{folder} belongs to another user (uid {min(owners - {own})}; you are uid {own}), who could have prepared "
        "it to harm you. It was not opened.",
        hint=f"If you trust them: memlake config --user safe.directory "
        f"{pasted(os.pathsep.join(filter(None, (safe, real))))}",
    )


def is_ours(folder: Path, root: Path | None = None) -> bool:
    """Whether a folder is the user's own, or in a root (unless given, where it lies) that the user calls safe."""
    owners, own = _list_owners(folder), os.geteuid()
    ours = {own, int(sudo)} if own == 0 and (sudo := os.environ.get("SUDO_UID", "")).isdecimal() else {own}
    if owners <= ours:
        return True
    real = os.path.realpath(root or folder.parent)
    for entry in map(os.path.expanduser, filter(None, read_settings(None).safe_directory.split(os.pathsep))):
        # A folder, all below one (/*), or any.
        below = entry.endswith("/*") and real.startswith(os.path.realpath(entry[:-2]) + os.sep)
        if entry == "*" or below or real == os.path.realpath(entry):
            return True
    return False


def _list_owners(folder: Path) -> set[int]:
    return {os.lstat(folder).st_uid, os.stat(folder).st_uid} if os.path.exists(folder) else set()


def personal_folder() -> Path:
    """Where memories go that belong to no repo: in the user's data folder."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "memlake"


# -- settings


class Value(NamedTuple):
    """One setting as it stands: its value as text, and where that came from (repo, user or default).

    `ignored` is what the repo's file says and may not say, because the user did not trust the repo.
    """

    key: str
    text: str
    origin: str
    says: str
    ignored: str = ""


class InForce(NamedTuple):
    """What counts, and which settings of the repo's file do not, with their values."""

    settings: Settings
    ignored: Mapping[str, str]


class Request(NamedTuple):
    """What the file of a repo asks for beyond the repo: the settings that act, and whether the user granted it."""

    text: str
    acting: Mapping[str, str]
    granted: bool


_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
_USERS_ALONE = ("safe.directory",)  # whether a repo is opened at all cannot be for the repo to say, trusted or not


def read_settings(folder: Path | None) -> Settings:
    """The settings in force for the repo whose `.memlake` is `folder`, as if nobody trusted it; None: the user's."""
    return read_in_force(folder).settings


def read_in_force(folder: Path | None, repo_id: RepoId | None = None) -> InForce:
    """Like `read_settings`, with what is ignored."""
    found, ignored = _values(folder, repo_id)
    settings = Settings(**{key.replace(".", "_"): value for key, (value, _) in found.items()})
    return InForce(settings, ignored)


def list_values(folder: Path | None, repo_id: RepoId | None = None) -> list[Value]:
    """Every known setting in order of its key, with its origin."""
    values, ignored = _values(folder, repo_id)
    listed = []
    for key in sorted(FIELDS):
        value, origin = values.get(key, (FIELDS[key].default, "default"))
        listed.append(Value(key, _text(value), origin, FIELDS[key].says, ignored.get(key, "")))
    return listed


def get_value(folder: Path | None, key: str, repo_id: RepoId | None = None) -> str | None:
    """One setting in force as text (its default when nobody set it), or None when it is empty."""
    _check_key(key)
    return next(value.text for value in list_values(folder, repo_id) if value.key == key) or None


def set_value(
    folder: Path | None, key: str, value: str | float | bool | None, where: Where = "repo",
    repo_id: RepoId | None = None,
) -> bool:  # fmt: skip
    """Write one setting to the repo's file or the user's; None removes it. Comments in the file are kept.

    What the user writes there, the user trusts, unless the file asks already for what nobody trusted. False when one
    to remove was not there.
    """
    file = user_file() if where == "user" else folder and folder / FILE
    if value is not None or file is None or key not in _flatten(_parse(_read(file), file)):
        _check_key(key)  # one that a file has can be taken out, whatever it is
    checked = None if value is None else _check_value(key, value, "you gave")
    if key == "core.packs" and checked:
        checked = resolve_place(checked, os.getcwd())
    if checked is not None:
        Settings(**{key.replace(".", "_"): checked})
    if where == "user":
        return _rewrite(user_file(), key, checked)
    if folder is None:
        change = f"--unset {key}" if checked is None else f"{key} {pasted(_text(checked))}"
        raise NotARepo(
            "there is no repo here to configure. Nothing was changed.",
            hint=f"For your own settings: memlake config --user {change}",
        )
    if key in _USERS_ALONE and checked is not None:
        raise InvalidInput(
            f"{key} only counts in your own settings. Nothing was changed.",
            hint=f"Run: memlake config --user {key} {pasted(_text(checked))}",
        )
    try:
        before = read_request(folder, repo_id)
    except InvalidInput as error:
        raise InvalidInput(f"{error.message} It was not changed.", hint=error.hint) from error
    done = _rewrite(folder / FILE, key, checked)
    after = read_request(folder)
    if repo_id is not None and after.acting and (before.granted or not before.acting):
        grant_request(folder, repo_id(), after)
    elif repo_id is not None and after.acting:
        warnings.warn(describe_ignored(repo_root(folder), after.acting), stacklevel=2)
    return done


def resolve_place(location: str, start: AnyPath) -> str:
    """What core.packs says as a place that is the same wherever one stands: a URL, or a folder counted from `start`."""
    return location if "://" in location else os.path.abspath(os.path.join(start, os.path.expanduser(location)))


# -- settings that act


def read_request(folder: Path, repo_id: RepoId | None = None) -> Request:
    """What the settings file of a repo asks for; not granted when `repo_id` is not known."""
    text = _read(folder / FILE)
    given = _flatten(_parse(text, folder / FILE)) if _says_something(text) else {}
    users = _file_values(user_file(), _read(user_file()))
    acting = {key: _text(value) for key, value in given.items() if _is_acting(key, value, users)}
    granted = bool(acting) and repo_id is not None and trust.is_granted(_trust_home(), repo_id(), text)
    return Request(text, acting, granted)


def grant_request(folder: Path, repo_id: str, request: Request) -> None:
    """Let the settings act as `request` has them: as they were read, so that nothing else is granted than was shown."""
    root = str(repo_root(folder))
    trust.revoke(_trust_home(), repo_id, root)  # what was granted before counts no longer
    trust.grant(_trust_home(), repo_id, request.text, trust.Grant(root, tuple(sorted(request.acting))))


def revoke_grant(folder: Path, repo_id: str) -> bool:
    """Take back what was granted to a repo; False when nothing was."""
    return trust.revoke(_trust_home(), repo_id, str(repo_root(folder)))


def list_grants() -> list[trust.Grant]:
    """Every repo that the user trusted."""
    return trust.list_grants(_trust_home())


def note_address(folder: Path, repo_id: str, text: str) -> None:
    """Note that this user gave an address (of a storage) that the repo keeps as `text`: others may have written it."""
    trust.grant(_trust_home().with_name("addresses"), repo_id, text, trust.Grant(str(repo_root(folder)), ()))


def is_own_address(repo_id: str, text: str) -> bool:
    """Whether `note_address` was told of it here, by this user."""
    return trust.is_granted(_trust_home().with_name("addresses"), repo_id, text)


def describe_acting(key: str) -> str:
    """What memlake does because of a setting that acts."""
    return FIELDS[key].acts


def without_acting(folder: Path) -> tuple[str, Mapping[str, str]]:
    """The text of a repo's settings file without the settings that act, and those with their values."""
    import tomlkit  # slow, and only a backup needs it

    request = read_request(folder)
    document = tomlkit.parse(request.text) if request.acting else None
    for key in request.acting if document is not None else ():
        section, name = key.split(".", 1)
        del document[section][name]  # type: ignore[index]
    return request.text if document is None else tomlkit.dumps(document), request.acting


def describe_ignored(root: Path, ignored: Mapping[str, str]) -> str:
    """Why settings of the repo do not count, and the command that cures: every command says it, so it is short."""
    first, *more = sorted(ignored)
    others = f" and {more[0] if len(more) == 1 else f'{len(more)} more'}" if more else ""
    return (
        f"until you trust this repo, memlake ignores its {first}{others}. "
        f"To see what it asks for: {trust_command(root)}"
    )


def trust_command(root: Path) -> str:
    """The command that trusts a repo, as it works from here."""
    try:
        is_here = Path.cwd().is_relative_to(root)
    except FileNotFoundError:
        is_here = False
    return "memlake trust" if is_here else f"memlake -C {pasted(str(root))} trust"


def _is_acting(key: str, value: object, users: Mapping[str, object]) -> bool:
    """Whether a setting of a repo acts, beside those of the user.

    Where the user says something else no value is harmless: an empty address is the usual one, and not the user's.
    """
    about = FIELDS.get(key) if key not in _USERS_ALONE else None
    if about is None or not about.acts:
        return False
    return value not in about.harmless or users.get(key, value) != value


def _trust_home() -> Path:
    return _user_config_home() / "memlake" / "trusted"


# -- the files of settings


def user_file() -> Path:
    """The user's own settings file, which may not exist."""
    return _user_config_home() / "memlake" / FILE


def _user_config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))


def _values(folder: Path | None, repo_id: RepoId | None = None) -> tuple[dict[str, tuple[Any, str]], dict[str, str]]:
    """Each setting that a file gives, checked, with the origin that won; and what of the repo's file is ignored."""
    users = _file_values(user_file(), _read(user_file()))
    found = {key: (value, "user") for key, value in users.items()}
    if folder is None:
        return found, {}
    text = _read(folder / FILE)
    given = _file_values(folder / FILE, text)
    # What the user's own settings say too, they say for themselves: no trust is needed.
    asked = {key for key, value in given.items() if users.get(key) != value and _is_acting(key, value, users)}
    if asked and repo_id is not None and trust.is_granted(_trust_home(), repo_id(), text):
        asked = set()
    found |= {key: (value, "repo") for key, value in given.items() if key not in asked}
    return found, {key: _text(given[key]) for key in sorted(asked)}


def _file_values(path: Path, text: str) -> dict[str, Any]:
    """The settings that the text of a file gives, checked."""
    if not _says_something(text):
        return {}
    flat = _flatten(_parse(text, path))
    for key in flat.keys() - FIELDS.keys():  # of a newer memlake, or mistyped: no reason to stop work
        warnings.warn(f'{path} has an unknown setting "{key}", which memlake ignores. {_advise_key(key)}', stacklevel=2)
    values = {key: _check_value(key, value, f"{path} has") for key, value in flat.items() if key in FIELDS}
    return values if path == user_file() else {key: values[key] for key in values if key not in _USERS_ALONE}


def _read(path: Path) -> str:
    """The text of a config file, empty when it is absent. Only the user's own may be a link."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path == user_file() else nofollow.open_file(path)
        with open(fd, "rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise InvalidInput(
                f"{path} is larger than {_LARGEST:,} bytes, so it is not a settings file. It was not read."
            )
        return data.decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.",
            hint=f"Correct it in an editor, or set it aside: mv {pasted(path)} {pasted(f'{path}.old')}",
        ) from error
    except PermissionError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}.") from error
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from error


def _says_something(text: str) -> bool:
    """Whether there is more than comments, so that the parser is not loaded for nothing."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _parse(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # 8 ms that most commands never need

    if any(line.count(".") > _DOTS and not line.lstrip().startswith("#") for line in text.splitlines()):
        raise InvalidInput(f"{path} has a line with more than {_DOTS} dots, which no setting needs. It was not read.")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise InvalidInput(f"{path} is nested deeper than any setting. It was not read.") from error
    except tomllib.TOMLDecodeError as error:  # its text ends with "(at line 3, column 7)"
        raise InvalidInput(
            f"{path} is not valid TOML: {error}.", hint='A setting is written as `name = "value"` under `[section]`.'
        ) from error


def _flatten(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if "." in name:  # a quoted key: as a setting it could not be found again where it is to be removed
            name = f"'{name}'"
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _check_key(key: str) -> None:
    if key not in FIELDS:
        raise InvalidInput(f'there is no setting "{key}".', hint=_advise_key(key))


def _advise_key(key: str) -> str:
    import difflib  # only for a mistake

    near = difflib.get_close_matches(key, FIELDS, n=1, cutoff=0.5)
    return f"Did you mean `{near[0]}`?" if near else "See all settings with `memlake config --list`."


def _check_value(key: str, value: object, source: str) -> Any:
    """`value` (from TOML, or text from a command line) as the type the setting has, or InvalidInput."""
    setting = FIELDS[key]
    kind = type(setting.default)
    result = _convert(kind, value)
    least, choices = setting.least, setting.choices
    is_number = kind in (int, float)
    if result is None or (choices and result not in choices) or (is_number and not (least or 0) <= result <= _MOST):
        takes = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[kind]
        takes = f"one of {', '.join(choices)}" if choices else takes
        takes += f" from {least or 0:g} to {_MOST:,}" if is_number else ""
        raise InvalidInput(f"{key} takes {takes}, but {source} {value!r}.")
    return result


def _convert(kind: type, value: object) -> Any:
    if kind is bool:
        return value if isinstance(value, bool) else _WORDS.get(value.lower()) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if kind is str:
        return str(value)
    try:
        number = float(value)
        whole = int(value) if kind is int else number
    except (ValueError, OverflowError):
        return None
    return whole if number == whole and number - number == 0 else None  # neither 1.5 as int, nor inf, nor nan


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _rewrite(path: Path, key: str, value: object) -> bool:
    """Change one key of a TOML file by replacing the file whole: a crash leaves the old one or the new one."""
    import tomlkit  # slow, and only writing needs it
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(_read(path))
    except TOMLKitError as error:
        raise InvalidInput(f"{path} is not valid TOML: {error}. It was not changed.") from error
    *sections, name = key.split(".")
    table: Any = document
    for section in sections:
        if value is not None and section not in table:
            table[section] = tomlkit.table()
        table = table.get(section, {})
        if not isinstance(table, dict):
            raise InvalidInput(f"{path} has `{section}` as a value, not as a section. It was not changed.")
    if value is None and name not in table:
        return False
    if value is None:
        del table[name]
    else:
        table[name] = value
    # A linked file of the user's stays a link; the repo's was read just now, and is none.
    path = Path(os.path.realpath(path)) if path == user_file() else path
    new = path.with_name(f"{path.name}.{os.urandom(8).hex()}.new")
    try:
        nofollow.make_folder(path.parent)
        with open(nofollow.open_file(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "w", encoding="utf-8") as file:
            file.write(tomlkit.dumps(document))
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Unavailable(f"{path} could not be written: {error.strerror}. It was not changed.") from error
    return True


# -- who is writing


def read_identity(folder: Path | None) -> Author:
    """Who commits: MEMLAKE_AUTHOR_NAME and _EMAIL, then settings, then git's, then user@host."""
    name, email = os.environ.get("MEMLAKE_AUTHOR_NAME", "").strip(), os.environ.get("MEMLAKE_AUTHOR_EMAIL", "").strip()
    if not (name and email):
        settings = read_settings(folder)
        name, email = name or settings.user_name.strip(), email or settings.user_email.strip()
    if not name:
        git = _git_identity(repo_root(folder) if folder else None)
        name, email = git.get("user.name", ""), email or git.get("user.email", "")
    user = _user()
    return check_author(Author(name or user, email or f"{user}@{os.uname().nodename}"))


def check_author(author: Author) -> Author:
    return Author(one_line(author.name, "the author's name"), one_line(author.email, "the author's email"))


def _user() -> str:
    for name in ("LOGNAME", "USER", "USERNAME"):
        if user := os.environ.get(name):
            return user
    import pwd  # rare: a container without a login

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid{os.getuid()}"


def _git_identity(root: Path | None) -> dict[str, str]:
    """user.name and user.email of git, asked only where git has a file that could say (a process costs 5 ms)."""
    places = [Path(os.path.expanduser("~/.gitconfig")), _user_config_home() / "git" / "config"]
    if extra := os.environ.get("GIT_CONFIG_GLOBAL"):
        places.append(Path(extra))
    if root:
        places.append(root / ".git")
    if not any(place.exists() for place in places):
        return {}
    import subprocess  # only for a commit by someone memlake does not know

    ask = ["git", "config", "--null", "--get-regexp", r"^user\.(name|email)$"]
    try:
        done = subprocess.run(ask, cwd=root, capture_output=True, timeout=5, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.decode("utf-8", "replace").split("\0")
    return {key: value.strip() for key, _, value in (line.partition("\n") for line in lines) if key}


# -- what the environment asks of a door


def debug() -> bool:
    """Whether MEMLAKE_DEBUG asks for tracebacks."""
    return os.environ.get("MEMLAKE_DEBUG", "") not in ("", "0")


def color(is_terminal: bool, settings: Settings | None = None) -> bool:
    """Whether to colour: NO_COLOR, then FORCE_COLOR, then color.ui, then whether a terminal reads it."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    wish = settings.color_ui if settings else "auto"
    return wish == "always" or (wish == "auto" and is_terminal and os.environ.get("TERM") != "dumb")


def pager(settings: Settings | None = None) -> str:
    """The command long output goes through; empty for none (as `cat` says too)."""
    asked = os.environ.get("MEMLAKE_PAGER")
    if asked is None:
        asked = (settings.core_pager if settings else "") or os.environ.get("PAGER", "less")
    return "" if asked.strip() in ("", "cat") else asked


def editor(settings: Settings | None = None) -> str:
    """The command a message is written in; empty when nobody could see it (a dumb terminal and no wish)."""
    wishes = (os.environ.get("MEMLAKE_EDITOR"), settings.core_editor if settings else "", os.environ.get("VISUAL"))
    wish = next((wish for wish in (*wishes, os.environ.get("EDITOR")) if wish), "")
    return wish or ("" if os.environ.get("TERM", "dumb") == "dumb" else "vi")


def find_session() -> tuple[str, str]:
    """The program a command line is typed in and its session: MEMLAKE_SESSION, else what a coding agent says of
    itself, else the terminal of this day.
    """
    agents = (("claude-code", "CLAUDE_CODE_SESSION_ID"), ("codex", "CODEX_THREAD_ID"))
    client, session = next(((name, said) for name, key in agents if (said := os.environ.get(key))), ("cli", ""))
    session = os.environ.get("MEMLAKE_SESSION") or session
    return client, session or f"shell:{time.strftime('%Y%m%d')}-{os.getsid(0)}"


def hook_seconds(default: float) -> float:
    """How long a hook may take: what MEMLAKE_HOOK_SECONDS says, where that is a number up to an hour."""
    try:
        seconds = float(os.environ.get("MEMLAKE_HOOK_SECONDS", ""))
    except ValueError:
        return default
    return seconds if 0 < seconds <= 3600 else default


def plain_environment() -> dict[str, str]:
    """The environment without what points git at another repo."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def variable(name: str) -> str:
    """Any other `MEMLAKE_<name>` of the environment, empty when unset, so that only this file reads it."""
    return os.environ.get(f"MEMLAKE_{name}", "")


def outside(name: str) -> str:
    """A variable that other programs gave its name (OPENAI_API_KEY), stripped; empty when unset.

    Keys are read from the environment alone: settings are listed, shown and copied.
    """
    return os.environ.get(name, "").strip() if name else ""


def aws_profile(name: str = "") -> dict[str, str]:
    """What the files that `aws configure` writes say of a profile; empty when there are none."""
    name = name or outside("AWS_PROFILE") or "default"
    credentials = outside("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials"
    settings = outside("AWS_CONFIG_FILE") or "~/.aws/config"
    section = name if name == "default" else f"profile {name}"
    return _ini(settings, section) | _ini(credentials, name)


def _ini(path: str, section: str) -> dict[str, str]:
    import configparser

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read(os.path.expanduser(path), encoding="utf-8")
    except (configparser.Error, OSError, UnicodeError) as error:
        what = f"{path} cannot be read: {type(error).__name__}."  # its text may quote a key
        raise InvalidInput(what, hint="Correct it, or pass what you need in client_config.") from None
    return dict(parser[section]) if section in parser else {}


def one_thread_of_algebra() -> None:
    """Let numpy start no threads, unless the user says how many: they cost a short command more CPU than its search."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def no_telemetry() -> None:
    """Let libraries that run models report to nobody. onnxruntime looks when it is imported, so call this before."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def environment() -> dict[str, str]:
    """All variables of this process, for one that we start."""
    return dict(os.environ)


def replace_environment(variables: dict[str, str]) -> None:
    """Make these the variables of this process: a worker sees what its parent sees now."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)
