"""A story on generated data: a small team trains a model, an agent takes notes, and nothing is lost.

Every `$ memlake ...` line below is really run, in this process, in a temporary folder that is removed at the end.

    python examples/demo.py            tell the story
    python examples/demo.py --keep     and leave the folder, to look around in it
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import shlex
import shutil
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import memlake as ml
from memlake.cli.main import main as memlake

MB = 1_000_000
CHECKPOINT = 32 * MB
SECRET = "hunter2-" + "7f3a91c4" * 4
WIDTH = 100


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", action="store_true", help="leave the folder")
    keep = options.parse_args().keep
    os.environ.update(MEMLAKE_AUTHOR_NAME="Ada", MEMLAKE_AUTHOR_EMAIL="ada@example.org", NO_COLOR="1")
    os.environ.pop("MEMLAKE_REPO", None)
    folder, home, began = Path(tempfile.mkdtemp(prefix="memlake-demo-")), os.getcwd(), time.monotonic()
    os.chdir(folder)
    try:
        tell_story()
    finally:
        os.chdir(home)
        if not keep:
            shutil.rmtree(folder)
    say_what_next(folder if keep else None, time.monotonic() - began)
    return 0


def tell_story() -> None:
    a_first_commit()
    a_branch_that_costs_little()
    a_merge()
    a_conflict()
    an_agent_beside_us()
    a_memory_corrected()
    a_mistake_taken_back()
    the_past()
    a_dataset_computed_once()
    a_secret_purged()
    keeping_house()


# -- the chapters


def a_first_commit() -> None:
    chapter("A first commit: a table, labels, settings, a 32 MB checkpoint")
    chance = random.Random(7)
    rows = "".join(f"{n},{chance.random():.4f},{chance.choice('abc')}\n" for n in range(5000))
    put("data/train.csv", "id,value,class\n" + rows)
    put("data/labels.jsonl", "".join(json.dumps({"id": n, "good": chance.random() > 0.3}) + "\n" for n in range(800)))
    put("params.json", '{"lr": 0.1,\n "epochs": 3}\n')
    Path("models").mkdir()
    Path("models/net.ckpt").write_bytes(chance.randbytes(CHECKPOINT))
    run("init")
    run("add", "data", "models", "params.json")
    run("commit", "-m", "First data and model", "--metric", "accuracy=0.81", "--uses", "data/train.csv")
    with ml.open() as repo:
        noted = repo.show().about("data/train.csv")
        used = repo.show().uses
    columns = ", ".join(f"{name} {kind}" for name, kind in noted.schema) if noted else "?"
    told(f"noted by itself: data/train.csv is {noted.media if noted else '?'} with columns {columns}")
    told(f"the commit says what it was made from: {used[0]['path']} at {used[0]['oid'][:10]}")
    told(f"stored: {size(stored())} for {size(CHECKPOINT + 100_000)} of files")


def a_branch_that_costs_little() -> None:
    chapter("A branch, and 1 % of the checkpoint changed")
    run("branch", "tuned")
    run("switch", "tuned")
    with open("models/net.ckpt", "r+b") as file:
        file.seek(CHECKPOINT // 2)
        file.write(random.Random(8).randbytes(CHECKPOINT // 100))
    told(f"(someone fine-tunes: {size(CHECKPOINT // 100)} in the middle of models/net.ckpt are new)")
    before = stored()
    run("commit", "-am", "Fine-tune the last layer", "--metric", "accuracy=0.86", "--uses", "models/net.ckpt@main")
    grown = stored() - before
    told(f"stored: {size(grown)} more for a new version of a {size(CHECKPOINT)} file ({grown / CHECKPOINT:.1%} of it)")
    run("diff", "--stat", "main..tuned", show=True)


def a_merge() -> None:
    chapter("Meanwhile main moves on; the two are merged")
    run("switch", "main")
    with open("data/train.csv", "a", encoding="utf-8") as file:
        file.write("5000,0.5000,a\n5001,0.2500,b\n")
    run("commit", "-am", "Two more rows")
    run("merge", "tuned", show=True)
    run("log", "--oneline", "--graph", "-4", show=True)


def a_conflict() -> None:
    chapter("Both sides change one line: the merge waits, nothing is overwritten")
    run("switch", "-c", "slow")
    put("params.json", '{"lr": 0.01,\n "epochs": 3}\n')
    run("commit", "-am", "Learn more slowly", "--param", "lr=0.01")
    run("switch", "main")
    put("params.json", '{"lr": 0.5,\n "epochs": 3}\n')
    run("commit", "-am", "Learn faster", "--param", "lr=0.5")
    run("merge", "slow", show=True, expect=1)
    run("merge", "--theirs", "params.json", show=True)
    run("merge", "--continue")
    told(f"params.json says now: {Path('params.json').read_text(encoding='utf-8').split(',')[0]}, ...")


def an_agent_beside_us() -> None:
    chapter("An agent remembers 300 things between two commits of ours, and finds them again")
    with ml.open() as repo:
        before = repo.show("HEAD~1").commit
    with ml.Agent(agent_id="bot") as agent:
        began = time.process_time()
        for number in range(300):
            agent.store_memory(f"Run {number} converged after {number % 17 + 3} epochs")
        spent = time.process_time() - began
        told('ml.Agent(agent_id="bot").store_memory("Run 17 converged after 3 epochs")   # Python, 300 times')
        told(f"300 commits on the memory lane, {spent / 300 * 1000:.1f} ms of CPU each")
        best = agent.search_memory("how many epochs did run 123 take", top_k=1)[0]
        told(f"agent.search_memory(...)[0] -> {best['content']!r}")
    with ml.open() as repo:
        told(f"HEAD~1 was {before.oid[:10]} before and is {repo.show('HEAD~1').commit.oid[:10]} now")
    put("notes.md", "The agent takes notes; we commit files.\n")
    run("add", "notes.md")
    run("commit", "-m", "Say who takes notes")
    run("log", "--oneline", "-2", show=True)
    run("log", "--memory", "--oneline", "-2", show=True)


def a_memory_corrected() -> None:
    chapter("A memory that is corrected, and remembers what it was")
    run("remember", "User prefers commit messages in Chinese", "--category", "preferences", show=True)
    run("remember", "User now prefers commit messages in English", show=True)
    run("recall", "what language for commits", "-n", "1", "--mode", "keyword", show=True)
    run("recall", "what language for commits", "-n", "1", "--mode", "keyword", "--as-of", "HEAD~1", show=True)


def a_mistake_taken_back() -> None:
    chapter("A reset too far, with unsaved work in it, taken back")
    put("params.json", '{"lr": 0.02,\n "epochs": 9}\n')
    told("(params.json is edited and not committed)")
    run("reset", "--hard", "HEAD~2")
    told(f"notes.md is {'here' if Path('notes.md').exists() else 'gone'}, and so is the edit")
    run("undo", show=True)
    told(f"notes.md is {'back' if Path('notes.md').exists() else 'lost'}; params.json is as we had edited it: "
         f"{Path('params.json').read_text(encoding='utf-8').split(',')[0]}, ...")  # fmt: skip
    with ml.open() as repo:
        memories = sum(1 for _ in repo.ls(prefix="memories/"))
    told(f"the agent's {memories} memories were never touched: reset moves the work lane alone")
    run("restore", "params.json")


def the_past() -> None:
    chapter("Any moment can be read, whole or in part")
    lines = [len(run("cat", f"{rev}:data/train.csv", quiet=True).splitlines()) for rev in ("HEAD", "tuned")]
    for rev, number in zip(("HEAD", "tuned"), lines, strict=True):
        print(f"  $ memlake cat {rev}:data/train.csv | wc -l")
        told(f"{number}")
    with ml.open() as repo, repo.open("models/net.ckpt", rev="tuned") as stream:
        stream.seek(CHECKPOINT // 2)
        told(f'repo.open("models/net.ckpt", rev="tuned").seek(16_000_000); read(8): {stream.read(8).hex()}')
    run("blame", "params.json", show=True)


def a_dataset_computed_once() -> None:
    chapter("A dataset from files: what was computed once is not computed again")
    for number in range(60):
        put(f"runs/{number:02}.log", f"epochs={number % 17 + 3}\nloss={1 / (number + 1):.3f}\n")
    told('ml.read_storage("runs/", type="text").map(loss=loss_of).save("losses")          # Python; loss_of is slow')
    told(f"the first time: {saved_losses()}")
    told(f"once more:      {saved_losses()}")
    put("runs/07.log", "epochs=10\nloss=0.009\n")
    told("(someone trains run 7 again: one file of the sixty is new)")
    told(f"and then:       {saved_losses()}")
    best = ml.read_dataset("losses").order_by("loss").limit(1).to_list("file", "loss")[0]
    told(f'ml.read_dataset("losses").order_by("loss").limit(1) -> {best[0].path}, {best[1]}')
    run("dataset", "diff", "losses@1.0.0", "losses@1.0.1", show=True, lines=3)
    run("dataset", "lineage", "losses", show=True, lines=8)


def loss_of(file: ml.TextFile) -> float:
    """Stands for a model: it takes its time, and says that it was called."""
    with open("calls", "a", encoding="utf-8") as calls:
        calls.write(".")
    time.sleep(0.01)
    return float(file.read_text().split("loss=")[1])


def saved_losses() -> str:
    """Save the dataset, and say what that took."""
    put("calls", "")
    saved = ml.read_storage("runs/", type="text").map(loss=loss_of).save("losses")
    calls = len(Path("calls").read_text(encoding="utf-8"))
    return f"{saved.count()} rows, loss_of() called {calls} times"


def a_secret_purged() -> None:
    chapter("A secret gets in, and out again for good")
    put(".env", f"API_TOKEN={SECRET}\n")
    run("add", ".env", show=True)
    run("commit", "-m", "Add settings")
    run("rm", ".env")
    run("commit", "-m", "Remove settings: they held a token")
    told(f"still in history, of course: grep finds it in {found(SECRET)} file(s) of .memlake")
    run("purge", "HEAD~1:.env", "--reason", "leaked token", "--yes")
    told(f"after the purge grep finds it in {found(SECRET)} files of .memlake, logs included")
    run("cat", "HEAD~1:.env", show=True, expect=128)


def keeping_house() -> None:
    chapter("Keeping house")
    run("gc", "--prune", show=True)
    run("fsck", "--full", show=True)
    run("du", show=True, lines=7)


# -- telling it


def chapter(title: str) -> None:
    print(f"\n== {title} ".ljust(WIDTH, "="))


def told(line: str) -> None:
    print(f"    {line}")


def run(*words: str, show: bool = False, quiet: bool = False, expect: int = 0, lines: int = 12) -> str:
    """Run one command line and print it; with `show` also what it printed. Returns its output."""
    typed = "memlake " + " ".join(shlex.quote(word) if " " in word else word for word in words)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    if not quiet:
        print(f"  $ {typed}", flush=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = memlake(words)
    out.seek(0)
    text = out.read()
    if code != expect:
        sys.exit(f"{typed} ended with {code}, not {expect}:\n{text}")
    for line in text.splitlines()[:lines] if show else ():
        for part in textwrap.wrap(line, WIDTH - 4, drop_whitespace=False) or [""]:
            told(part.rstrip())
    return text


def put(path: str, text: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def stored() -> int:
    """Bytes in .memlake, the write-ahead logs folded in."""
    with ml.open() as repo:
        repo.upkeep.checkpoint()
        return repo.upkeep.du().total


def found(text: str) -> int:
    """In how many files of .memlake these bytes stand."""
    return sum(text.encode() in file.read_bytes() for file in Path(".memlake").rglob("*") if file.is_file())


def size(number: float) -> str:
    return f"{number / MB:.1f} MB" if number >= MB else f"{number / 1000:.0f} KB"


def say_what_next(folder: Path | None, seconds: float) -> None:
    print(f"\n{'=' * WIDTH}\nThat took {seconds:.0f} s. ", end="")
    if folder is None:
        print("The folder is removed; `.venv/bin/python examples/demo.py --keep` leaves it. Try next:\n")
    else:
        print(f"The repo is in {folder}. Try next:\n")
    start = f"cd {folder}" if folder else "cd your/data && memlake init && memlake add . && memlake commit -m 'A start'"
    for line in (
        'export PATH="$PWD/.venv/bin:$PATH"',
        start,
        "memlake log --graph --oneline --all      what happened, on every branch",
        "memlake remember 'User prefers tabs'     and `memlake recall tabs`; `memlake mcp install --client claude`",
        "memlake ops                              every step, as `memlake undo` takes it back",
        "memlake dataset ls                       what was computed; docs/how-to/datasets.md makes more of it",
        "memlake show --json HEAD                 a commit with its metrics, params and what it used",
        "memlake --help                           the other verbs; docs/tutorial.md explains them in ten minutes",
    ):
        print(f"  {line}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader has gone, as with `| head`; Python must not try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
