"""Inputs that are broken, change or vanish, and servers that fail: told by name, counted, and nothing half saved."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import memlake as ml
from memlake.dataset import storages
from memlake.dataset.datasets import Datasets
from memlake.dataset.run import engine
from memlake.dataset.storages import Access
from memlake.errors import Conflict, InvalidInput, NotFound, RowFailed, Unavailable
from memlake.repo import Repo
from tests.dataset.conftest import endpoint
from tests.dataset.storages.conftest import S3, _nothing_remembered, s3
from tests.dataset.storages.faults import Answer, Request, Server, before
from tests.reliability.ground import assert_sound, fast_folder, init, noise, put

__all__ = ["_nothing_remembered", "endpoint", "s3"]


@pytest.fixture
def repo() -> Iterator[Repo]:
    with fast_folder() as folder, init(folder / "repo") as made:
        yield made
        assert_sound(made)


@pytest.fixture
def data(repo: Repo) -> Datasets:
    return repo.datasets()


# -- files of rows -------------------------------------------------------------------------------------


def table_at(path: Path, rows: int = 20_000) -> bytes:
    texts = [f"n{n * 7919 % 10007}" for n in range(rows)]
    pq.write_table(pa.table({"x": list(range(rows)), "s": texts}), path)
    return path.read_bytes()


def _middle(data: bytes) -> bytes:
    return data[:1000] + noise(400, "middle") + data[1400:]


BROKEN = {
    "cut.parquet": lambda d: d[: len(d) // 2],
    "empty.parquet": lambda d: b"",
    "noise.parquet": lambda d: noise(3000, 1),
    "middle.parquet": _middle,
    "noise.csv": lambda d: noise(5000, 2),
    "late.csv": lambda d: b"a,b\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(30_000)) + b"x,y\n",
    "latin.csv": lambda d: b"a,b\n" + "ä,ö\n".encode("latin-1") * 50,
    "cut.json": lambda d: b'[{"a":1},{"a":',
    "bad.jsonl": lambda d: b'{"a":1}\n{"a":2\n{"a":3}\n',
    "late.jsonl": lambda d: b"".join(b'{"a":%d}\n' % n for n in range(30_000)) + b"no json\n",
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_named_and_nothing_is_saved(data: Datasets, tmp_path: Path, name: str) -> None:
    path = put(tmp_path, name, BROKEN[name](table_at(tmp_path / "good.parquet")))
    read = {".parquet": data.read_parquet, ".csv": data.read_csv}.get(path.suffix, data.read_json)
    for use in (lambda chain: chain.save("new"), lambda chain: chain.to_records(), lambda chain: chain.to_pandas()):
        with pytest.raises((InvalidInput, Unavailable), match=rf"(?s){name}|CSV Error on Line: 30002"):
            use(read(path))
    assert data.all() == []


def test_a_file_that_vanishes_after_the_chain_was_begun_is_named(data: Datasets, tmp_path: Path) -> None:
    table_at(tmp_path / "a.parquet")
    chain = data.read_parquet(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").unlink()
    with pytest.raises(NotFound, match=r"a\.parquet was there when the chain was begun"):
        chain.save("new")
    with pytest.raises(NotFound, match=r"a\.parquet was there when the chain was begun"):
        chain.count()
    assert data.all() == []


def test_a_file_that_changes_while_it_is_read_is_not_saved(
    data: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table_at(tmp_path / "a.parquet")
    real = engine.Engine.frame

    def meanwhile(self: engine.Engine, plan: object) -> object:
        made = real(self, plan)  # type: ignore[arg-type]
        table_at(tmp_path / "a.parquet", 10)
        return made

    monkeypatch.setattr(engine.Engine, "frame", meanwhile)
    with pytest.raises(Conflict, match=r"a\.parquet changed while it was read. Nothing was saved"):
        data.read_parquet(tmp_path / "a.parquet").save("new")
    assert data.all() == []
    monkeypatch.undo()
    assert data.read_parquet(tmp_path / "a.parquet").save("new").count() == 10


# -- files by reference --------------------------------------------------------------------------------


def images(folder: Path) -> Path:
    folder.mkdir()
    for name in ("a.png", "b.jpg"):
        Image.new("RGB", (64, 32), (200, 3, 3)).save(folder / name)
    whole = (folder / "b.jpg").read_bytes()
    put(folder, "cut.jpg", whole[: len(whole) // 2])
    put(folder, "noise.png", noise(300, 3))
    put(folder, "empty.jpg", b"")
    return folder


def test_broken_images_are_named_or_left_out_or_noted(data: Datasets, tmp_path: Path) -> None:
    chain = data.read_storage(images(tmp_path / "images"), type="image")
    with pytest.raises(RowFailed, match=r"(?s)cut\.jpg.*cannot be read as an image.*Nothing was saved.*on_error"):
        chain.map(w=lambda file: file.read().size[0]).save("new")
    assert data.all() == []
    kept = chain.settings(on_error="skip").map(w=lambda file: file.read().size[0]).save("new")
    assert kept.to_values("w") == [64, 64]
    noted = chain.settings(on_error="column").map(w=lambda file: file.read().size[0]).to_records()
    assert [(row["w"], row["w_error"] is None) for row in noted].count((None, False)) == 3


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_text("another text")])
def test_a_local_file_that_changed_after_it_was_listed_is_never_read_as_the_old_one(
    data: Datasets, tmp_path: Path, change
) -> None:
    for number in range(5):
        put(tmp_path, f"texts/{number}.txt", f"text {number}")
    listed = data.read_storage(tmp_path / "texts", type="text").persist()
    change(tmp_path / "texts/3.txt")
    with pytest.raises(RowFailed, match=r"(?s)3\.txt.*(there is no|is not what it was).*List the storage again"):
        listed.map(text=lambda file: file.read()).save("new")
    found = data.read_storage(tmp_path / "texts", type="text").map(text=lambda file: file.read()).save("new")
    assert sorted(found.to_values("text")) == sorted(path.read_text() for path in (tmp_path / "texts").iterdir())


def test_files_that_vanish_while_a_folder_is_listed_are_counted(
    data: Datasets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        put(tmp_path, f"texts/{number}.txt", "text")
    real = os.scandir

    def racing(path: object) -> object:
        found = list(real(path))  # type: ignore[call-overload]
        (tmp_path / "texts/2.txt").unlink(missing_ok=True)
        return _Entries(found)

    monkeypatch.setattr(os, "scandir", racing)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = data.read_storage(tmp_path / "texts", type="text").to_values("file.path")
    assert [path for path in found if path.endswith("2.txt")] == []
    assert len(found) == 4
    assert any("not listed" in str(one.message) for one in said)


class _Entries(list):  # type: ignore[type-arg]
    def __enter__(self) -> _Entries:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


# -- buckets -------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(s3: S3) -> Iterator[Server]:
    for number in range(12):
        s3.put(f"texts/{number:02}.txt", b"text %d" % number)
    server = Server(before(s3.endpoint))
    storages.ACCESS[s3.uri] = Access(client_config={**s3.access.client_config, "endpoint_url": server.url})
    yield server
    server.close()


def texts(data: Datasets, s3: S3, **settings: object):
    chain = data.read_storage(f"{s3.uri}/texts/", type="text").settings(**settings)
    return chain.map(text=lambda file: file.read())


@pytest.mark.parametrize("statuses", [[503, 500], [429, 503, 503], [502]])
def test_a_busy_bucket_is_asked_again_in_listing_and_reading(
    data: Datasets, s3: S3, proxy: Server, statuses: list[int]
) -> None:
    proxy.fail = list(statuses)
    listed = data.read_storage(f"{s3.uri}/texts/", type="text").persist()
    assert not proxy.fail, "the failures were asked past"
    proxy.fail, proxy.cut = list(statuses), 2
    found = listed.map(text=lambda file: file.read()).save("new")
    assert not proxy.fail and not proxy.cut
    assert found.to_values("text") == [f"text {n}" for n in range(12)]


def test_a_key_that_changed_since_it_was_listed_says_so(data: Datasets, s3: S3, proxy: Server) -> None:
    listed = data.read_storage(f"{s3.uri}/texts/", type="text").persist()
    s3.put("texts/05.txt", b"another text")
    with pytest.raises(
        RowFailed, match=r"(?s)05\.txt is not what it was when it was listed.*Nothing was saved"
    ) as told:
        listed.map(text=lambda file: file.read()).save("new")
    assert isinstance(told.value.__cause__, Conflict)
    assert data.all() == []
    assert texts(data, s3).save("new").count() == 12


def test_a_bucket_that_changes_while_it_is_listed_is_read_or_told(data: Datasets, s3: S3, proxy: Server) -> None:
    through, changed = before(s3.endpoint), []

    def racing(request: Request) -> Answer:
        answer = through(request)
        if "list-type" in request.path and not changed:
            changed.append(True)
            s3.put("texts/99.txt", b"text 99")
            s3.client.delete_object(Bucket=s3.bucket, Key="texts/07.txt")
        return answer

    proxy.respond = racing
    with pytest.raises(RowFailed, match=r"(?s)there is no .*07\.txt.*List the storage again"):
        texts(data, s3).save("new")
    assert changed and data.all() == []
    found = texts(data, s3).save("new")
    assert found.to_values("text") == [f"text {n}" for n in (*range(7), *range(8, 12), 99)]


def test_a_bucket_that_stays_down_is_unavailable_and_nothing_is_saved(data: Datasets, s3: S3, proxy: Server) -> None:
    listed = data.read_storage(f"{s3.uri}/texts/", type="text").persist()
    proxy.respond = lambda request: (503, {}, b"")
    with pytest.raises(ml.Error, match=rf"(?s){s3.bucket}"):
        listed.map(text=lambda file: file.read()).save("new")
    assert data.all() == []
