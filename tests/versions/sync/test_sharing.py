"""Push, fetch, pull and clone over a folder: what arrives is what was sent, and nobody loses anything."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

import memlake as ml
from memlake.cli.main import main
from memlake.repo import Repo
from memlake.versions.sync import collect as collecting
from memlake.versions.sync import push as pushing
from memlake.versions.sync import remote as remotes
from memlake.versions.sync.batch import Batch
from memlake.versions.sync.root import Root
from tests.servers import S3, Bucket
from tests.versions.sync.conftest import Team, commit, files_of, heads, put, remember, snapshot


def test_a_clone_has_the_refs_the_content_and_the_memories_of_what_was_pushed(ours: Repo, team: Team) -> None:
    ours.push()
    theirs = team("theirs")
    assert heads(theirs) == heads(ours)
    for path in ("a.txt", "big.bin", "deep/er/b.csv", "many/39.txt"):
        assert (Path(theirs.root) / path).read_bytes() == (Path(ours.root) / path).read_bytes()
    assert not theirs.status().unstaged and theirs.upkeep.fsck(full=True).ok
    with ml.Agent(theirs.root, agent_id="bot") as agent:
        assert "Rex" in agent.search_memory("which cat")[0]["content"]


def test_a_clone_is_the_same_repo_with_the_same_paths_of_agents(ours: Repo, team: Team) -> None:
    ours.push()
    theirs = team("theirs")
    assert theirs._id == ours._id and theirs._history.salt == ours._history.salt
    remember(theirs, "The build takes nine minutes")
    theirs.push()
    ours.pull()
    with ml.Agent(ours.root, agent_id="bot") as agent:
        assert len(agent.search_memory("build minutes port cat", top_k=5)) == 3


def test_a_fetch_of_nothing_new_reads_the_root_alone(ours: Repo, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ours.push()
    theirs = team("theirs")

    def refuse(*_: object) -> None:
        raise AssertionError("a file was asked for")

    monkeypatch.setattr(remotes.Remote, "download", refuse)
    monkeypatch.setattr(remotes.Remote, "get_bytes", refuse)
    assert theirs.fetch().up_to_date and ours.fetch().up_to_date
    assert ours.push().files == 0


def test_a_push_sends_only_what_is_new(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    before = files_of(tmp_path / "remote")
    commit(ours, "new.txt", b"x" * 100_000)
    pushed = ours.push()
    new = set(files_of(tmp_path / "remote")) - set(before)
    assert sum((tmp_path / "remote" / name).stat().st_size for name in new if "roots" not in name) < 20_000
    assert pushed.commits == 1 and ours.push().up_to_date


def test_a_push_of_many_batches_holds_them_in_files_and_leaves_none(
    ours: Repo, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, real = list[int](), collecting.keep_batch

    def keep(batch: Batch, folder: Path | None, **how: int) -> collecting.KeptBatch:
        kept = real(batch, folder, **how)
        assert folder is None or (kept.path.parent == folder and folder.parent == ours.dir / "tmp")
        seen.append(0 if folder is None else len(os.listdir(folder)))
        return kept

    monkeypatch.setattr(collecting, "keep_batch", keep)
    monkeypatch.setattr(collecting, "_BATCH_BYTES", 500)
    monkeypatch.setattr(collecting, "_MANY", 3)
    monkeypatch.setattr(collecting, "_AT_ONCE", 2)
    trial = ours.push(dry_run=True)
    assert seen and not any(seen) and trial.objects > 40 and not os.listdir(ours.dir / "tmp")
    seen.clear()
    pushed = ours.push()
    assert len(seen) > 4 and max(seen) > 4 and (pushed.objects, pushed.size) == (trial.objects, trial.size)
    assert not os.listdir(ours.dir / "tmp")
    theirs = team("theirs")
    assert heads(theirs) == heads(ours) and theirs.upkeep.fsck(full=True).ok


def test_the_first_push_says_what_leaves_the_machine(ours: Repo) -> None:
    trial = ours.push(dry_run=True)
    assert trial.is_first and trial.rooms == {"files": 43, "memories": 2} and trial.commits == 4
    assert ours.push().rooms == trial.rooms and not ours.push(dry_run=True).is_first


def test_the_same_branch_is_refused_and_joined_by_a_pull(ours: Repo, team: Team) -> None:
    ours.push()
    theirs = team("theirs")
    commit(theirs, "theirs.txt", b"1\n")
    theirs.push()
    commit(ours, "ours.txt", b"2\n")
    before = snapshot(ours)
    with pytest.raises(ml.errors.Conflict, match="commits that you do not have"):
        ours.push()
    assert snapshot(ours) == before
    assert ours.pull().merged is not None
    ours.push()
    theirs.pull()
    assert heads(theirs) == heads(ours) and (Path(theirs.root) / "ours.txt").exists()


def test_memories_of_both_sides_are_merged_by_the_pull_itself(ours: Repo, team: Team) -> None:
    ours.push()
    theirs = team("theirs")
    remember(theirs, "The staging database is called heron")
    theirs.push()
    remember(ours, "Releases happen on Thursdays")
    ours.pull()
    ours.push()
    theirs.pull()
    assert heads(theirs) == heads(ours)
    remember(ours, "Invoices are sent on Fridays")
    commit(theirs, "more.txt", b"3\n")
    theirs.push()
    tip, merged = theirs.head, ours.pull().merged
    assert merged is not None and merged.fast_forward, "only the memories took a merge"
    assert merged.commit == tip == ours.head
    with ml.Agent(theirs.root, agent_id="bot") as agent:
        found = {hit["content"] for hit in agent.search_memory("staging database releases Thursdays", top_k=5)}
    assert {"The staging database is called heron", "Releases happen on Thursdays"} <= found


def test_pushers_to_different_branches_join(ours: Repo, team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    ours.push()
    theirs = team("theirs")
    theirs.switch("dev", create=True)
    commit(theirs, "theirs.txt", b"1\n")
    commit(ours, "ours.txt", b"2\n")
    real, raced = pushing._swap, []

    def swap(*args: object) -> object:
        if not raced:  # somebody else is faster, once
            raced.append(1)
            theirs.push()
        return real(*args)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(pushing, "_swap", swap)
        assert not ours.push().up_to_date
    ours.fetch()
    theirs.fetch()
    assert [one.name for one in ours.remotes.branches()] == ["origin/dev", "origin/main"]
    assert ours.remotes.branches() == theirs.remotes.branches()


def test_a_swap_whose_answer_was_lost_is_looked_up(ours: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    real = remotes.Remote.swap

    def lose(self: remotes.Remote, *args: object) -> object:
        real(self, *args)  # type: ignore[arg-type]
        raise ml.errors.Unavailable("the answer was lost.")

    with monkeypatch.context() as patch:
        patch.setattr(remotes.Remote, "swap", lose)
        assert not ours.push().up_to_date
    assert ours.push().up_to_date


def test_a_swap_that_never_happened_is_told_so(ours: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> object:
        raise ml.errors.Unavailable("no route.")

    with monkeypatch.context() as patch:
        patch.setattr(remotes.Remote, "swap", fail)
        with pytest.raises(ml.errors.Unavailable, match="not known"):
            ours.push()
    assert not ours.push().up_to_date


def test_a_push_that_was_killed_is_finished_by_the_next_without_sending_its_files_again(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pushing._swap

    def die(*_: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(pushing, "_swap", die)
    with pytest.raises(KeyboardInterrupt):
        ours.push()
    left = {name: os.stat(tmp_path / "remote" / name).st_ino for name in files_of(tmp_path / "remote")}
    with pytest.raises(ml.errors.NotFound):
        ml.clone(tmp_path / "remote", tmp_path / "early")  # nobody sees a half-finished push
    monkeypatch.setattr(pushing, "_swap", real)
    ours.push()
    packs = {name: inode for name, inode in left.items() if name.startswith(("packs/", "parts/"))}
    assert packs and all(os.stat(tmp_path / "remote" / name).st_ino == inode for name, inode in packs.items())


def test_a_lease_lets_replace_only_what_was_seen(ours: Repo, team: Team) -> None:
    ours.push()
    theirs = team("theirs")
    commit(theirs, "theirs.txt", b"1\n")
    theirs.push()
    put(ours, "a.txt", b"other\n")
    ours.add("a.txt")
    ours.commit("two, again", amend=True)
    with pytest.raises(ml.errors.Conflict, match="somebody pushed meanwhile"):
        ours.push(force_with_lease=True)
    ours.fetch()
    assert not ours.push(force_with_lease=True).up_to_date
    assert [one.name for one in theirs.fetch().changes] == ["main"]


def test_tags_travel_and_a_tag_that_names_something_else_here_stays(ours: Repo, team: Team) -> None:
    ours.push()
    theirs = team("theirs")
    _tag(ours, "v1")
    ours.push("origin", "v1")
    _tag(theirs, "v1", commit(theirs, "x", b"1"))
    assert theirs.fetch().kept_tags == ("v1",)
    assert team("third").fetch().up_to_date
    assert heads(team("fourth"))[1, "v1"][0] == bytes.fromhex(str(ours.head))


def _tag(repo: Repo, name: str, at: str = "HEAD") -> None:
    repo.tags.create(name, at)


def test_a_branch_is_deleted_there_and_its_followers_go_at_the_next_fetch(ours: Repo, team: Team) -> None:
    ours.switch("dev", create=True)
    ours.push("origin", "main", "dev")
    theirs = team("theirs")
    ours.push("origin", "dev", delete=True)
    theirs.fetch()
    assert [one.name for one in theirs.remotes.branches()] == ["origin/main"]


def test_without_memories_files_alone_travel(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    with ml.clone(tmp_path / "remote", tmp_path / "files", memories=False) as files:
        assert heads(files)[0, "main"][1] is None and files.upkeep.fsck(full=True).ok
        commit(files, "more.txt", b"1\n")
        files.push()
    pulled = ours.pull()
    assert pulled.merged and not pulled.merged.conflicts
    with ml.Agent(ours.root, agent_id="bot") as agent:
        assert agent.search_memory("which cat")


def test_another_repo_is_refused(ours: Repo, tmp_path: Path) -> None:
    ours.push()
    with ml.init(tmp_path / "other") as other:
        commit(other, "x", b"1")
        other.remotes.add("origin", tmp_path / "remote")
        before = snapshot(other)
        for verb in (other.push, other.fetch):
            with pytest.raises(ml.errors.Denied, match="holds another repo"):
                verb()
        assert snapshot(other) == before


def test_a_place_with_other_things_in_it_is_left_alone(ours: Repo, tmp_path: Path) -> None:
    (tmp_path / "remote").mkdir()
    (tmp_path / "remote" / "thesis.tex").write_text("x")
    with pytest.raises(ml.errors.Denied, match="holds other files"):
        ours.push()
    assert files_of(tmp_path / "remote") == ["thesis.tex"]


def test_a_push_that_loses_to_others_again_and_again_waits_longer_each_time_and_goes_through(
    ours: Repo, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours.push()
    theirs, waits, lost = team("theirs"), list[float](), iter(range(25))
    monkeypatch.setattr(remotes.time, "sleep", waits.append)
    swap = remotes.Remote.swap

    def swap_behind_another(remote: remotes.Remote, root: Root, before: remotes.State | None) -> remotes.State:
        if next(lost, None) is not None:
            state = remote.get_root()
            swap(remote, state.root._replace(generation=state.root.generation + 1), state)
        return swap(remote, root, before)

    monkeypatch.setattr(remotes.Remote, "swap", swap_behind_another)
    commit(theirs, "late.txt", b"late\n")
    theirs.push()
    assert ours.fetch().commits == 1
    assert len(waits) == 25 and len(set(waits)) > 20
    assert max(waits[:2]) < 0.1 and all(0 <= wait <= 1 for wait in waits) and max(waits[5:]) > 0.1


def test_a_trial_says_how_many_requests_a_push_and_a_fetch_take(
    ours: Repo, tmp_path: Path, s3: S3, bucket: Bucket
) -> None:
    ours.remotes.add("s3", f"s3://{bucket.name}/p", endpoint=s3.proxy.endpoint)

    def count(act: Callable[[], object]) -> int:
        s3.proxy.forget()
        act()
        return len(s3.proxy.seen)

    first = ours.push("s3", dry_run=True)
    assert first.requests == count(lambda: ours.push("s3")) and first.requests >= 8
    theirs, hers = (ml.clone(f"s3://{bucket.name}/p", tmp_path / n, endpoint=s3.proxy.endpoint) for n in ("a", "b"))
    with theirs, hers:
        commit(ours, "new.bin", random.Random(5).randbytes(20 << 20))
        later = ours.push("s3", dry_run=True)
        assert later.requests == count(lambda: ours.push("s3"))
        planned = theirs.fetch(dry_run=True)  # it brings the batches, so that it need not be asked for them again
        assert planned.requests == count(hers.fetch) and planned.requests >= 1 + 1 + 20 / 4
    assert not ours.push(dry_run=True).requests  # a folder is asked nothing


def test_going_to_a_branch_that_only_a_remote_has_makes_it_here(ours: Repo, team: Team) -> None:
    ours.switch("exp", create=True)
    oid = commit(ours, "exp.txt", b"1\n")
    ours.push()
    theirs = team("theirs")
    theirs.switch("main", create=True, reset=True)
    theirs.switch("exp")
    assert theirs.branches.current == "exp" and theirs.head == oid and (Path(theirs.root) / "exp.txt").exists()
    theirs.switch("-")
    theirs.branches.delete("exp", force=True)
    other = Path(theirs.root).parent / "other"
    theirs.remotes.add("other", other)
    ours.remotes.add("other", other)
    ours.push("other")
    theirs.fetch("other")
    with pytest.raises(ml.errors.InvalidInput, match="2 remotes have one: origin/exp, other/exp"):
        theirs.switch("exp")
    with pytest.raises(ml.errors.NotFound, match="unknown rev"):
        theirs.switch("nowhere")


@pytest.mark.parametrize("verb", ["switch", "checkout"])
def test_a_person_who_goes_to_a_branch_of_a_remote_reads_that_it_is_new(
    ours: Repo, team: Team, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], verb: str
) -> None:
    ours.branches.create("exp")
    ours.push(None, "main", "exp")
    monkeypatch.chdir(team("theirs").root)
    assert main([verb, "exp"]) == 0 and "Switched to a new branch 'exp'" in capfd.readouterr().err


def test_a_pull_that_merges_what_was_fetched_before_does_not_say_that_nothing_came(
    ours: Repo, team: Team, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ours.push()
    theirs = team("theirs")
    commit(ours, "new.txt", b"1\n")
    ours.push()
    theirs.fetch()
    monkeypatch.chdir(theirs.root)
    assert main(["pull"]) == 0
    shown = capfd.readouterr()
    assert "Already up to date" not in shown.out + shown.err and "new.txt" in shown.out
    assert main(["pull"]) == 0 and "Already up to date" in capfd.readouterr().out
