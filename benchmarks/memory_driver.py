"""One memory system in its own environment: adds texts one per call, searches, prints one line of JSON.

    PEER/bin/python memory_driver.py NAME TEXTS.json FOLDER

Embeddings are made up beforehand and handed over, so the figures are the store's own cost. Knows nothing of memlake.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

MOST = 60  # seconds of adding after which it is enough
DIMENSION = 384


def vector(text: str) -> list[float]:
    chance = random.Random(text)
    found = [chance.gauss(0, 1) for _ in range(DIMENSION)]
    length = sum(part * part for part in found) ** 0.5
    return [part / length for part in found]


class Known:
    """Vectors made before the clock runs."""

    def __init__(self, texts: list[str]) -> None:
        self._of = {text: vector(text) for text in texts}

    def __call__(self, text: str) -> list[float]:
        return self._of.get(text) or vector(text)


class Chroma:
    def __init__(self, folder: str, known: Known) -> None:
        import chromadb

        self._known = known
        client = chromadb.PersistentClient(f"{folder}/chroma")
        self._rows = client.create_collection("memories", metadata={"hnsw:space": "cosine"}, embedding_function=None)

    def add(self, number: int, text: str) -> None:
        self._rows.add(ids=[str(number)], documents=[text], metadatas=[{"agent": "a"}], embeddings=[self._known(text)])

    def search(self, text: str, k: int) -> Any:
        return self._rows.query(query_embeddings=[self._known(text)], n_results=k, where={"agent": "a"})["ids"][0]


class Mem0:
    def __init__(self, folder: str, known: Known) -> None:
        os.environ.update(OPENAI_API_KEY="unused", MEM0_DIR=f"{folder}/mem0")
        from mem0 import Memory
        from mem0.utils import factory

        class Given:
            config = type("Config", (), {"embedding_dims": DIMENSION})()

            def embed(self, text: str, *_: Any) -> list[float]:
                return known(text)

            def embed_batch(self, texts: list[str], *_: Any) -> list[list[float]]:
                return [known(text) for text in texts]

        factory.EmbedderFactory.create = classmethod(lambda *_, **__: Given())
        store = {"path": f"{folder}/qdrant", "on_disk": True, "collection_name": "m", "embedding_model_dims": DIMENSION}
        self._memory = Memory.from_config(
            {"vector_store": {"provider": "qdrant", "config": store}, "history_db_path": f"{folder}/history.db"}
        )

    def add(self, _: int, text: str) -> None:
        self._memory.add(text, user_id="u", infer=False)

    def search(self, text: str, k: int) -> Any:
        return self._memory.search(text, filters={"user_id": "u"}, top_k=k)["results"]


class McpMemoryService:
    def __init__(self, folder: str, known: Known) -> None:
        os.environ.update(MCP_MEMORY_STORAGE_BACKEND="sqlite_vec", MCP_MEMORY_BASE_DIR=folder, MCP_MEMORY_USE_ONNX="1")
        from mcp_memory_service.models.memory import Memory
        from mcp_memory_service.storage.sqlite_vec import SqliteVecMemoryStorage
        from mcp_memory_service.utils.hashing import generate_content_hash

        async def begin(storage: Any) -> None:
            storage.embedding_model, storage.embedding_dimension = object(), DIMENSION

        SqliteVecMemoryStorage._generate_embedding = lambda _, text: known(text)
        SqliteVecMemoryStorage._initialize_embedding_model = begin
        self._memory, self._hash, self._loop = Memory, generate_content_hash, asyncio.new_event_loop()
        self._store = SqliteVecMemoryStorage(f"{folder}/memory.db")
        self._loop.run_until_complete(self._store.initialize())

    def add(self, _: int, text: str) -> None:
        made = self._memory(content=text, content_hash=self._hash(text), tags=["a"], memory_type="note")
        done, why = self._loop.run_until_complete(self._store.store(made))
        if not done and "uplicate" not in str(why):
            raise RuntimeError(why)

    def search(self, text: str, k: int) -> Any:
        return self._loop.run_until_complete(self._store.retrieve(text, k))


class HatiData:
    """As shipped for local use: DuckDB and ILIKE, no vectors."""

    def __init__(self, folder: str, _: Known) -> None:
        from hatidata_agent.local_engine import LocalDuckDBEngine

        self._engine = LocalDuckDBEngine(f"{folder}/memory.duckdb")

    def add(self, number: int, text: str) -> None:
        self._engine.store_memory("a", text, "fact", {"number": number}, 0.5)

    def search(self, text: str, k: int) -> Any:
        return self._engine.search_memory("a", text.replace("'", "''"), k)


SYSTEMS = {"Chroma": Chroma, "mem0": Mem0, "mcp-memory-service": McpMemoryService, "HatiData": HatiData}


def main() -> None:
    name, file, folder = sys.argv[1:]
    given = json.loads(Path(file).read_text())
    known = Known([*given["texts"], *given["questions"]])
    system = SYSTEMS[name](folder, known)
    began, adds, spent = time.perf_counter(), [], time.process_time()
    for number, text in enumerate(given["texts"]):
        started = time.perf_counter()
        system.add(number, text)
        adds.append(time.perf_counter() - started)
        if time.perf_counter() - began > MOST:
            break
    add_cpu = (time.process_time() - spent) / len(adds)
    searches, spent = [], time.process_time()
    for text in given["questions"]:
        started = time.perf_counter()
        system.search(text, 10)
        searches.append(time.perf_counter() - started)
    print(json.dumps({
        "memories": len(adds),
        "add_p50_ms": 1e3 * statistics.median(adds), "add_cpu_ms": 1e3 * add_cpu,
        "search_p50_ms": 1e3 * statistics.median(searches),
        "search_cpu_ms": 1e3 * (time.process_time() - spent) / len(searches),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
