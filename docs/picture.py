"""Draws docs/picture.svg, the terminal session that the README shows. Runs the commands; knows how a screen looks.

python docs/picture.py             run the session and write the picture
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

import pages

PICTURE = Path(__file__).resolve().parent / "picture.svg"
PROMPT = "$ "
BEFORE = """\
```python
from pathlib import Path

Path("pets/data").mkdir(parents=True)
Path("pets/data/pets.csv").write_text("name,kind,kg\\nRex,dog,31.5\\nMia,cat,4.2\\n")
Path("pets/data/notes.txt").write_text("Weighed on Monday.\\n")
Path("pets/words.py").write_text('''\
import memlake as ml

files = ml.read_storage("data/", type="text")
files.map(words=lambda file: len(file.read().split())).save("texts")
ml.read_dataset("texts").filter(ml.C("words") > 2).save("long_texts")
''')
```
```console
$ cd pets && memlake init && memlake config embedding.provider none
```
"""
SESSION = """\
```console
$ memlake add . && memlake commit -m "First data" --metric accuracy=0.81
$ memlake switch -c more && echo "Pip,bird,0.1" >> data/pets.csv && memlake commit -qam "A bird"
$ memlake diff main..more | tail -5
$ memlake switch -q main && memlake merge more
$ memlake remember "Ada prefers kilograms in reports"
$ memlake recall "which unit for reports"
$ memlake run words.py
$ memlake reset -q --hard HEAD~2 && memlake undo
$ memlake log --oneline
```
"""
# What differs from run to run gets the same stand-in in every picture.
UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
OID = re.compile(r"(?<![\w-])[0-9a-f]{10}(?![\w-])")
FIXED = (
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "2026-01-31"),
    (re.compile(r"\b\d+ seconds? ago"), "1 second ago"),
    (re.compile(r"(?<![\w.])/\S+/pets\b"), "/home/ada/pets"),
)
WIDTH, STEP, ROW, LEFT, TOP = 100, 8.0, 19, 20, 52  # columns; pixels of a column and a line; where text begins
COLOURS = {"back": "#12161c", "bar": "#1f2630", "text": "#b6c2cf", "command": "#ffffff", "prompt": "#5bd1a5"}
BUTTONS = ("#ff6b61", "#f5bf4f", "#62c554")
MARKED = {"+": "#7ee787", "-": "#ff9b8e"}


def screen(folder: Path) -> list[str]:
    """The lines of the session as a terminal shows them."""
    shown = list(pages.steps(SESSION))
    ran = pages.run(BEFORE + SESSION, folder)
    failed = [one for one in ran if one.code]
    if failed:
        raise RuntimeError(f"$ {failed[0].step.command}\n{failed[0].printed}")
    text = "\n".join(f"{PROMPT}{one.step.command}\n{one.printed}".rstrip() for one in ran[-len(shown) :])
    return [line for row in pin(text).splitlines() for line in wrap(row)]


def pin(text: str) -> str:
    """The text with ids, dates and folders that are the same at every run."""
    known: dict[str, str] = {}

    def stand_in(found: re.Match[str]) -> str:
        digits = hashlib.sha256(str(len(known)).encode()).hexdigest()
        if found[0] not in known:
            shape = iter(digits)
            known[found[0]] = re.sub(r"[0-9a-f]", lambda _: next(shape), found[0])
        return known[found[0]]

    text = OID.sub(stand_in, UUID.sub(stand_in, text))
    for pattern, word in FIXED:
        text = pattern.sub(word, text)
    return text


def wrap(line: str) -> list[str]:
    """A line cut where a terminal of this width would cut it."""
    return [line[start : start + WIDTH] for start in range(0, max(len(line), 1), WIDTH)]


def svg(lines: list[str]) -> str:
    width, height = round(WIDTH * STEP) + 2 * LEFT, TOP + ROW * len(lines) + 8
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="13">'
    )
    frame = [
        "<title>A terminal session: commit, merge, remember, recall, datasets, undo</title>",
        f'<rect width="{width}" height="{height}" rx="10" fill="{COLOURS["back"]}"/>',
        f'<path d="M0 30V10a10 10 0 0 1 10-10h{width - 20}a10 10 0 0 1 10 10v20z" fill="{COLOURS["bar"]}"/>',
        *(f'<circle cx="{20 + 18 * n}" cy="15" r="5" fill="{colour}"/>' for n, colour in enumerate(BUTTONS)),
    ]
    rows = [_row(line, TOP + ROW * number) for number, line in enumerate(lines)]
    return "\n".join([head, *frame, *filter(None, rows), "</svg>"]) + "\n"


def _row(line: str, y: int) -> str:
    if line.startswith(PROMPT):
        command = _text(line[len(PROMPT) :], LEFT + STEP * len(PROMPT), y, COLOURS["command"])
        return _text(PROMPT.strip(), LEFT, y, COLOURS["prompt"]) + command
    indent = len(line) - len(line.lstrip())
    colour = MARKED.get(line[:1], COLOURS["text"])
    return _text(line.strip(), LEFT + STEP * indent, y, colour) if line.strip() else ""


def _text(text: str, x: float, y: int, colour: str) -> str:
    """One run of text, as long as its characters are wide on our grid, whatever font the reader has."""
    length = f'textLength="{STEP * len(text):g}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x:g}" y="{y}" fill="{colour}" {length} xml:space="preserve">{escape(text)}</text>'


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        PICTURE.write_text(svg(screen(Path(folder))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
