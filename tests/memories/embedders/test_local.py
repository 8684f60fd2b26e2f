"""The local model and its tokenizer: known similarities, what it cannot read, and the reference it must agree with."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memlake.defaults import Settings
from memlake.errors import Unavailable
from memlake.memories.embedders import Embedder, open_embedder
from memlake.memories.embedders.local import MOST_TOKENS, STEP, batches, is_installed, load
from memlake.memories.embedders.wordpiece import WordPiece

needs_model = pytest.mark.skipif(not is_installed(), reason="memlake-minilm is not installed: make model")

TEXTS = [
    "That is a happy person",
    "The deploy failed because the disk was full.",
    "She prefers window seats on long flights",
    "def read_settings(folder: Path | None) -> Settings:",
    "Ünïcödé façade, naïve café; 3.14 €",
    "x" * 300,
    "word " * 400,
    "Москва — столица России",
    "user_id=42 [SEP]aration\tof\u200bconcerns\u0000",
]


@pytest.fixture(scope="module")
def model() -> Embedder:
    found = open_embedder("local", Settings())
    assert found is not None
    return found


@needs_model
@pytest.mark.parametrize(
    ("first", "second", "likeness"),
    [  # what the original model gives, from its published card and from its float32 weights
        ("That is a happy person", "That is a very happy person", 0.943),
        ("That is a happy person", "That is a happy dog", 0.695),
        ("That is a happy person", "Today is a sunny day", 0.257),
        ("The deploy failed because the disk was full", "No space left on device broke the release", 0.524),
    ],
)
def test_similarities_are_those_of_the_original(model: Embedder, first: str, second: str, likeness: float) -> None:
    rows = model.embed([first, second])
    assert rows[0] @ rows[1] == pytest.approx(likeness, abs=0.03)


@needs_model
def test_a_text_has_one_vector_whatever_stands_beside_it(model: Embedder) -> None:
    together = model.embed([*TEXTS, *(f"another text, number {number}" for number in range(60))])
    alone = np.stack([model.embed([text])[0] for text in TEXTS])
    read = np.isfinite(alone[:, 0])
    assert read.sum() >= 7 and np.allclose(together[: len(TEXTS)][read], alone[read], atol=2e-3)
    query = model.embed_query(TEXTS[0])
    assert query is not None and np.array_equal(query, alone[0])
    assert (model.name, model.dimension, together.dtype) == ("minilm-l6-v2-int8", 384, np.float32)


@needs_model
def test_the_runtime_of_the_model_reports_to_nobody_and_writes_nothing_at_home(tmp_path: Path) -> None:
    embeds = (
        "from memlake.defaults import Settings\n"
        "from memlake.memories.embedders import open_embedder\n"
        "assert open_embedder('local', Settings()).embed(['Cats purr']).shape == (1, 384)\n"
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORT_", "XDG_"))}
    done = subprocess.run([sys.executable, "-c", embeds], env=kept | {"HOME": str(tmp_path)}, check=False, timeout=250)
    assert done.returncode == 0
    assert list(tmp_path.rglob("*")) == []  # onnxruntime would queue what it reports in .cache/Microsoft


@needs_model
def test_a_text_it_cannot_read_has_no_vector(model: Embedder) -> None:
    rows = model.embed(["用户喜欢靠窗的座位", "the user prefers 靠窗 seats on trains", "\u200b", "🦑🦐🦞"])
    assert np.isnan(rows[[0, 2, 3]]).all() and np.isfinite(rows[1]).all()
    assert model.embed_query("什么座位") is None


@needs_model
def test_threads_may_share_a_model_that_is_not_loaded_yet() -> None:
    embedder = open_embedder("local", Settings())
    assert embedder is not None
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(embedder.embed_query, ["the same text"] * 8))
    assert len(found) == 8 and all(one is not None and np.allclose(one, found[0], atol=1e-6) for one in found)


@needs_model
def test_a_damaged_model_is_unavailable_and_named(tmp_path: Path, vocabulary: Path) -> None:
    with pytest.raises(Unavailable, match=f"{tmp_path} could not be loaded"):
        load(tmp_path)
    (tmp_path / "vocab.txt").write_bytes(vocabulary.read_bytes())
    (tmp_path / "model.onnx").write_bytes(b"half a download")
    with pytest.raises(Unavailable, match="could not be loaded") as caught:
        load(tmp_path)
    assert "make model" in caught.value.hint


def test_texts_are_grouped_by_length_within_the_limits() -> None:
    encoded = [[0] * length for length in [256, 3, 200, 4, *[5] * 70, *[256] * 40]]
    found = list(batches(encoded, [number for number in range(len(encoded)) if number != 1]))
    lengths = [[len(encoded[number]) for number in batch] for batch in found]
    assert list(chain(*lengths)) == sorted([200, 4, *[5] * 70, *[256] * 41])
    assert sorted(chain(*found)) == [0, *range(2, len(encoded))]
    assert all(len(batch) <= STEP and len(batch) * batch[-1] <= MOST_TOKENS for batch in lengths)
    assert list(batches(encoded, [])) == []


# -- the tokenizer


@pytest.fixture(scope="module")
def vocabulary() -> Path:
    import memlake_minilm

    return memlake_minilm.path() / "vocab.txt"


@pytest.fixture(scope="module")
def ours(vocabulary: Path) -> WordPiece:
    return WordPiece(vocabulary.read_text(encoding="utf-8").splitlines())


@pytest.fixture(scope="module")
def reference(vocabulary: Path) -> Any:
    from tokenizers import BertWordPieceTokenizer

    made = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    made.enable_truncation(256)
    return made


def random_texts() -> list[str]:
    rng = random.Random(7)
    old = [
        chr(code) for code in [*range(1, 0x250), *range(0x370, 0x600), *range(0x2000, 0x2070), *range(0x3041, 0x3100)]
    ]
    chars = [*old, *"人中文字体语言", *"가나다", *" \t\n" * 200]
    return ["".join(rng.choices(chars, k=rng.randrange(80))) for _ in range(400)]


@needs_model
def test_the_tokenizer_agrees_with_the_reference(ours: WordPiece, reference: Any) -> None:
    texts = [text for text in [*TEXTS, *random_texts(), *sys.modules] if "[SEP]" not in text]
    assert [ours.encode(text, 256) for text in texts] == [one.ids for one in reference.encode_batch(texts)]


@needs_model
def test_a_mark_of_the_model_inside_a_text_is_only_text(ours: WordPiece) -> None:
    start, *middle, end = ours.encode("a [SEP] b", 256)
    assert end not in middle and start not in middle and len(middle) == 5


def test_longest_pieces_first_and_one_unknown_for_a_word_with_an_unknown_part() -> None:
    small = WordPiece(["[CLS]", "[SEP]", "[UNK]", "un", "##able", "##a", "able", "unable"])
    assert small.encode("Unable UNABLEA", 256) == [0, 7, 7, 5, 1]
    assert small.encode("unx able", 256) == [0, 2, 6, 1]
    assert small.encode("able " * 10, 5) == [0, 6, 6, 6, 1]
    assert small.encode("a" * 101, 256) == [0, 2, 1]
    assert small.unknown_share(small.encode("unx able", 256)) == 0.5
    assert small.unknown_share(small.encode("", 256)) == 1
