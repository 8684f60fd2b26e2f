"""Questions with known answers, read from the files of public sets, and each conversation as a repo of memories.

    KIND:FILE       locomo:locomo.json  friends:friendsqa_dev.json  squad:xquad.en.json  plain:own.json

`plain` is what the others become: a list of {"name", "texts", "metas", "questions"}, where a meta has an id, a session
and a date, and a question is [text, ids of what answers it, category]. The files are not ours and stay where they are.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from memory_fixtures import opened

from memlake import Agent

AGENT = "conversation"
Conversation = dict[str, Any]
_CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_SCENES = 16  # of a series, that one conversation has as its sessions


def read_set(spec: str) -> list[Conversation]:
    kind, _, name = spec.partition(":")
    data = json.loads(Path(name).read_text(encoding="utf-8"))
    return list(_READERS[kind](data))


def _read_locomo(data: Any) -> Iterator[Conversation]:
    """LoCoMo: a turn is a memory. CC BY-NC 4.0, so it measures and trains nothing."""
    for number, sample in enumerate(data):
        talk, texts, metas = sample["conversation"], list[str](), list[dict[str, Any]]()
        for session in sorted(int(key.split("_")[1]) for key in talk if re.fullmatch(r"session_\d+", key)):
            date = datetime.strptime(talk[f"session_{session}_date_time"].strip(), "%I:%M %p on %d %B, %Y").isoformat()
            for turn in talk[f"session_{session}"]:
                photo = f" [shared photo: {turn['blip_caption']}]" if turn.get("blip_caption") else ""
                texts.append(f"{turn['speaker']}: {turn['text']}{photo}")
                metas.append({"id": turn["dia_id"], "session": session, "date": date})
        known, questions = {meta["id"] for meta in metas}, []
        for asked in sample["qa"]:
            named = (re.findall(r"D:?(\d+):(\d+)", evidence) for evidence in asked["evidence"] or [])
            gold = {f"D{int(a)}:{int(b)}" for pairs in named for a, b in pairs} & known
            if gold:
                questions.append([asked["question"], sorted(gold), _CATEGORIES[asked["category"]]])
        yield {"name": f"c{number}", "texts": texts, "metas": metas, "questions": questions}


def _read_friends(data: Any) -> Iterator[Conversation]:
    """FriendsQA (Emory University, Apache-2.0): an utterance is a memory, a scene a session."""
    scenes = data["data"]
    for first in range(0, len(scenes), _SCENES):
        texts, metas, questions = list[str](), list[dict[str, Any]](), list[list[Any]]()
        for number, scene in enumerate(scenes[first : first + _SCENES]):
            part = scene["paragraphs"][0]
            for turn in part["utterances:"]:
                speaker = turn["speakers"][0].split()[0] if turn["speakers"] else "Note"
                texts.append(f"{speaker}: {_join_tokens(turn['utterance'])}")
                metas.append({"id": f"{number}:{turn['uid']}", "session": number,
                              "date": f"2023-{1 + number // 28:02d}-{1 + number % 28:02d}T10:00:00"})  # fmt: skip
            known = {meta["id"] for meta in metas}
            for asked in part["qas"]:
                gold = {f"{number}:{answer['utterance_id']}" for answer in asked["answers"]} & known
                if gold:
                    kind = asked["id"].rsplit("_", 1)[-1]
                    questions.append([_join_tokens(asked["question"]), sorted(gold), kind])
        yield {"name": f"scenes{first}", "texts": texts, "metas": metas, "questions": questions}


def _join_tokens(text: str) -> str:
    """A text as it is written, from one whose words were cut apart."""
    text = re.sub(r" (n't|'s|'re|'m|'ve|'d|'ll)\b", r"\1", text)
    return re.sub(r"\b(gon|wan|got) (na|ta)\b", r"\1\2", re.sub(r" ([.,!?;:])", r"\1", text))


def _read_squad(data: Any) -> Iterator[Conversation]:
    """SQuAD and its kind (XQuAD, CMRC): a sentence is a memory of no session."""
    texts, metas, questions = list[str](), list[dict[str, Any]](), list[list[Any]]()
    for part in (part for article in data["data"] for part in article["paragraphs"]):
        spans = []
        for found in re.finditer(r"[^。！？.!?]+(?:[。！？]|[.!?]+(?=\s|$)|[.!?])*", part["context"]):  # noqa: RUF001
            spans.append((found.end(), str(len(texts))))
            texts.append(found[0].strip() or "-")
            metas.append({"id": str(len(metas)), "session": None, "date": None})
        for asked in part["qas"]:
            start = asked["answers"][0]["answer_start"]
            gold = next((name for end, name in spans if start < end), None)
            questions += [[asked["question"], [gold], "all"]] if gold else []
    yield {"name": "sentences", "texts": texts, "metas": metas, "questions": questions}


_READERS = {"locomo": _read_locomo, "friends": _read_friends, "squad": _read_squad, "plain": iter}


class Store:
    """The memories of one conversation in a repo under `keep`, made when they are not there yet."""

    def __init__(self, keep: Path, conversation: Conversation) -> None:
        folder, names = keep / conversation["name"], keep / f"{conversation['name']}.json"
        if not names.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            self._fill(folder, names, conversation)
        self.ids: dict[str, str] = json.loads(names.read_text())
        self.agent = opened(folder, "local")
        self.agent.agent_id = AGENT

    def _fill(self, folder: Path, names: Path, conversation: Conversation) -> None:
        agent: Agent = opened(folder, "local")
        agent.agent_id = AGENT
        ids = {}
        for text, meta in zip(conversation["texts"], conversation["metas"], strict=True):
            session = None if meta["session"] is None else str(meta["session"])
            done = agent.remember(text, on_conflict="add", session_id=session, created_at=meta["date"])
            ids[done.memory_id] = meta["id"]
        if not agent.wait(3600):
            raise TimeoutError("the memories did not get their vectors in an hour")
        agent.close()
        names.write_text(json.dumps(ids))

    def search(self, question: str, most: int, mode: str, min_score: float | None = None) -> list[str]:
        hits = self.agent.search_memory(question, top_k=most, mode=mode, min_score=min_score)
        return [self.ids[hit["memory_id"]] for hit in hits]


def open_all(spec: str, keep: Path) -> Iterator[tuple[Conversation, Store]]:
    place = keep / re.sub(r"\W+", "-", os.path.basename(spec))
    for conversation in read_set(spec):
        store = Store(place, conversation)
        yield conversation, store
        store.agent.close()
