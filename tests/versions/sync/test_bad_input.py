"""What goes wrong before a byte is sent: names, addresses, keys, buckets. Each is said, and nothing is changed."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import memlake as ml
from memlake.cli.main import main
from memlake.errors import Corrupt, Denied, Error, InvalidInput, NotFound, Unavailable
from memlake.objects.places import Folder
from memlake.repo import Repo
from tests.conftest import SetClock
from tests.servers import S3, Bucket, free_port
from tests.versions.sync.conftest import commit, heads, put, snapshot

SECRET = "geheim-97531"
WITH_SECRETS = (
    f"s3://user:{SECRET}@bucket/p", f"https://user:{SECRET}@host/p", f"s3://bucket/p?token={SECRET}",
    f"s3://bucket/p#{SECRET}", f"s3://user:{SECRET}@[bad/p", f"file://user:{SECRET}@/tmp/x",
)  # fmt: skip
BAD_ENDPOINTS = (
    f"http://user:{SECRET}@127.0.0.1:9000", f"http://127.0.0.1:9000/?token={SECRET}", f"user:{SECRET}@127.0.0.1:9000",
    f"http://127.0.0.1:9000/#{SECRET}",
)  # fmt: skip
Run = Callable[..., tuple[int, str]]


@pytest.fixture
def mine(tmp_path: Path) -> Iterator[Repo]:
    with ml.init(tmp_path / "mine") as repo:
        commit(repo, "a.txt", b"hello\n")
        repo.config.set("remote.retries", "0")
        yield repo


@pytest.fixture
def run(mine: Repo, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command line in the repo: its exit code, and all it wrote."""
    monkeypatch.chdir(mine.root)

    def call(*words: str) -> tuple[int, str]:
        code = main(list(words))
        return code, "".join(capfd.readouterr())

    return call


def advised(text: str) -> list[str]:
    """The first command that a message advises, in words."""
    found = re.search(r": memlake ([^\n]+)", text)
    assert found is not None, text
    return shlex.split(found[1])


def files_with(root: Path, text: str) -> list[Path]:
    found = (Path(folder) / name for folder, _, names in os.walk(root) for name in names)
    return [file for file in found if text.encode() in file.read_bytes()]


# Secrets


@pytest.mark.parametrize("url", WITH_SECRETS)
@pytest.mark.parametrize("words", [("remote", "add", "x"), ("remote", "set-url", "o"), ("clone",)])
def test_an_address_with_a_secret_is_refused_and_shown_nowhere(
    mine: Repo, run: Run, words: tuple[str, ...], url: str, tmp_path: Path
) -> None:
    mine.remotes.add("o", tmp_path / "there")
    code, text = run(*words, url)
    assert code == 128 and SECRET not in text
    assert SECRET not in run("remote", "-v")[1] + run("--json", "remote", "list")[1]
    assert not files_with(mine.dir, SECRET)


@pytest.mark.parametrize("endpoint", BAD_ENDPOINTS)
@pytest.mark.parametrize(
    "words", [("remote", "add", "x", "s3://b/p"), ("remote", "set-url", "o", "s3://b/p"), ("clone", "s3://b/p", "c"),
              ("tier", "set", "cold", "s3://b/p")],
)  # fmt: skip
def test_an_endpoint_with_a_secret_is_refused_and_shown_nowhere(
    mine: Repo, run: Run, words: tuple[str, ...], endpoint: str, tmp_path: Path
) -> None:
    mine.remotes.add("o", tmp_path / "there")
    code, text = run(*words, "--endpoint", endpoint)
    assert code == 128 and SECRET not in text and "http://HOST:PORT" in text
    assert SECRET not in run("remote", "-v")[1] + run("--json", "remote", "list")[1]
    assert not files_with(mine.dir, SECRET)


def test_no_error_chain_quotes_a_secret_of_an_address_or_endpoint(mine: Repo, tmp_path: Path) -> None:
    calls = [lambda url=url: mine.remotes.add("x", url) for url in WITH_SECRETS]
    calls += [lambda url=url: ml.clone(url, tmp_path / "c") for url in WITH_SECRETS]
    calls += [lambda end=end: mine.remotes.add("x", "s3://b/p", endpoint=end) for end in BAD_ENDPOINTS]
    calls += [lambda end=end: ml.clone("s3://b/p", tmp_path / "c", endpoint=end) for end in BAD_ENDPOINTS]
    for call in calls:
        with pytest.raises(InvalidInput) as caught:
            call()
        chain = traceback.TracebackException.from_exception(caught.value, capture_locals=False)
        said = [str(caught.value), repr(caught.value), str(caught.value.__cause__), *map(str, (chain.__cause__,))]
        assert SECRET not in "".join(said)


def test_an_endpoint_with_a_secret_that_came_with_a_repo_is_not_shown(mine: Repo, run: Run) -> None:
    folder = mine.dir / "remotes" / "evil"
    folder.mkdir(parents=True)
    (folder / "remote.json").write_text(json.dumps({"url": "s3://b/p", "endpoint": BAD_ENDPOINTS[0]}))
    for words in (("remote", "-v"), ("push", "evil"), ("fetch", "evil"), ("--json", "remote", "list")):
        assert SECRET not in run(*words)[1]


def test_an_endpoint_of_the_environment_that_is_no_address_is_named_by_its_variable(
    mine: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (f"user:{SECRET}@host:1", "127.0.0.1:9000"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", value)
        with pytest.raises(InvalidInput, match="AWS_ENDPOINT_URL is not an address") as caught:
            mine.remotes.add("x", "s3://b/p")
        assert SECRET not in str(caught.value)


# Remotes and servers that are not there


def test_an_unknown_remote_is_named_with_those_there_are(mine: Repo, run: Run, tmp_path: Path) -> None:
    for verb in ("push", "fetch", "pull"):
        code, text = run(verb, "nowhere")
        assert code == 128 and "there is no remote 'nowhere'" in text and "memlake remote add origin" in text
    mine.remotes.add("there", tmp_path / "there")
    assert "The remotes are: there" in run("push", "nowhere")[1]


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_a_host_that_does_not_answer_is_unavailable_and_nothing_changes(mine: Repo, host: str, bucket: Bucket) -> None:
    mine.remotes.add("x", "s3://b/p", endpoint=f"http://{host}:{free_port()}")
    before = snapshot(mine)
    for verb in (mine.push, mine.fetch):
        with pytest.raises(Unavailable, match=r"connection refused|dns error") as caught:
            verb("x")
        assert "run it again" in caught.value.hint
    assert snapshot(mine) == before


def test_a_missing_bucket_is_named_by_every_verb_with_how_to_make_it(
    mine: Repo, s3: S3, bucket: Bucket, tmp_path: Path
) -> None:
    mine.remotes.add("x", "s3://nobody-made-this/p", endpoint=s3.proxy.endpoint)
    clone = lambda: ml.clone("s3://nobody-made-this/p", tmp_path / "c", endpoint=s3.proxy.endpoint)  # noqa: E731
    for call in (lambda: mine.push("x"), lambda: mine.fetch("x"), clone):
        with pytest.raises(NotFound, match="there is no bucket s3://nobody-made-this/p") as caught:
            call()
        assert caught.value.hint.endswith(f"aws s3 mb s3://nobody-made-this --endpoint-url {s3.proxy.endpoint}")
    assert not (tmp_path / "c").exists()


def test_a_bucket_with_other_things_is_left_alone_and_the_advised_address_works(
    mine: Repo, run: Run, s3: S3, bucket: Bucket
) -> None:
    bucket.put("holiday.jpg", b"x")
    mine.remotes.add("x", f"s3://{bucket.name}", endpoint=s3.proxy.endpoint)
    code, text = run("push", "x")
    assert code == 128 and "holds other files (holiday.jpg)" in text and list(bucket.files()) == ["holiday.jpg"]
    assert run(*advised(text))[0] == 0
    assert run("push", "x")[0] == 0
    assert "memlake/root" in bucket.files() and bucket.get("holiday.jpg") == b"x"


def test_a_new_address_keeps_the_server_unless_another_is_given(mine: Repo, tmp_path: Path) -> None:
    mine.remotes.add("x", "s3://a/p", endpoint="http://here:9000", region="eu")
    moved = mine.remotes.set_url("x", "s3://b/p")
    assert (moved.endpoint, moved.region) == ("http://here:9000", "eu")
    assert mine.remotes.set_url("x", "s3://b/p", endpoint="").endpoint == ""


def test_a_server_that_came_with_a_repo_is_named_before_it_is_trusted(mine: Repo, run: Run) -> None:
    folder = mine.dir / "remotes" / "theirs"
    folder.mkdir(parents=True)
    (folder / "remote.json").write_text(json.dumps({"url": "s3://b/p", "endpoint": "http://theirs:9000"}))
    text = run("push", "theirs")[1]
    assert "--endpoint http://theirs:9000" in text
    assert mine.remotes.set_url("theirs", "s3://b/p").endpoint == "", "who was not shown it did not give it"


# Keys and rights


@pytest.mark.parametrize(
    ("code", "says", "cure"),
    [("SignatureDoesNotMatch", "refused access", "Check the credentials in AWS_ACCESS_KEY_ID"),
     ("AccessDenied", "does not let these credentials", "Ask its owner to let you read, write"),
     ("RequestTimeTooSkewed", "the clock of this machine is wrong", "Set the clock")],
)  # fmt: skip
def test_wrong_keys_and_missing_rights_are_told_apart(
    mine: Repo, s3: S3, bucket: Bucket, code: str, says: str, cure: str
) -> None:
    mine.remotes.add("x", f"s3://{bucket.name}/p", endpoint=s3.proxy.endpoint)
    s3.proxy.deny = "GET", f"<Error><Code>{code}</Code></Error>".encode()
    before = snapshot(mine)
    with pytest.raises(Denied, match=says) as caught:
        mine.push("x")
    assert cure in caught.value.hint and "example-secret" not in str(caught.value)
    assert snapshot(mine) == before and not bucket.files()


def test_who_may_only_read_can_fetch_and_is_told_at_a_push(mine: Repo, s3: S3, bucket: Bucket, tmp_path: Path) -> None:
    mine.remotes.add("x", f"s3://{bucket.name}/p", endpoint=s3.proxy.endpoint)
    mine.push("x")
    with ml.clone(f"s3://{bucket.name}/p", tmp_path / "reader", endpoint=s3.proxy.endpoint) as reader:
        s3.proxy.deny = "PUT", b"<Error><Code>AccessDenied</Code></Error>"
        stored = bucket.files()
        commit(reader, "b.txt", b"mine\n")
        assert reader.fetch().up_to_date
        with pytest.raises(Denied, match="does not let these credentials"):
            reader.push()
        assert bucket.files() == stored
        s3.proxy.deny = ("", b"")
        assert reader.push().commits == 1


# What is there is odd


def test_a_remote_of_a_newer_format_is_refused_with_the_way_to_read_it(
    mine: Repo, s3: S3, bucket: Bucket, tmp_path: Path
) -> None:
    mine.remotes.add("x", f"s3://{bucket.name}/p", endpoint=s3.proxy.endpoint)
    mine.push("x")
    root = json.loads(bucket.get("p/root"))
    bucket.put("p/root", json.dumps({**root, "format": 2, "novelty": []}).encode())
    put(mine, "b.txt", b"b")
    clone = lambda: ml.clone(f"s3://{bucket.name}/p", tmp_path / "c", endpoint=s3.proxy.endpoint)  # noqa: E731
    for call in (lambda: mine.push("x"), lambda: mine.fetch("x"), clone):
        with pytest.raises(Error, match=r"format 2; this memlake reads up to 1\. Nothing") as caught:
            call()
        assert "pip install -U memlake" in caught.value.hint
    assert json.loads(bucket.get("p/root"))["format"] == 2


def test_an_answer_that_is_no_root_is_refused(mine: Repo, s3: S3, bucket: Bucket) -> None:
    mine.remotes.add("x", f"s3://{bucket.name}/p", endpoint=s3.proxy.endpoint)
    bucket.put("p/root", b"<html>log in to this network first</html>")
    before = snapshot(mine)
    for verb in (mine.push, mine.fetch):
        with pytest.raises(Corrupt, match="has a root that cannot be read"):
            verb("x")
    assert snapshot(mine) == before


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_an_hour_off_changes_nothing(
    mine: Repo, s3: S3, bucket: Bucket, tmp_path: Path, set_clock: SetClock, hours: int
) -> None:
    mine.remotes.add("x", f"s3://{bucket.name}/p", endpoint=s3.proxy.endpoint)
    mine.push("x")
    with ml.clone(f"s3://{bucket.name}/p", tmp_path / "off", endpoint=s3.proxy.endpoint) as off:
        set_clock(3600 * hours)
        commit(off, "b.txt", b"b\n")
        assert off.push().commits == 1
        off.remotes.gc()
        set_clock(0)
        mine.pull("x")
        commit(mine, "c.txt", b"c\n")
        mine.push("x")
        off.pull()
        assert heads(off) == heads(mine)
        assert off.upkeep.fsck(full=True).ok


def test_a_remote_that_was_emptied_is_not_begun_again_without_what_it_had(mine: Repo, run: Run, tmp_path: Path) -> None:
    """As where a disk is not mounted: what is known to lie there does not, so a push would leave it out."""
    there = tmp_path / "there"
    mine.remotes.add("origin", there)
    mine.push()
    there.rename(tmp_path / "away")
    for words in (("push",), ("push", "--force"), ("push", "-n"), ("fetch",), ("pull",), ("remote", "gc")):
        code, text = run(*words)
        assert code == 128 and "no memlake history any more" in text, words
    assert not there.exists()
    advice = re.search(r"again: (.+)", text)
    assert advice is not None
    for line in advice[1].split(" && "):
        assert run(*shlex.split(line)[1:])[0] == 0
    with ml.clone(there, tmp_path / "theirs") as theirs:
        assert heads(theirs) == heads(mine) and theirs.upkeep.fsck(full=True).ok
    assert (tmp_path / "theirs" / "a.txt").read_bytes() == b"hello\n"


# Addresses that are not what they look like


@pytest.mark.parametrize(
    ("url", "says"),
    [("file://../there", "does not name a folder"), ("file://host/there", "does not name a folder"),
     ("s3:bucket/p", "on another machine"), ("file:/there", "on another machine"), ("me@host:/p", "on another machine"),
     ("s3://", "names no bucket"), ("az:///p", "names no bucket")],
)  # fmt: skip
@pytest.mark.parametrize("words", [("remote", "add", "x"), ("remote", "set-url", "o"), ("clone",)])
def test_an_address_that_is_mistyped_is_no_folder_here(
    mine: Repo, run: Run, words: tuple[str, ...], url: str, says: str, tmp_path: Path
) -> None:
    mine.remotes.add("o", tmp_path / "there")
    code, text = run(*words, url)
    assert code == 128 and says in text and "was not kept" in text
    assert run("remote", "-v")[1] == f"o  {tmp_path / 'there'}\n"


def test_a_folder_with_a_colon_can_be_named(mine: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert mine.remotes.add("x", "./a:b").url == str(tmp_path / "a:b")
    (tmp_path / "c:d").mkdir()
    assert mine.remotes.add("y", "c:d").url == str(tmp_path / "c:d")


def test_the_scheme_of_an_address_may_be_in_capitals(mine: Repo) -> None:
    assert mine.remotes.add("x", "S3://bucket/P").url == "s3://bucket/P"


def test_a_remote_inside_the_repo_is_refused_and_the_advised_place_works(mine: Repo, run: Run) -> None:
    for inside in (".", "sub/folder", ".memlake", ".memlake/memlake", f"file://{mine.root}/x"):
        code, text = run("remote", "add", "x", inside)
        assert code == 128 and "lies inside this repo" in text
    assert run(*advised(text))[0] == 0 and run("push", "x")[0] == 0
    assert mine.status().clean
    assert run("remote", "set-url", "x", "sub")[0] == 128


def test_a_repo_that_somebody_works_in_is_not_cloned_and_the_advice_works(mine: Repo, run: Run, tmp_path: Path) -> None:
    code, text = run("clone", str(mine.root), str(tmp_path / "theirs"))
    assert code == 128 and "is a repo that somebody works in" in text and "no memlake history" not in text
    pasted = re.findall(r": (memlake .+)", text)
    for folder, lines in zip(("one", "two"), pasted, strict=True):
        for line in lines.replace("FOLDER", str(tmp_path / folder)).split(" && "):
            assert run(*shlex.split(line)[1:])[0] == 0, line
    assert (tmp_path / "two" / "a.txt").read_bytes() == b"hello\n"
    assert run("clone", str(tmp_path / "one"), str(tmp_path / "three"))[0] == 0


@pytest.mark.parametrize("name", ["folder", "/dev/null", "nowhere"])
@pytest.mark.parametrize("verb", ["verify", "unbundle"])
def test_what_is_no_bundle_is_not_to_be_removed(mine: Repo, run: Run, verb: str, name: str) -> None:
    (Path(mine.root) / "folder").mkdir()
    code, text = run("bundle", verb, name)
    assert code == 128 and "rm " not in text and ".memlake" not in text.replace(str(mine.root), "")


def test_a_tier_that_is_taken_is_refused_with_an_address_that_works(mine: Repo, run: Run, tmp_path: Path) -> None:
    put(mine, "other/x", b"x")
    code, text = run("tier", "set", "cold", "other")
    assert code == 128 and "is not empty" in text
    words = [str(tmp_path / "cold") if word == "NEW" else word for word in advised(text)]
    assert words[:3] == ["tier", "set", "cold"] and run(*words)[0] == 0
    assert not mine.config.get("core.packs")


def test_an_endpoint_without_http_is_advised_with_it(mine: Repo, run: Run) -> None:
    text = run("remote", "add", "x", "s3://b/p", "--endpoint", "127.0.0.1:9000")[1]
    assert "Write it as http://127.0.0.1:9000" in text


def test_an_azure_remote_without_an_account_says_how_to_name_it(
    mine: Repo, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY", raising=False)
    assert run("remote", "add", "x", "az://b/p")[0] == 0  # `remote login` may keep the account, and needs its name
    code, text = run("push", "x")
    assert code != 0 and "export AZURE_STORAGE_ACCOUNT_NAME" in text and "retry_config" not in text
    assert "memlake remote login" in text


# Several


def test_a_remote_that_fails_does_not_keep_the_others_from_being_fetched(mine: Repo, run: Run, tmp_path: Path) -> None:
    for name in ("a", "c"):
        mine.remotes.add(name, tmp_path / name)
        mine.push(name)
        with ml.clone(tmp_path / name, tmp_path / f"from-{name}") as other:
            commit(other, f"{name}.txt", b"new\n")
            other.push()
    mine.remotes.add("b", tmp_path / "b")
    code, text = run("fetch", "--all")
    assert code != 0 and "1 remote of 3 could not be fetched" in text and "memlake push b" in text
    assert all(f"main -> {name}/main" in text for name in ("a", "c"))


def test_a_disk_that_is_full_midway_is_named_and_the_next_clone_goes_on(
    ours: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(ours, "big.bin", os.urandom(300_000))
    ours.push()

    get = Folder.get

    def fill(place: Folder, name: str, start: int, length: int) -> bytes:
        if name.startswith("packs/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return get(place, name, start, length)

    with monkeypatch.context() as patch:
        patch.setattr(Folder, "get", fill)
        with pytest.raises(Unavailable, match=r"bringing packs/.* No space left") as caught:
            ml.clone(tmp_path / "remote", tmp_path / "new")
    assert "the disk is full" in caught.value.hint
    with ml.clone(tmp_path / "remote", tmp_path / "new") as theirs:
        assert heads(theirs) == heads(ours)
