"""Changes as people read them: renames, names, counts, patches."""

from __future__ import annotations

from memlake.cli.screen import Screen
from memlake.errors import Purged
from memlake.records import Change, Entry
from memlake.views.changes import Row, name_status, rows, summary
from memlake.views.patches import View, patch
from memlake.views.stats import stat

STORED: dict[str, bytes] = {}


def entry(content: bytes, kind: str = "file", mode: int = 0) -> Entry:
    oid = f"{abs(hash(content)):x}".ljust(64, "0")
    STORED[oid] = content
    return Entry(oid, kind, len(content), mode)


def added(path: str, content: bytes) -> Change:
    return Change(path, None, entry(content))


def removed(path: str, content: bytes) -> Change:
    return Change(path, entry(content), None)


def modified(path: str, old: bytes, new: bytes) -> Change:
    return Change(path, entry(old), entry(new))


def view(*, color: bool = False) -> View:
    return View(
        Screen(color=color),
        lambda _, one: STORED[one.oid],
        lambda _, one: STORED[one.oid],
        lambda _: False,
        lambda _: None,
    )


def patched(*changes: Change, color: bool = False) -> list[str]:
    return [line for row in rows(changes) for line in patch(view(color=color), row)]


def test_a_removed_and_an_added_path_of_the_same_content_are_a_rename() -> None:
    found = rows([removed("files/a", b"x"), added("files/b", b"x"), modified("files/c", b"1", b"2")])
    assert [(row.status, row.source, row.path) for row in found] == [
        ("R", "files/a", "files/b"),
        ("M", None, "files/c"),
    ]
    assert name_status(found[0]) == "R100\ta\tb"
    assert found[0].shape()["from"] == "files/a"


def test_empty_files_and_other_content_are_not_renames() -> None:
    found = rows([removed("files/a", b""), added("files/b", b""), removed("files/c", b"1"), added("files/d", b"2")])
    assert [row.status for row in found] == ["D", "A", "D", "A"]


def test_a_copy_made_beside_a_rename_stays_an_added_path() -> None:
    found = rows([removed("files/x/a", b"x"), added("files/b", b"x"), added("files/y/a", b"x")])
    assert sorted((row.status, row.path, row.source) for row in found if row.source is None) == [
        ("A", "files/y/a", None)
    ]


def test_a_rename_prefers_the_path_of_the_same_name() -> None:
    found = rows([removed("files/x/a", b"x"), removed("files/x/b", b"x"), added("files/y/b", b"x")])
    assert [(row.status, row.path, row.source) for row in found] == [
        ("D", "files/x/a", None),
        ("R", "files/y/b", "files/x/b"),
    ]


def test_a_patch_has_the_headers_tools_expect() -> None:
    assert patched(added("files/a", b"one\n"))[0] == "diff --git a/a b/a"
    lines = patched(modified("files/a", b"one\n", b"two\n"))
    assert lines[0] == "diff --git a/a b/a"
    assert lines[1].startswith("index ") and len(lines[1]) == len("index ") + 22
    assert lines[2:] == ["--- a/a", "+++ b/a", "@@ -1 +1 @@", "-one", "+two"]


def test_new_and_deleted_files_come_from_and_go_to_dev_null() -> None:
    assert patched(added("files/a", b"one\n"))[1:2] == ["new file mode 100644"]
    assert "--- /dev/null" in patched(added("files/a", b"one\n"))
    assert "+++ /dev/null" in patched(removed("files/a", b"one\n"))
    assert "deleted file mode 100644" in patched(removed("files/a", b"one\n"))


def test_a_change_of_mode_alone_has_no_hunk() -> None:
    assert patched(Change("files/a", entry(b"x"), entry(b"x", mode=1))) == [
        "diff --git a/a b/a",
        "old mode 100644",
        "new mode 100755",
    ]


def test_another_kind_of_thing_is_a_deletion_and_a_new_thing() -> None:
    lines = patched(Change("files/a", entry(b"x\n"), entry(b"target", kind="link")))
    assert [line for line in lines if "mode" in line] == ["deleted file mode 100644", "new file mode 120000"]


def test_a_rename_is_two_lines_and_no_content() -> None:
    assert patched(removed("files/a", b"x"), added("files/b", b"x")) == [
        "diff --git a/a b/b",
        "similarity index 100%",
        "rename from a",
        "rename to b",
    ]


def test_binary_content_is_shown_by_size_and_id() -> None:
    line = patched(modified("files/m.pt", b"\0" * 2048, b"\0" * 4096))[-1]
    assert line.startswith("Binary file m.pt: 2.0 KiB (") and " -> 4.0 KiB (" in line


def test_a_file_too_large_to_compare_by_lines_is_said_to_be_so_without_being_read() -> None:
    huge = Entry("a" * 64, "file", 5 << 30)
    said = "Large file log: nothing -> 5.0 GiB (aaaaaaaaaa) (compared line by line up to 32.0 MiB)"
    assert patched(Change("files/log", None, huge))[-1] == said


def test_a_large_file_that_does_not_begin_as_text_is_not_read() -> None:
    closed = view()._replace(begins_as_text=lambda _: False)
    line = list(patch(closed, Row("A", "files/m.pt", None, Entry("a" * 64, "file", 5 << 20))))[-1]
    assert line == "Binary file m.pt: nothing -> 5.0 MiB (aaaaaaaaaa)"


def test_a_patch_of_endless_lines_is_counted_unless_text_is_asked_for() -> None:
    row = rows([modified("files/a.json", b"[" + b"1," * 60_000 + b"1]", b"[" + b"1," * 60_000 + b"2]")])[0]
    lines = list(patch(view()._replace(cuts=True), row))
    assert lines[2:] == [
        "note: a line of a.json has 120,003 characters; --text shows the patch anyway",
        "1 line added, 1 line removed",
    ]
    assert max(map(len, patch(view(), row))) == 120_004


def test_a_large_text_is_a_patch_whose_numbers_count_from_its_start() -> None:
    lines = [f"line {number}\n" for number in range(300_000)]
    edited = [*lines[:200_000], "new\n", *lines[200_000:]]
    patch_lines = patched(modified("files/log", "".join(lines).encode(), "".join(edited).encode()))
    assert patch_lines[4] == "@@ -199998,6 +199998,7 @@" and "+new" in patch_lines


def test_purged_content_does_not_stop_a_diff() -> None:
    def gone(_: str, __: Entry) -> bytes:
        raise Purged("erased")

    erased, one, other = View(Screen(), gone, gone, lambda _: True, lambda _: None), entry(b"x"), entry(b"yy")
    lines = list(patch(erased, Row("M", "files/a", one, other)))
    assert lines[-1] == f"Purged file a: 1 B ({one.oid[:10]}, purged) -> 2 B ({other.oid[:10]}, purged)"
    assert next(stat(erased, [Row("A", "files/a", None, one)])) == " a | purged, 0 -> 1 bytes"


def test_only_the_side_that_was_purged_is_called_so() -> None:
    huge, other = Entry("a" * 64, "file", 5 << 30), Entry("b" * 64, "file", 5 << 30)
    half = view()._replace(is_purged=lambda oid: oid == huge.oid)
    line = list(patch(half, Row("M", "files/a", huge, other)))[-1]
    assert line == "Purged file a: 5.0 GiB (aaaaaaaaaa, purged) -> 5.0 GiB (bbbbbbbbbb)"


def test_other_kinds_keep_their_whole_path() -> None:
    assert patched(added("memories/bot/1", b"hello\n"))[0] == "diff --git a/memories/bot/1 b/memories/bot/1"
    assert name_status(rows([added("memories/bot/1", b"x")])[0]) == "A\tmemories/bot/1"
    assert name_status(rows([added("files/memories/x", b"x")])[0]) == "A\t./memories/x"


def test_colour_marks_added_and_removed_lines_and_hides_no_escape_of_the_content() -> None:
    lines = patched(modified("files/a", b"one\n", b"\x1b[2Jtwo\n"), color=True)
    assert lines[-2] == "\x1b[31m-one\x1b[0m"
    assert lines[-1] == "\x1b[32m+\\x1b[2Jtwo\x1b[0m"


def test_the_stat_has_a_bar_a_path_and_totals() -> None:
    changes = [modified("files/a.txt", b"1\n2\n", b"1\n3\n4\n"), modified("files/long.bin", b"\0", b"\0\0")]
    assert list(stat(view(), rows(changes))) == [
        " a.txt    | 3 ++-",
        " long.bin | Bin 1 -> 2 bytes",
        " 2 files changed, 2 insertions(+), 1 deletion(-)",
    ]


def test_a_long_bar_is_scaled_to_the_width() -> None:
    line, totals = stat(view(), rows([added("files/a", b"x\n" * 5000)]))
    assert len(line) <= 80 and line.startswith(" a | 5000 ++")
    assert totals == " 1 file changed, 5000 insertions(+)", "as git: no comma in a number"


def test_the_summary_counts_by_what_happened() -> None:
    changes = [added("files/a", b"1"), added("files/b", b"2"), modified("files/c", b"3", b"4")]
    assert summary(rows(changes)) == "3 files changed: 2 added, 1 modified"
    assert summary(rows([added("memories/bot/1", b"1")])) == "1 path changed: 1 added"
