"""Three sessions over a folder and over S3, each building on the last, in processes of their own."""

from __future__ import annotations

import io
import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import numpy as np
import pytest
from PIL import Image

import memlake as ml
from memlake.dataset.datasets import Datasets

logging.getLogger("werkzeug").setLevel(logging.ERROR)
BREEDS = ["shiba_inu", "cocker_spaniel", "pug"]

# A stand-in: vectors from pixels or letters, a model of some weight, and a line for every call and every load.
STAND_IN = """
import os, time
import numpy as np

def note(word):
    with open(os.environ["ENCODE_LOG"], "a") as file:
        file.write(f"{word} {os.getpid()}\\n")

class SentenceTransformer:
    def __init__(self, name):
        self.name, self.weights = name, np.random.default_rng(7).standard_normal((48, 8)).astype("float32")
        note("load")

    def encode(self, what):
        note("encode")
        time.sleep(float(os.environ.get("ENCODE_SECONDS", "0.01")))
        if isinstance(what, str):
            given = np.frombuffer(what.encode().ljust(48)[:48], "uint8").astype("float32")
        else:
            given = np.asarray(what.convert("RGB").resize((4, 4)), "float32").reshape(-1)
        return given @ self.weights
"""

HEAD = """
import memlake as dc
from PIL import Image
from sentence_transformers import SentenceTransformer
"""

FIRST = """
(
    dc.read_storage("s3://dc-readme/oxford-pets-micro/", anon=True, type="image")
    .filter(dc.C("file.path").glob("*/images/*.jpg"))
    .map(breed=lambda file: file.path.split("/")[-1].rsplit("_", 1)[0])
    .save("pets")
)
"""

SECOND = """
encoder = SentenceTransformer("clip-ViT-B-32")

def embed(file: dc.ImageFile) -> list[float]:
    return encoder.encode(file.read()).tolist()

(
    dc.read_dataset("pets")
    .settings(parallel=8, cache=True)
    .map(emb=embed)
    .save("pet_embeddings")
)
"""

THIRD = """
target_emb = encoder.encode(Image.open("fiona.jpg")).tolist()

(
    dc.read_dataset("pet_embeddings")
    .filter(dc.C("breed") != "cocker_spaniel")
    .mutate(distance=dc.func.cosine_distance("emb", target_emb))
    .order_by("distance")
    .limit(10)
    .save("shiba_candidates")
)
"""

DEPOSIT = """
import memlake as dc
from sentence_transformers import SentenceTransformer
encoder = SentenceTransformer("clip-ViT-B-32")

def compute_embedding(file):
    return encoder.encode(file.read())

# Each save() deposits into memory
(
    dc.read_storage("s3://bucket/images/", type="image")
    .map(emb=compute_embedding)
    .save("image_embeddings")
)

# The next query builds on it
ds = dc.read_dataset("image_embeddings")
assert ds.count() == 3
assert ds.schema["emb"].startswith("float32")
"""

PREDICT = """
import memlake as dc

def run_model(x: int) -> float:
    return x / 2

dc.read_values(x=[1, 2]).save("training_data")
results = (
    dc.read_dataset("training_data")
    .map(prediction=run_model)
    .save("predictions")
)
assert results.to_list("prediction") == [(0.5,), (1.0,)]
"""


class Desk(NamedTuple):
    """A folder a person works in, and how often the model was asked there."""

    root: Path
    environment: dict[str, str]

    def run(self, text: str, how: str = "script", **more: str) -> list[str]:
        """Run a text; what the model noted meanwhile."""
        log = Path(self.environment["ENCODE_LOG"])
        log.write_text("")
        script = self.root / "session.py"
        script.write_text(text)
        line = {"script": [str(script)], "-c": ["-c", text], "stdin": ["-"]}[how]
        done = subprocess.run(
            [sys.executable, *line],
            cwd=self.root,
            env={**self.environment, **more},
            input=text if how == "stdin" else None,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return [line.split()[0] for line in log.read_text().splitlines()]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "sentence_transformers.py").write_text(STAND_IN)
    path = os.pathsep.join([str(modules), *filter(None, [os.environ.get("PYTHONPATH")])])
    root = tmp_path / "desk"
    root.mkdir()
    (root / "fiona.jpg").write_bytes(picture(99))
    with ml.init(root):
        pass
    return Desk(root, {**os.environ, "PYTHONPATH": path, "ENCODE_LOG": str(tmp_path / "log")})


def picture(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), "uint8")
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG")
    return out.getvalue()


def pictures() -> dict[str, bytes]:
    files = {f"images/{breed}_{i}.jpg": picture(n * 100 + i) for n, breed in enumerate(BREEDS) for i in range(4)}
    return {**files, "annotations/list.txt": b"not a picture"}


def bucket(endpoint: str, name: str, files: dict[str, bytes]) -> Any:
    keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=endpoint, **keys)
    client.create_bucket(Bucket=name)
    for path, data in files.items():
        client.put_object(Bucket=name, Key=path, Body=data, ACL="public-read")
    return client


def check_sessions(desk: Desk) -> None:
    with ml.open(desk.root) as repo:
        ds = repo.datasets()
        assert sorted(set(ds.read_dataset("pets").to_values("breed"))) == sorted(BREEDS)
        found = ds.read_dataset("pet_embeddings")
        assert (found.count(), found.schema) == (12, {"file": "ImageFile", "breed": "str", "emb": "list[float]"})
        near = ds.read_dataset("shiba_candidates")
        assert near.count() == 8
        distances = near.to_values("distance")
        assert distances == sorted(distances)
        assert "cocker_spaniel" not in near.to_values("breed")
        assert [len(ds.versions(name)) for name in ("pets", "pet_embeddings", "shiba_candidates")] == [1, 1, 1]


def test_the_sessions_over_a_folder_ask_the_model_once_for_each_picture(desk: Desk) -> None:
    for path, data in pictures().items():
        file = desk.root / "oxford-pets-micro" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    text = (HEAD + FIRST + SECOND + THIRD).replace("s3://dc-readme/oxford-pets-micro/", "oxford-pets-micro/")
    assert desk.run(text).count("encode") == 12 + 1
    check_sessions(desk)
    assert desk.run(text).count("encode") == 1  # the target, which the script itself asks for
    check_sessions(desk)
    assert not list((desk.root / ".memlake").glob("cache/**/*.jpg"))
    assert cached(desk) == []  # files that are here are not copied


def cached(desk: Desk) -> list[Path]:
    return [one for one in (desk.root / ".memlake" / "cache").rglob("*") if one.is_file()]


def test_the_sessions_over_s3_read_each_picture_once_and_keep_it_by_etag(desk: Desk, endpoint: str) -> None:
    files = {f"oxford-pets-micro/{path}": data for path, data in pictures().items()}
    client = bucket(endpoint, "dc-readme", files)
    more = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1"}
    assert desk.run(HEAD + FIRST, **more).count("encode") == 0
    assert desk.run(HEAD + SECOND, **more).count("encode") == 12
    encoder = 'encoder = SentenceTransformer("clip-ViT-B-32")\n'
    assert desk.run(HEAD + encoder + THIRD).count("encode") == 1  # nothing of the bucket is asked for
    check_sessions(desk)
    for session in (FIRST, SECOND):
        assert desk.run(HEAD + session, **more).count("encode") == 0
    check_sessions(desk)
    kept = {one.read_bytes() for one in cached(desk)}
    assert {data for path, data in files.items() if path.endswith(".jpg")} <= kept
    client.put_object(
        Bucket="dc-readme", Key="oxford-pets-micro/images/pug_9.jpg", Body=picture(500), ACL="public-read"
    )
    for session, asked in ((FIRST, 0), (SECOND, 1)):
        assert desk.run(HEAD + session, **more).count("encode") == asked


def test_a_bucket_is_reached_by_client_config_and_later_without_it(desk: Desk, endpoint: str) -> None:
    bucket(endpoint, "configured", {f"oxford-pets-micro/{path}": data for path, data in pictures().items()})
    config = f'client_config={{"endpoint_url": "{endpoint}", "region": "us-east-1"}}, '
    first = FIRST.replace("dc-readme", "configured").replace("anon=True, ", f"anon=True, {config}")
    desk.run(HEAD + first)
    assert desk.run(HEAD + SECOND).count("encode") == 12


def test_deposits_and_predictions_as_they_are_told(desk: Desk, endpoint: str) -> None:
    bucket(endpoint, "bucket", {f"images/{i}.jpg": picture(i) for i in range(3)})
    more = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
    }
    assert desk.run(DEPOSIT, **more).count("encode") == 3
    assert desk.run(DEPOSIT, **more).count("encode") == 0
    desk.run(PREDICT)


def test_parallel_work_runs_from_scripts_the_command_line_and_standard_input(desk: Desk) -> None:
    for how in ("script", "-c", "stdin"):
        text = textwrap.dedent(
            f"""
            import memlake as dc
            from sentence_transformers import SentenceTransformer
            encoder = SentenceTransformer("m")
            made = (
                dc.read_values(word=["{how} %d" % i for i in range(40)])
                .settings(parallel=8)
                .map(emb=lambda word: encoder.encode(word).tolist())
                .save("words")
            )
            assert made.to_values("emb")[3] == encoder.encode("{how} 3").tolist()
            """
        )
        noted = desk.run(text, how, ENCODE_SECONDS="0.05")
        assert noted.count("encode") == 40 + 1
        assert noted.count("load") <= 1 + 8
        assert desk.run(text, how, ENCODE_SECONDS="0.05").count("encode") == 1


def test_a_filter_that_leaves_no_file_warns_with_examples(desk: Desk) -> None:
    folder = desk.root / "photos"
    (folder / "a").mkdir(parents=True)
    for i in range(5):
        (folder / "a" / f"{i}.jpg").write_bytes(b"x")
    with ml.open(desk.root) as repo:
        ds: Datasets = repo.datasets()
        chain = ds.read_storage(folder, type="image").filter(ml.C("file.path").glob("*/images/*.jpg"))
        for act in (chain.count, chain.to_list, chain.show, lambda: chain.map(n=lambda file: 1).save("none")):
            with pytest.warns(
                UserWarning, match=r"none of the 5 files of .*'photos/a/0.jpg', 'photos/a/1.jpg'"
            ) as told:
                act()
            assert told[0].filename == __file__
        assert ds.read_storage(folder).filter(ml.C("file.path").glob("*/a/*.jpg")).count() == 5
