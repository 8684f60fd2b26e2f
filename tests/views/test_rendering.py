"""Status, progress, JSON shapes, colour and suggestions, on records made by hand."""

from __future__ import annotations

import io
import json

import pytest

from memlake.cli.history.commit import parse_author, parse_value
from memlake.cli.screen import Progress, Screen, open_screen
from memlake.cli.suggest import close, did_you_mean
from memlake.errors import InvalidInput
from memlake.records import Author, Change, Commit, Conflict, Entry, Status
from memlake.views import json_shapes
from memlake.views.status import long_lines, short_lines, status_shape

ONE, TWO = Entry("1" * 64, size=1), Entry("2" * 64, size=1)


def status(**fields: object) -> Status:
    base: dict[str, object] = {"branch": "main", "head": "a" * 64, "staged": (), "unstaged": (), "untracked": ()}
    return Status(**{**base, **fields})  # type: ignore[arg-type]


MIXED = status(
    staged=(Change("files/new", None, ONE), Change("files/both", ONE, TWO)),
    unstaged=(Change("files/both", TWO, ONE), Change("files/gone", ONE, None)),
    untracked=("files/data/extra.csv",),
)


# -- status


def test_a_clean_status_is_two_lines() -> None:
    assert list(long_lines(status(), Screen())) == ["On branch main", "nothing to commit, working tree clean"]


def test_a_status_before_the_first_commit_says_so() -> None:
    lines = list(long_lines(status(head=None), Screen()))
    assert lines[:3] == ["On branch main", "", "No commits yet"]
    assert lines[-1].startswith("nothing to commit (")


def test_the_groups_of_a_status_have_hints() -> None:
    text = "\n".join(long_lines(MIXED, Screen()))
    assert 'Changes to be committed:\n  (use "memlake restore --staged <file>..." to unstage)\n' in text
    assert "\tmodified:   both\n\tnew file:   new\n" in text
    assert "Changes not staged for commit:" in text and "\tdeleted:    gone" in text
    assert "Untracked files:" in text and "\tdata/extra.csv" in text


def test_paths_of_a_status_are_relative_to_the_folder_one_stands_in() -> None:
    text = "\n".join(long_lines(MIXED, Screen(), "data"))
    assert "\textra.csv" in text and "\tmodified:   ../both" in text


def test_the_short_status_has_two_columns() -> None:
    assert list(short_lines(MIXED, Screen())) == ["MM both", " D gone", "A  new", "?? data/extra.csv"]


def test_a_staged_rename_shows_both_names() -> None:
    moved = status(staged=(Change("files/a", ONE, None), Change("files/b", None, ONE)))
    assert list(short_lines(moved, Screen())) == ["R  a -> b"]
    assert "\trenamed:    a -> b" in list(long_lines(moved, Screen()))


def test_conflicts_are_listed_with_what_happened_and_how_to_go_on() -> None:
    conflicts = (Conflict("files/x", ONE, TWO, ONE), Conflict("files/y", None, TWO, ONE, "ours"))
    text = "\n".join(long_lines(status(conflicts=conflicts, doing="merge"), Screen()))
    assert "You have a merge in progress with 1 conflict." in text
    assert "both modified:   x" in text and "chosen ours:     y" in text
    assert "memlake merge --abort" in text
    assert list(short_lines(status(conflicts=conflicts), Screen())) == ["UU x"]


@pytest.mark.parametrize(
    ("sides", "letters", "words"),
    [
        ((ONE, TWO, ONE), "UU", "both modified:"),
        ((None, TWO, ONE), "AA", "both added:"),
        ((ONE, None, TWO), "DU", "deleted by us:"),
        ((ONE, TWO, None), "UD", "deleted by them:"),
        ((None, None, ONE), "UA", "added by them:"),
        ((None, ONE, None), "AU", "added by us:"),
        ((ONE, None, None), "DD", "both deleted:"),
    ],
)
def test_a_conflict_has_the_letters_and_words_of_git(
    sides: tuple[Entry | None, Entry | None, Entry | None], letters: str, words: str
) -> None:
    found = status(conflicts=(Conflict("files/x", *sides),), doing="merge")
    assert list(short_lines(found, Screen())) == [f"{letters} x"]
    assert f"{words:<17}x" in "\n".join(long_lines(found, Screen()))
    assert json.loads(json_shapes.document(status_shape(found)))["conflicts"][0]["status"] == letters


def test_a_detached_head_is_named_by_its_commit() -> None:
    assert next(iter(long_lines(status(branch=None), Screen()))) == "HEAD detached at aaaaaaaaaa"


def test_the_json_status_says_everything_with_whole_paths() -> None:
    made = json.loads(json_shapes.document(status_shape(MIXED)))
    assert made["schema_version"] == 1 and made["branch"] == "main" and made["clean"] is False
    assert [change["path"] for change in made["staged"]] == ["files/both", "files/new"]
    assert made["staged"][1]["old"] is None and made["staged"][1]["new"]["oid"] == "1" * 64
    assert made["untracked"] == ["files/data/extra.csv"]


# -- JSON


def commit() -> Commit:
    return Commit(
        "c" * 64, "work", "d" * 64, (), None, Author("Ada", "ada@x"), 1_794_810_240_000_000, "hi\n\nyou", None
    )


def test_a_commit_as_json_has_its_fields_and_a_date() -> None:
    made = json_shapes.commit(commit())
    assert made["oid"] == "c" * 64 and made["author"] == {"name": "Ada", "email": "ada@x"}
    assert made["time"] == 1_794_810_240_000_000 and made["date"] == "2026-11-16T06:24:00.000000Z"
    assert "changes" not in made
    assert json_shapes.plain([Change("files/a", None, ONE)])[0]["status"] == "A"


@pytest.mark.parametrize("number", [0, 1, 3])
def test_a_streamed_list_is_one_document(number: int) -> None:
    lines = list(json_shapes.stream("items", ({"n": n} for n in range(number))))
    assert json.loads("\n".join(lines)) == {"schema_version": 1, "items": [{"n": n} for n in range(number)]}
    assert len(lines) == number + 2


# -- colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def opened(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, choice: str = "auto", **env: str) -> Screen:
    monkeypatch.setattr("sys.stdout", Terminal() if terminal else io.StringIO())
    monkeypatch.setenv("TERM", "xterm")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return open_screen(choice, pager=True)


def test_a_terminal_is_coloured_and_a_pipe_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, terminal=True).color
    assert not opened(monkeypatch, terminal=False).color


def test_no_color_and_force_color_are_heeded_and_the_option_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not opened(monkeypatch, terminal=True, NO_COLOR="1").color
    assert opened(monkeypatch, terminal=True, choice="always").color
    monkeypatch.delenv("NO_COLOR")
    assert opened(monkeypatch, terminal=False, FORCE_COLOR="1").color
    assert not opened(monkeypatch, terminal=True, choice="never").color


def test_a_pager_is_only_for_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert opened(monkeypatch, terminal=True, PAGER="sh -c cat")._pager == ("sh", "-c", "cat")
    assert opened(monkeypatch, terminal=False, PAGER="sh -c cat")._pager == ()
    assert opened(monkeypatch, terminal=True, PAGER="no-such-program")._pager == ()
    assert opened(monkeypatch, terminal=True, MEMLAKE_PAGER="")._pager == ()


def test_stored_text_is_cleaned_for_a_terminal_and_left_alone_in_a_pipe() -> None:
    assert Screen(on_terminal=True).clean("a\x1bb") == "a\\x1bb"
    assert Screen(color=True).clean("a\x1bb") == "a\\x1bb"
    assert Screen().clean("a\x1bb") == "a\x1bb"


# -- suggestions


def test_close_names_are_found_and_far_ones_are_not() -> None:
    assert close("mian", ["main", "dev"]) == ["main"]
    assert close("MAIN", ["main"]) == ["main"]
    assert close("zebra", ["main", "dev"]) == []
    assert did_you_mean("experimnt-1", ["experiment-1"]) == "Did you mean 'experiment-1'?"
    assert did_you_mean("zebra", ["main"]) == ""


# -- progress


def test_progress_shows_bytes_rate_and_time_left(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    progress = Progress("adding", width=100, clock=lambda: now[0])
    progress(1, 100, "early")
    assert capsys.readouterr().err == "", "a short piece of work is not worth a line"
    now[0] = 2.0
    progress(1 << 30, 4 << 30, "models/a.pt")
    shown = capsys.readouterr().err
    assert "adding  25%  1.0 GiB of 4.0 GiB  512.0 MiB/s  0:06 left  models/a.pt" in shown
    progress.close()
    assert capsys.readouterr().err.strip() == "", "the line is wiped"


# -- arguments of commit


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("0.93", 0.93), ("true", True), ("adam", "adam"), ("[1]", "[1]"), ("1e-3", 0.001), ("", "")],
)
def test_values_are_numbers_where_they_look_like_it(text: str, value: object) -> None:
    assert parse_value(text) == value and type(parse_value(text)) is type(value)


def test_an_author_needs_its_brackets() -> None:
    assert parse_author("Ada Lovelace <ada@x.org>") == Author("Ada Lovelace", "ada@x.org")
    for wrong in ("Ada", "<ada@x>", "Ada <a", ""):
        with pytest.raises(InvalidInput, match="Name <email>"):
            parse_author(wrong)
