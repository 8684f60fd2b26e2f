"""Graphs as text, Mermaid and pictures: boxes that hold their text, and names that cannot end early."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import combinations

from memlake.versions.lineage.draw import Edge, Node, mermaid, svg, text

SVG = "{http://www.w3.org/2000/svg}"
LONG = "s3://a-bucket-with-a-very-long-name-indeed/pets/2026/raw/images/" * 3
WIDE = [
    Node("a", "storage", LONG),
    Node("b", "dataset", "犬の写真" * 6, "1 row"),
    Node("c", "code", "<&\"'`#\x07>()", "x"),
]


def drawn() -> ET.Element:
    nodes = {one.id: one for one in [*WIDE, Node("d", "dataset", "d@1.0.0"), Node("e", "file", "e", "y" * 50)]}
    edges = [Edge("a", "b"), Edge("b", "d"), Edge("c", "d"), Edge("a", "d"), Edge("d", "e"), Edge("a", "c")]
    return ET.fromstring(svg("d", nodes, edges))


def test_boxes_of_long_names_do_not_overlap_and_hold_their_text() -> None:
    rects = drawn().findall(f"{SVG}g/{SVG}rect")
    boxes = [[float(one.get(key, "")) for key in ("x", "y", "width", "height")] for one in rects]
    assert len(boxes) == 5
    for (x1, y1, w1, h1), (x2, y2, w2, h2) in combinations(boxes, 2):
        assert x1 + w1 < x2 or x2 + w2 < x1 or y1 + h1 < y2 or y2 + h2 < y1
    for group in drawn().findall(f"{SVG}g[@class]"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        for one in group.findall(f"{SVG}text"):
            places = sum(2 if ord(char) > 0x2E80 else 1 for char in one.text or "")
            assert places * (6 if one.get("class") else 7.2) + 10 <= float(rect.get("width", ""))


def test_an_edge_over_several_layers_goes_around_the_boxes_between() -> None:
    root = drawn()
    curve = next(p.get("d", "") for p in root.iter(f"{SVG}path") if p.get("class") == "edge" and " H" in p.get("d", ""))
    height = float(curve.split(" H")[0].split()[-1])
    x = float(curve.split(" H")[1].split()[0]) - 1
    for one in root.iter(f"{SVG}rect"):
        left, top, width, tall = (float(one.get(key, "")) for key in ("x", "y", "width", "height"))
        assert not (left <= x <= left + width and top <= height <= top + tall)


def test_the_picture_keeps_names_whole_for_whoever_asks_and_harmless() -> None:
    titles = [one.text for one in drawn().iter(f"{SVG}title")]
    assert LONG in titles and "<&\"'`# >()" in titles


def test_mermaid_labels_cannot_end_early() -> None:
    nodes = {one.id: one for one in WIDE}
    lines = mermaid("a", nodes, [Edge("a", "b", (("x", "y"),))]).splitlines()
    assert lines[0] == "flowchart LR" and '  n0 -->|"x → y"| n1' in lines
    assert next(line for line in lines if line.startswith("  n2")).count('"') == 2


def test_a_circle_is_drawn_too() -> None:
    nodes = {id: Node(id, "file", id) for id in "abc"}
    edges = [Edge("a", "b"), Edge("b", "c"), Edge("c", "a")]
    assert "(see above)" in text("a", nodes, edges) and ET.fromstring(svg("a", nodes, edges)) is not None
