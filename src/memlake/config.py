"""Where the repo is, what is configured, who is writing: the only file that reads environment or config files.

Knows names of settings, not what they do. Settings live in `.memlake/config.toml` (this repo) and in
`$XDG_CONFIG_HOME/memlake/config.toml` (this user); the repo's win. A command starts here, so nothing slow is
imported before a config file with something in it is found.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from memlake.errors import Denied, InvalidInput, NotARepo, Unavailable
from memlake.records import Author

FOLDER = ".memlake"
FILE = "config.toml"
Where = Literal["repo", "user"]
AnyPath = str | os.PathLike[str]


# -- where the repo is


def get_repo(start: AnyPath | None = None, explicit: AnyPath | None = None) -> Path:
    """The folder that holds `.memlake`, as `find_repo` finds it; NotARepo when there is none."""
    found = find_repo(start, explicit)
    if found is None:
        here = Path(start or ".").absolute()
        raise NotARepo(
            f"not a memlake repo: {here} has no {FOLDER} folder, and neither has any folder above it.",
            hint="Make one with `memlake init`, or name one with `memlake -C FOLDER ...` or MEMLAKE_REPO."
            + (" (/ is a repo only when MEMLAKE_REPO names it.)" if here == here.parent else ""),
        )
    return found


def find_repo(start: AnyPath | None = None, explicit: AnyPath | None = None) -> Path | None:
    """The folder that holds `.memlake`: `explicit`, else MEMLAKE_REPO, else `start` (here) or the nearest above.

    Looking ends at home, and never takes the root of the file system: a repo somebody left there is nobody's. A repo
    that was named and is not there is an error; one that was only looked for is None.
    """
    if explicit is not None:
        return _named(explicit, "the path given")
    if named := os.environ.get("MEMLAKE_REPO"):
        return _named(named, "MEMLAKE_REPO")
    try:
        here = os.path.abspath(os.fspath(start) if start is not None else ".")
    except FileNotFoundError as error:
        raise NotARepo("the current folder no longer exists.", hint="Go to another with `cd`.") from error
    home = os.path.expanduser("~")
    ends = (os.path.abspath(home), os.path.realpath(home))
    while (above := os.path.dirname(here)) != here:
        if os.path.isdir(os.path.join(here, FOLDER)):
            return Path(here)
        if here in ends:
            return None
        here = above
    return None


def real_name(path: AnyPath) -> AnyPath:
    """A path that a file or folder can have: not empty, and without NUL or half a character."""
    text = os.fspath(path)
    if not text or any(char == "\0" or "\ud800" <= char < "\udc80" for char in text):
        raise InvalidInput(f"{text!r} cannot be the name of a file or folder. Nothing was changed.")
    return path


def _named(path: AnyPath, who: str) -> Path:
    """A repo named outright: its root, or the `.memlake` folder itself."""
    root = Path(os.path.abspath(os.path.expanduser(os.fspath(path))))
    if root.name == FOLDER and root.is_dir():
        return root.parent
    if not (root / FOLDER).is_dir():
        why = f"has no {FOLDER} folder" if root.exists() else "does not exist"
        raise NotARepo(
            f"not a memlake repo: {who} names {root}, which {why}.",
            hint=f"Make one there with `memlake init {root}`, or name another folder.",
        )
    return root


def personal_folder() -> Path:
    """Where memories go that belong to no repo: in the user's data folder."""
    return Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")) / "memlake"


# -- settings


def _setting(default: Any, says: str, *, least: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"says": says, "least": least, "choices": choices})


@dataclass(frozen=True, slots=True)
class Settings:
    """Every known setting and its default. The field `gc_grace_hours` is the key `gc.grace_hours`."""

    user_name: str = _setting("", "who commits, when MEMLAKE_AUTHOR_NAME does not say")
    user_email: str = _setting("", "their address, when MEMLAKE_AUTHOR_EMAIL does not say")
    init_branch: str = _setting("main", "the first branch of a new repo")
    core_lease_seconds: int = _setting(3600, "how long gc waits for a writer that stopped reporting", least=1)
    core_packs: str = _setting("", "where packs are kept: empty for the repo itself, a folder, or a bucket as s3://...")
    core_pager: str = _setting("", "the program long output is shown in; `cat` for none")
    core_editor: str = _setting("", "the program a commit message is written in")
    add_warn_secrets: bool = _setting(True, "whether `add` warns of key files and .env files")
    gc_grace_hours: float = _setting(24.0, "how long unreachable objects stay before gc removes them", least=0)
    gc_reflog_expire: str = _setting("never", "the age in days after which reflog lines may go, or `never`")
    embedding_provider: str = _setting("local", "what embeds memories: local, openai, cohere, ollama, none ...")
    embedding_model: str = _setting("", "its model, where the provider offers more than one; empty for its usual one")
    embedding_url: str = _setting("", "the address of the provider, when it is not the usual one")
    embedding_batch_size: int = _setting(32, "texts embedded together", least=1)
    embedding_flush_seconds: float = _setting(1.0, "how long a text waits for others to be embedded with", least=0)
    embedding_timeout: float = _setting(30.0, "seconds a provider has to answer", least=0.1)
    memory_enabled: bool = _setting(True, "whether agents may store and search memories here")
    memory_secrets: str = _setting(
        "warn", "what to do with secrets in memories", choices=("warn", "block", "redact", "off")
    )
    hook_categories: str = _setting(
        "preferences,conventions,learnings", "what a coding agent's session starts with, by category; * for everything"
    )
    search_max_results: int = _setting(100, "the most hits one search gives", least=1)
    search_importance: float = _setting(0.1, "how much importance may add to a hit's score, as a share", least=0)
    search_recency: float = _setting(0.05, "how much being recent may add to a hit's score, as a share", least=0)
    search_access: float = _setting(0.0, "how much being read often may add to a hit's score, as a share", least=0)
    access_flush_seconds: float = _setting(60.0, "how often the counts of what was read are written down", least=0)
    storage_cache_gb: float = _setting(10.0, "how much of remote files is kept; the least used go first", least=0)
    color_ui: str = _setting("auto", "when output is coloured", choices=("auto", "always", "never"))

    def __post_init__(self) -> None:
        one_line(self.user_name, "user.name")
        one_line(self.user_email, "user.email")
        expire = self.gc_reflog_expire
        if expire != "never" and not expire.isdecimal():
            raise InvalidInput(f'gc.reflog_expire is "{expire}"; it takes a number of days or `never`.')


class Value(NamedTuple):
    """One setting as it stands: its value as text, and where that came from (repo, user or default)."""

    key: str
    text: str
    origin: str
    says: str


_FIELDS = {f.name.replace("_", ".", 1): f for f in fields(Settings)}
_WORDS = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def read_settings(folder: Path | None) -> Settings:
    """The settings in force for the repo whose `.memlake` is `folder`; None for those of the user alone."""
    found = _values(folder)
    return Settings(**{_FIELDS[key].name: value for key, (value, _) in found.items()}) if found else Settings()


def list_values(folder: Path | None) -> list[Value]:
    """Every known setting in order of its key, with its origin."""
    found = _values(folder)
    listed = []
    for key in sorted(_FIELDS):
        value, origin = found.get(key, (_FIELDS[key].default, "default"))
        listed.append(Value(key, _text(value), origin, _FIELDS[key].metadata["says"]))
    return listed


def get_value(folder: Path | None, key: str) -> str | None:
    """One setting in force as text (its default when nobody set it), or None when it is empty."""
    _known(key)
    return next(value.text for value in list_values(folder) if value.key == key) or None


def set_value(folder: Path | None, key: str, value: str | float | bool | None, where: Where = "repo") -> bool:
    """Write one setting to the repo's file or the user's; None removes it. Comments in the file are kept.

    False when one to remove was not there.
    """
    _known(key)
    checked = None if value is None else _checked(key, value, "the value given")
    if checked is not None:
        Settings(**{_FIELDS[key].name: checked})
    if where == "repo" and folder is None:
        raise NotARepo("no repo to configure here.", hint="Use `memlake config --user ...` for settings of your own.")
    path = user_file() if where == "user" else cast(Path, folder) / FILE
    return _rewrite(path, key, checked)


def user_file() -> Path:
    """The user's own settings file, which may not exist."""
    return _user_config_home() / "memlake" / FILE


def _user_config_home() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"))


def _values(folder: Path | None) -> dict[str, tuple[Any, str]]:
    """Each setting that a file gives, checked, with the origin that won."""
    found: dict[str, tuple[Any, str]] = {}
    for origin, path in (("user", user_file()), ("repo", folder / FILE if folder else None)):
        text = _read(path) if path else ""
        if path is None or not _says_something(text):
            continue
        for key, value in _flatten(_parse(text, path)).items():
            _known(key, path)
            found[key] = (_checked(key, value, str(path)), origin)
    return found


def _read(path: Path) -> str:
    """The text of a config file, empty when it is absent."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}.") from error
    except PermissionError as error:
        raise Denied(f"{path} cannot be read: {error.strerror}.") from error
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from error


def _says_something(text: str) -> bool:
    """Whether there is more than comments, so that the parser is not loaded for nothing."""
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _parse(text: str, path: Path) -> dict[str, Any]:
    import tomllib  # 8 ms that most commands never need

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:  # its text ends with "(at line 3, column 7)"
        raise InvalidInput(
            f"{path} is not valid TOML: {error}.", hint='A setting is written as `name = "value"` under `[section]`.'
        ) from error


def _flatten(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            flat.update(_flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def _known(key: str, path: Path | None = None) -> None:
    if key in _FIELDS:
        return
    import difflib  # only for a mistake

    near = difflib.get_close_matches(key, _FIELDS, n=1, cutoff=0.5)
    where = f"{path} has" if path else "there is"
    raise InvalidInput(
        f'{where} no setting "{key}".' if path is None else f'{where} an unknown setting "{key}".',
        hint=f"Did you mean `{near[0]}`?" if near else "See all settings with `memlake config --list`.",
    )


def _checked(key: str, value: object, source: str) -> Any:
    """`value` (from TOML, or text from a command line) as the type the setting has, or InvalidInput."""
    setting = _FIELDS[key]
    kind = type(setting.default)
    result = _converted(kind, value)
    least, choices = setting.metadata["least"], setting.metadata["choices"]
    if result is None or (choices and result not in choices) or (least is not None and result < least):
        takes = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}[kind]
        takes = f"one of {', '.join(choices)}" if choices else takes
        takes += f" of at least {least:g}" if least is not None else ""
        raise InvalidInput(f"{key} takes {takes}; {source} says {value!r}.")
    return result


def _converted(kind: type, value: object) -> Any:
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
    section, name = key.split(".", 1)
    if value is not None and section not in document:
        document[section] = tomlkit.table()
    table = document.get(section, {})
    if not isinstance(table, dict):
        raise InvalidInput(f"{path} has `{section}` as a value, not as a section. It was not changed.")
    if value is None and name not in table:
        return False
    if value is None:
        del table[name]
    else:
        table[name] = value
    _replace(Path(os.path.realpath(path)), tomlkit.dumps(document))  # a linked file stays a link
    return True


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(new, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise Unavailable(f"{path} could not be written: {error.strerror}. It was not changed.") from error


# -- who is writing


def read_identity(folder: Path | None) -> Author:
    """Who commits: MEMLAKE_AUTHOR_NAME and _EMAIL, then settings, then git's, then user@host."""
    name, email = os.environ.get("MEMLAKE_AUTHOR_NAME", "").strip(), os.environ.get("MEMLAKE_AUTHOR_EMAIL", "").strip()
    if not (name and email):
        settings = read_settings(folder)
        name, email = name or settings.user_name.strip(), email or settings.user_email.strip()
    if not name:
        git = _git_identity(folder.parent if folder else None)
        name, email = git.get("user.name", ""), email or git.get("user.email", "")
    user = _user()
    return check_author(Author(name or user, email or f"{user}@{os.uname().nodename}"))


def check_author(author: Author) -> Author:
    one_line(author.name, "the author's name")
    one_line(author.email, "the author's email")
    return author


def one_line(text: str, what: str) -> str:
    """A part of `Name <email>`, or InvalidInput: a line break or bracket in it would forge another line."""
    if any(ord(char) < 32 or char in "<>\x7f" for char in text):
        raise InvalidInput(
            f"{what} is {text!r}; no line break, control character, < or > may stand in it. Nothing was changed.",
            hint='Write for example: memlake config user.name "Ada Lovelace"',
        )
    return text


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
        raise InvalidInput(what, hint="Correct it, or give what you need in client_config.") from None
    return dict(parser[section]) if section in parser else {}


def one_thread_of_algebra() -> None:
    """Let numpy start no threads, unless the user says how many: they cost a short command more CPU than its search."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def no_telemetry() -> None:
    """Let libraries that run models report to nobody. onnxruntime looks when it is imported, so call this before."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


# -- what processes we start are given


def environment() -> dict[str, str]:
    """All variables of this process."""
    return dict(os.environ)


def replace_environment(variables: dict[str, str]) -> None:
    """Make these the variables of this process: a worker sees what its parent sees now."""
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)
