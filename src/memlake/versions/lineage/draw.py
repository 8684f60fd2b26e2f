"""A graph as a tree of text, as Mermaid and as an SVG picture. Pure: knows nothing of what nodes are."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from memlake.named_tuple import NamedTuple

_COLUMNS = 3  # pairs of columns said beside an edge


class Node(NamedTuple):
    id: str
    kind: str  # dataset, storage, file, checkpoint, prompt, code, values, chain, commit, memory, params, metrics
    name: str
    about: str = ""


class Edge(NamedTuple):
    """From what was read to what was made. `columns`: (read, made), None when nobody knows."""

    source: str
    target: str
    columns: tuple[tuple[str, str], ...] | None = None

    def describe_columns(self) -> str:
        pairs = self.columns or ()
        texts = [b if a in ("", b) else f"{a} → {b}" for a, b in pairs[:_COLUMNS]]
        return ", ".join([*texts, "..."] if len(pairs) > _COLUMNS else texts)


Nodes = Mapping[str, Node]


# -- text ------------------------------------------------------------------------------------------


def text(root: str, nodes: Nodes, edges: Sequence[Edge]) -> str:
    """What the root is made from, as a tree, and what is made from it, as another."""
    lines = [_describe(nodes[root])]
    for title, up in (("made from", True), ("used by", False)):
        tree = list(_branches(root, nodes, _sides(edges, up=up), set()))
        lines += [title, *tree] if tree else []
    return "\n".join(lines if len(lines) > 1 else [*lines, "nothing is known of what it is made from or used by"])


def _sides(edges: Sequence[Edge], *, up: bool) -> dict[str, list[tuple[str, Edge]]]:
    found: dict[str, list[tuple[str, Edge]]] = {}
    for edge in edges:
        here, there = (edge.target, edge.source) if up else (edge.source, edge.target)
        found.setdefault(here, []).append((there, edge))
    return found


def _branches(id: str, nodes: Nodes, sides: Mapping[str, list[tuple[str, Edge]]], seen: set[str]) -> Iterator[str]:
    below = sides.get(id, [])
    for place, (other, edge) in enumerate(below):
        last = place == len(below) - 1
        columns = f"  [{edge.describe_columns()}]" if edge.describe_columns() else ""
        above = "  (see above)" if other in seen and sides.get(other) else ""
        yield f"{'└── ' if last else '├── '}{_describe(nodes[other])}{columns}{above}"
        if other not in seen:
            seen.add(other)
            yield from (f"{'    ' if last else '│   '}{line}" for line in _branches(other, nodes, sides, seen))


def _describe(node: Node) -> str:
    return f"{node.name}  ({node.about})" if node.about else node.name


# -- mermaid ---------------------------------------------------------------------------------------

_SHAPES = {
    "dataset": '[("{}")]', "storage": '[/"{}"/]', "code": '{{{{"{}"}}}}', "file": '("{}")', "checkpoint": '("{}")',
    "prompt": '("{}")', "params": '>"{}"]', "metrics": '>"{}"]', "memory": '(["{}"])',
}  # fmt: skip
_PLAIN = '["{}"]'


def mermaid(root: str, nodes: Nodes, edges: Sequence[Edge]) -> str:
    short = {id: f"n{number}" for number, id in enumerate(nodes)}
    lines = ["flowchart LR"]
    for id, node in nodes.items():
        label = _mermaid_text(node.name) + (f"<br/>{_mermaid_text(node.about)}" if node.about else "")
        lines.append(f"  {short[id]}{_SHAPES.get(node.kind, _PLAIN).format(label)}")
    for edge in edges:
        said = f'|"{_mermaid_text(edge.describe_columns())}"|' if edge.describe_columns() else ""
        lines.append(f"  {short[edge.source]} -->{said} {short[edge.target]}")
    return "\n".join([*lines, f"  style {short[root]} stroke-width:3px"])


def _mermaid_text(said: str) -> str:
    """Characters that end a label, or begin an entity or tag of Mermaid, as its entities."""
    return "".join(f"#{ord(char)};" if char in '"#<>&`' else " " if char < " " else char for char in said)


# -- svg: layers from left to right ----------------------------------------------------------------

_CHAR = 7.3  # pixels of a character of 12 px monospace, with a little to spare
_LONGEST = 38  # characters of a name that are drawn; the whole name is the tooltip
_HEIGHT, _SLIM = 44.0, 10.0  # of a box; of the gap a passing edge needs
_GAP_X, _GAP_Y, _EDGE = 64.0, 16.0, 16.0
_STYLE = """\
.memlake text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#1f2328}
.memlake .about{font-size:10px;fill:#59636e}
.memlake .edge{fill:none;stroke:#818b98;stroke-width:1.3}
.memlake .tip{fill:#818b98}
.memlake rect{fill:#f6f8fa;stroke:#d1d9e0}
.memlake .dataset rect{fill:#ddf4ff;stroke:#54aeff}
.memlake .storage rect{fill:#dafbe1;stroke:#4ac26b}
.memlake .code rect{fill:#fbefff;stroke:#c297ff}
.memlake .file rect,.memlake .prompt rect{fill:#fff8c5;stroke:#d4a72c}
.memlake .checkpoint rect{fill:#fff1e5;stroke:#fb8f44}
.memlake .memory rect{fill:#ffeff7;stroke:#ff80c8}
.memlake .root rect{stroke-width:2.5}
@media (prefers-color-scheme:dark){
.memlake text{fill:#f0f6fc}
.memlake .about{fill:#9198a1}
.memlake rect{fill:#151b23;stroke:#3d444d}
.memlake .dataset rect{fill:#0d2847;stroke:#388bfd}
.memlake .storage rect{fill:#0f2a1a;stroke:#2ea043}
.memlake .code rect{fill:#271a45;stroke:#8957e5}
.memlake .file rect,.memlake .prompt rect{fill:#2e2205;stroke:#9e6a03}
.memlake .checkpoint rect{fill:#331c04;stroke:#bd561d}
.memlake .memory rect{fill:#3a0f26;stroke:#bf4b8a}
}"""


class Box(NamedTuple):
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.y + self.height / 2


def svg(root: str, nodes: Nodes, edges: Sequence[Edge]) -> str:
    layers, routes = _layers(root, nodes, edges)
    # Each layer sorted by where its neighbours are, a few times to and fro: fewer edges cross
    near: dict[str, list[str]] = {}
    for route in routes:
        for a, b in pairwise(route):
            near.setdefault(a, []).append(b)
            near.setdefault(b, []).append(a)
    for sweep in range(6):
        for layer in layers if sweep % 2 else layers[::-1]:
            place = {id: index / len(one) for one in layers for index, id in enumerate(one)}
            layer.sort(key=lambda id: sum(place[other] for other in near.get(id, [id])) / len(near.get(id, [id])))
    boxes = _place_boxes(layers, nodes)
    width = max(box.x + box.width for box in boxes.values()) + _EDGE
    height = max(box.y + box.height for box in boxes.values()) + _EDGE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="memlake" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
            f"<title>Lineage of {_xml(nodes[root].name)}</title>",
            f"<style>{_STYLE}</style>",
            *(_curve([boxes[id] for id in route], edge) for edge, route in zip(edges, routes, strict=True)),
            *(_box(node, boxes[id], is_root=id == root) for id, node in nodes.items()),
            "</svg>",
        ]
    )


def _layers(root: str, nodes: Nodes, edges: Sequence[Edge]) -> tuple[list[list[str]], list[list[str]]]:
    """Ids by layer, the root's ancestors before it; and for each edge the ids it passes, one a layer."""
    depth = {id: -_farthest(id, root, _sides(edges, up=False)) for id in nodes}
    below = _sides(edges, up=True)
    depth |= {id: away for id in nodes if id != root and (away := _farthest(id, root, below)) > 0}
    first = min(depth.values())
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) - first + 1)]
    for id in nodes:
        layers[depth[id] - first].append(id)
    routes = []
    for number, edge in enumerate(edges):
        between = range(depth[edge.source] + 1, depth[edge.target])
        passing = [f"{number} passes {layer}" for layer in between]
        for layer, id in zip(between, passing, strict=True):
            layers[layer - first].append(id)
        routes.append([edge.source, *passing, edge.target])
    return layers, routes


def _farthest(id: str, root: str, sides: Mapping[str, list[tuple[str, Edge]]]) -> int:
    """Steps of the longest way to the root; 0 when there is none."""
    known: dict[str, int | None] = {root: 0}
    stack = [id]
    while stack:
        here = stack[-1]
        waiting = [other for other, _ in sides.get(here, ()) if other not in known and other not in stack]
        if here not in known and waiting:
            stack.append(waiting[0])
            continue
        stack.pop()
        if here not in known:
            ways = [known.get(other) for other, _ in sides.get(here, ())]
            known[here] = max((way + 1 for way in ways if way is not None), default=None)
    return known[id] or 0


def _place_boxes(layers: Sequence[Sequence[str]], nodes: Nodes) -> dict[str, Box]:
    heights = [sum(_height(id, nodes) + _GAP_Y for id in layer) for layer in layers]
    boxes: dict[str, Box] = {}
    x = _EDGE
    for layer, height in zip(layers, heights, strict=True):
        width = max((_width(nodes[id]) for id in layer if id in nodes), default=0)
        y = _EDGE + (max(heights) - height) / 2
        for id in layer:
            boxes[id] = Box(x, y, width, _height(id, nodes))
            y += boxes[id].height + _GAP_Y
        x += width + _GAP_X
    return boxes


def _height(id: str, nodes: Nodes) -> float:
    return _HEIGHT if id in nodes else _SLIM


def _width(node: Node) -> float:
    return max(_cells(_shorten(node.name)) * _CHAR, _cells(node.about) * _CHAR * 10 / 12, 60) + 20


def _cells(said: str) -> int:
    """How many places text takes: letters of East Asia take two."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in said)


def _shorten(name: str) -> str:
    """A long name without its middle: the beginning says where, the end what."""
    if len(name) <= _LONGEST:
        return name
    head = _LONGEST // 2 - 1
    return f"{name[:head]}…{name[head + 1 - _LONGEST :]}"


def _curve(boxes: Sequence[Box], edge: Edge) -> str:
    first, last = boxes[0], boxes[-1]
    path = f"M{first.x + first.width:.1f} {first.middle:.1f}"
    for a, b in pairwise(boxes):
        x1, x2 = a.x + a.width, b.x - (6 if b is last else 0)
        bend = (x2 - x1) / 2
        path += f" C{x1 + bend:.1f} {a.middle:.1f} {x2 - bend:.1f} {b.middle:.1f} {x2:.1f} {b.middle:.1f}"
        path += f" H{b.x + b.width:.1f}" if b is not last else ""
    tip = f"M{last.x:.1f} {last.middle:.1f} l-7 -3.5 v7 z"
    title = f"<title>{_xml(edge.describe_columns())}</title>" if edge.describe_columns() else ""
    return f'<g><path class="edge" d="{path}">{title}</path><path class="tip" d="{tip}"/></g>'


def _box(node: Node, box: Box, *, is_root: bool) -> str:
    kind = f"{node.kind} root" if is_root else node.kind
    x, lower = box.x + 10, f'<text class="about" x="{box.x + 10:.1f}" y="{box.y + 34:.1f}">{_xml(node.about)}</text>'
    return (
        f'<g class="{kind}"><title>{_xml(node.name)}</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" rx="6"/>'
        f'<text x="{x:.1f}" y="{box.y + (19 if node.about else 26):.1f}">{_xml(_shorten(node.name))}</text>'
        f"{lower if node.about else ''}</g>"
    )


def _xml(said: str) -> str:
    """Text for XML, without the characters it cannot hold."""
    return html.escape("".join(char if char.isprintable() else " " for char in said))
