"""Every known setting, what it is for and its default. Pure: reads no file and no environment.

A repo may come from a stranger, so what its settings file says of programs, addresses and places counts only when the
user trusted it; those settings are declared as acting. Each command loads this, so nothing slow is imported.
"""

from __future__ import annotations

from typing import Any

from memlake.errors import InvalidInput
from memlake.named_tuple import NamedTuple


class _Setting(NamedTuple):
    """What is known of a setting. `acts` says what memlake does because of it; `harmless` values make it do nothing."""

    default: Any
    says: str
    acts: str = ""
    harmless: tuple[str, ...] = ()
    least: float | None = None
    choices: tuple[str, ...] = ()


def _data(default: Any, says: str, *, least: float | None = None, choices: tuple[str, ...] = ()) -> Any:
    """One that changes nothing beyond the repo, so that a repo's own file may give it."""
    return _Setting(default, says, least=least, choices=choices)


def _acting(
    says: str, acts: str, *, default: str = "", harmless: tuple[str, ...] = (), choices: tuple[str, ...] = ()
) -> Any:
    """One that names a program, an address or a place, or that destroys what could be restored."""
    return _Setting(default, says, acts, ("", *harmless), choices=choices)


class Settings:
    """Every known setting and its default. The attribute `gc_grace_hours` is the key `gc.grace_hours`.

    No dataclass, since each command makes one: dataclasses, and inspect with it, would be a sixth of start-up.
    """

    user_name: str = _data("", "the name in your commits, unless MEMLAKE_AUTHOR_NAME is set")
    user_email: str = _data("", "the address in your commits, unless MEMLAKE_AUTHOR_EMAIL is set")
    init_branch: str = _data("main", "the first branch of a new repo")
    safe_directory: str = _acting(
        "repos of other users that you want to open: folders separated by `:`, FOLDER/* for all below, * for any",
        "opens repos of other users",
    )
    core_lease_seconds: int = _data(3600, "how long gc waits for a writer that no longer reports", least=1)
    core_packs: str = _acting(
        "where packs are stored: empty for the repo itself, a folder, or a bucket as s3://...",
        "writes, reads and deletes packs there",
    )
    core_pager: str = _acting(
        "what shows long output; `cat` for none", "runs this program to show output", harmless=("cat",)
    )
    core_editor: str = _acting("the program in which you write commit messages", "runs this program to write a message")
    add_warn_secrets: bool = _data(True, "whether `add` warns of key files and .env files")
    merge_conflict: str = _data(
        "merge", "how to mark conflicts; diff3 adds the common base", choices=("merge", "diff3")
    )
    merge_rerere: bool = _data(True, "whether a conflict is resolved as the same one was before")
    gc_grace_hours: float = _data(24.0, "how long gc keeps objects that nothing needs any more", least=0)
    gc_reflog_expire: str = _data("never", "the age in days after which reflog lines may go, or `never`")
    embedding_provider: str = _acting(
        "what embeds memories: local, openai, cohere, ollama, none ...",
        "sends memories and questions to this service with your key, or loads this library",
        default="local",
        harmless=("local", "test", "none"),
    )
    embedding_model: str = _acting(
        "the model, if the provider offers several; empty for its default",
        "asks the service for this model, or loads it from the folder or hub it names",
    )
    embedding_url: str = _acting(
        "the address of the provider; empty for its usual one", "sends memories, questions and the service's key there"
    )
    embedding_batch_size: int = _data(32, "how many texts are embedded together", least=1)
    embedding_flush_seconds: float = _data(1.0, "how long a text waits to be embedded with others", least=0)
    embedding_timeout: float = _data(30.0, "how many seconds a provider has to answer", least=0.1)
    embedding_unrelated: float = _data(
        0.0, "the model's cosine of texts that have nothing in common; with the next one, 0 for what is known", least=0
    )
    embedding_related: float = _data(
        0.0, "the model's cosine of a question and its answer; benchmarks/calibrate.py measures both", least=0
    )
    reranker_provider: str = _acting(
        "what orders the first hits once more: http, cohere, sentence-transformers, python, command or none",
        "sends questions and memories to this service with your key, or runs this program or library",
        default="none",
        harmless=("none",),
    )
    reranker_model: str = _acting(
        "the model; for python package.module:function, for command the program",
        "asks the service for this model, or runs this program or function",
    )
    reranker_url: str = _acting(
        "the address of the reranker, before /rerank", "sends questions, memories and the service's key there"
    )
    reranker_timeout: float = _data(2.0, "how many seconds a reranker has to answer", least=0.1)
    model_command: str = _acting(
        "a program that reads a question and prints an answer, for `diff --summarize`; it goes before model.url",
        "runs this program and gives it what differs between versions",
    )
    model_url: str = _acting(
        "the address of a model that speaks like OpenAI's, such as http://localhost:11434/v1",
        "sends what differs between versions there",
    )
    model_model: str = _acting("the model that is asked for at model.url", "asks the service for this model")
    model_timeout: float = _data(60.0, "how many seconds a model has to answer", least=0.1)
    memory_enabled: bool = _data(True, "whether agents may store and search memories here")
    memory_org: str = _data("local", "the organisation whose memories are seen and stored here; * sees all of them")
    memory_follow_git: bool = _data(
        False, "whether memories follow the branch that git has checked out, and come with its merge"
    )
    memory_secrets: str = _data(
        "warn", "what to do with secrets in memories", choices=("warn", "block", "redact", "off")
    )
    memory_delete: str = _acting(
        "what deleting a memory does: forget, which can be restored, or purge, which erases it and its vector for good",
        "erases for good what agents delete",
        default="forget",
        harmless=("forget",),
        choices=("forget", "purge"),
    )
    memory_cleanup: str = _data(
        "off",
        "what gc and the start of a session do about expired memories, once a day: say so, or forget them",
        choices=("off", "propose", "expired"),
    )
    memory_recalls: int = _data(
        10_000, "how many records of what was told to whom are kept on this machine; 0 for none", least=0
    )
    hook_categories: str = _data(
        "preferences,conventions,decisions", "the categories that a coding agent's session starts with; * for all"
    )
    hook_budget: int = _data(800, "the most tokens that a coding agent's session starts with", least=0)
    hook_summary_command: str = _acting(
        "a program that writes the summary of a session at its end: it reads JSON (asked, done, open) and prints text",
        "runs this program and gives it what a session asked and did",
    )
    search_max_results: int = _data(100, "the most hits that one search returns", least=1)
    search_min_score: float = _data(
        0.2, "how near a hit must be to what was asked, 0 to 1; 0 tells whatever was found", least=0
    )
    search_importance: float = _data(0.1, "how much importance may raise a hit's rank, as a share", least=0)
    search_recency: float = _data(0.05, "how much recency may raise a hit's rank, as a share", least=0)
    search_access: float = _data(0.0, "how much frequent reading may raise a hit's rank, as a share", least=0)
    access_flush_seconds: float = _data(60.0, "how often the counts of reads are saved", least=0)
    remote_retries: int = _data(5, "how often a request to the bucket of a remote is tried again", least=0)
    remote_timeout: float = _data(180.0, "how many seconds a request to the bucket of a remote may take", least=0.1)
    storage_cache_gb: float = _data(10.0, "how much of remote files is cached; least used go first", least=0)
    color_ui: str = _data("auto", "when output is coloured", choices=("auto", "always", "never"))

    def __init__(self, **values: Any) -> None:
        if unknown := values.keys() - DEFAULTS.keys():
            raise TypeError(f"there is no setting {min(unknown)!r}")
        vars(self).update(DEFAULTS | values)
        one_line(self.user_name, "user.name")
        one_line(self.user_email, "user.email")
        expire = self.gc_reflog_expire
        if expire != "never" and not (expire.isdecimal() and len(expire) < 7):
            raise InvalidInput(f'gc.reflog_expire takes a number of days or `never`, not "{expire}".')

    def replace(self, **values: Any) -> Settings:
        """The same settings with other values for some."""
        return Settings(**{**vars(self), **values})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"settings in force do not change; {name} was not set")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).values()))


FIELDS = {name.replace("_", ".", 1): one for name, one in vars(Settings).items() if isinstance(one, _Setting)}
DEFAULTS = {key.replace(".", "_"): one.default for key, one in FIELDS.items()}


def one_line(text: str, what: str) -> str:
    """A part of `Name <email>`, or InvalidInput: a line break or bracket in it would forge another line."""
    if any(ord(char) < 32 or char in "<>\x7f" for char in text):
        raise InvalidInput(
            f"{what} is {text!r}, which must not contain line breaks, control characters, < or >. Nothing was changed.",
            hint='For example: memlake config user.name "Ada Lovelace"',
        )
    return text
