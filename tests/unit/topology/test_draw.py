from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from foretide.topology import Connector, Edge, GroupingSpec, Operator, Sink, Source, Topology, flow
from foretide.topology.draw import DARK, LIGHT, THEMES, Theme, to_mermaid, to_svg, to_text
from foretide.topology.draw_layout import Grid, layers_of, spread
from foretide.topology.loader import load_topology

EXAMPLES = Path(__file__).parents[3] / "examples"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def topology() -> Topology:
    """A topology with everything that a picture tells apart."""
    job = flow("pictures & <more>")
    clicks, users = job.source("clicks", "kafka"), job.source("users")
    parse = clicks.operator("parse", outputs=("ok", "bad"), selectivity={"ok": 0.9}, replicas=(1, 8), execution_s=0.002)
    count = job.operator("count", inputs=[parse["ok"], users], grouping="fields:url", stateful=True, replicas=4)
    count.sink("store", "parquet", queued=True)
    parse["bad"].sink("dead")
    clicks.into("store")
    return job.build()


def thirty() -> Topology:
    job = flow("thirty")
    streams = [job.source("in")]
    for number in range(30):
        before = streams[max(0, number - number * 7 % 4)]
        streams.append(job.operator(f"operator_{number}", inputs=[before], queued=number % 6 == 0))
    job.sink("out", inputs=streams[-3:])
    return job.build()


def rectangles(svg: str) -> dict[str, tuple[float, float, float, float]]:
    """Return left, top, right and bottom of every operator's box, by the text in it."""
    found = {}
    for group in ElementTree.fromstring(svg).iter(f"{SVG}g"):
        box, name = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        if box is not None and name is not None and name.text and name.text != "source":
            x, y = float(box.attrib["x"]), float(box.attrib["y"])
            found[name.text] = (x, y, x + float(box.attrib["width"]), y + float(box.attrib["height"]))
    return found


def printed(topology: Topology, width: int = 80) -> str:
    console = Console(width=width, record=True, file=None, color_system=None, quiet=False, legacy_windows=False)
    with console.capture() as captured:
        console.print(to_text(topology))
    return captured.get()


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES.keys())
def test_svg_is_valid_xml_with_escaped_text(topology: Topology, theme: Theme) -> None:
    root = ElementTree.fromstring(to_svg(topology, theme=theme))
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}title") == "Topology pictures & <more>"
    texts = [element.text for element in root.iter(f"{SVG}text")]
    for expected in ("clicks", "kafka", "1–8 replicas · 2 ms", "4 replicas", "ok · fields:url", "bad", "queued"):
        assert expected in texts


def test_svg_dashes_queued_edges_only(topology: Topology) -> None:
    root = ElementTree.fromstring(to_svg(topology))
    lines = {
        path.findtext(f"{SVG}title"): path for path in root.iter(f"{SVG}path") if path.find(f"{SVG}title") is not None
    }
    dashed = [about for about, path in lines.items() if "stroke-dasharray" in path.attrib]
    assert len(lines) == len(topology.edges)
    assert dashed == ["count -> store, shuffle, queued"]


def test_svg_marks_stateful_operators_by_colour(topology: Topology) -> None:
    borders = {}
    for group in ElementTree.fromstring(to_svg(topology)).iter(f"{SVG}g"):
        box, name = group.find(f"{SVG}rect"), group.find(f"{SVG}text")
        if box is not None and name is not None:
            borders[name.text] = box.attrib["stroke"]
    assert (borders["count"], borders["parse"]) == (LIGHT.state, LIGHT.operator[1])


def test_svg_gives_each_kind_its_own_shape(topology: Topology) -> None:
    shapes = {}
    for group in ElementTree.fromstring(to_svg(topology)).iter(f"{SVG}g"):
        shape, name = group[0], group.find(f"{SVG}text")
        assert name is not None
        shapes[name.text] = (shape.tag.removeprefix(SVG), shape.attrib.get("fill"))
    assert shapes["clicks"] == ("path", LIGHT.source[0])
    assert shapes["parse"] == ("rect", LIGHT.operator[0])
    assert shapes["store"] == ("path", LIGHT.sink[0])


def test_pictures_are_the_same_every_time(topology: Topology) -> None:
    assert to_svg(topology) == to_svg(topology)
    assert to_svg(topology) != to_svg(topology, theme=DARK)
    assert to_mermaid(topology) == to_mermaid(topology)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_themes_have_text_that_stands_out(theme: Theme) -> None:
    # 4.5 is the least contrast that WCAG 2 asks for of normal text.
    for text in (theme.text, theme.faint):
        for ground in (theme.page, theme.source[0], theme.operator[0], theme.sink[0]):
            assert contrast(text, ground) >= 4.5


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("drawn", [load_topology(EXAMPLES / "twitter_complex.toml"), thirty()], ids=lambda t: t.name)
def test_svg_boxes_do_not_overlap_and_lie_inside_the_picture(drawn: Topology) -> None:
    svg = to_svg(drawn)
    root = ElementTree.fromstring(svg)
    boxes = rectangles(svg)
    assert set(boxes) == {operator.id for operator in drawn.operators}
    for left, top, right, bottom in boxes.values():
        assert left > 0 and right < float(root.attrib["width"])
        assert top > 0 and bottom < float(root.attrib["height"])
    ordered = sorted(boxes.values())
    for number, (_, top, right, bottom) in enumerate(ordered):
        for other_left, other_top, _, other_bottom in ordered[number + 1 :]:
            assert other_left > right or other_top > bottom or other_bottom < top


def test_svg_puts_successors_to_the_right() -> None:
    topology = load_topology(EXAMPLES / "twitter_complex.toml")
    boxes = rectangles(to_svg(topology))
    for edge in topology.edges:
        if edge.start in boxes and edge.end in boxes:
            assert boxes[edge.start][2] < boxes[edge.end][0]


def test_layers_are_the_longest_way_from_a_source(topology: Topology) -> None:
    assert layers_of(topology) == {"clicks": 0, "users": 0, "parse": 1, "count": 2, "store": 3, "dead": 2}


def test_edges_that_cross_layers_get_a_waypoint_in_each(topology: Topology) -> None:
    grid = Grid.of(topology)
    route = grid.routes[next(number for number, edge in enumerate(topology.edges) if str(edge) == "clicks -> store")]
    assert [type(node) for node in route] == [str, tuple, tuple, str]
    assert all(node in grid.layers[layer] for layer, node in enumerate(route))


def test_barycentres_undo_a_crossing() -> None:
    crossed = Topology(
        "crossed",
        (Source("a"), Source("b")),
        (Operator("under_b"), Operator("under_a")),
        (),
        (Edge("a", "under_a"), Edge("b", "under_b")),
    )
    assert Grid.of(crossed).layers in ([["a", "b"], ["under_a", "under_b"]], [["b", "a"], ["under_b", "under_a"]])


@pytest.mark.parametrize(
    ("wanted", "distances", "expected"),
    [
        ([5.0], [], [5.0]),
        ([0.0, 10.0], [4.0], [0.0, 10.0]),
        ([0.0, 0.0], [4.0], [-2.0, 2.0]),
        ([10.0, 0.0], [4.0], [3.0, 7.0]),
        ([0.0, 0.0, 0.0], [2.0, 6.0], [-10 / 3, -4 / 3, 14 / 3]),
    ],
)
def test_spread_keeps_order_and_distances(wanted: list[float], distances: list[float], expected: list[float]) -> None:
    assert spread(wanted, distances) == pytest.approx(expected)


def test_mermaid_tells_kinds_and_transports_apart(topology: Topology) -> None:
    lines = to_mermaid(topology).splitlines()
    assert lines[0] == "flowchart LR"
    assert '    n0(["clicks<br/>kafka"])' in lines
    assert '    n3("count<br/>4 replicas<br/>stateful")' in lines
    assert '    n4[("store<br/>parquet")]' in lines
    assert '    n2 -->|"ok · fields:url"| n3' in lines
    assert "    n3 -.-> n4" in lines
    assert "    class n3 stateful" in lines


def test_mermaid_escapes_what_would_end_a_label() -> None:
    edge = Edge("in", "a", grouping=GroupingSpec("fields", ('say "hi" <b>#1',)))
    topology = Topology("odd", (Source("in", Connector('k"')),), (Operator("a"),), (), (edge,))
    text = to_mermaid(topology)
    assert '(["in<br/>k#quot;"])' in text
    assert '|"fields:say #quot;hi#quot; #lt;b#gt;#35;1"|' in text


def test_text_shows_every_element_with_what_it_reads(topology: Topology) -> None:
    text = printed(topology)
    assert "2 sources, 2 operators, 2 sinks, 6 edges" in text
    assert re.search(r"■ parse\s+← clicks\s+1–8\s+2 ms\s+ok ×0.9", text)
    assert re.search(r"◆ count\s+← parse  ok · fields:url\s+4", text)
    assert re.search(r"◉ store\s+⇠ count\s+parquet\n\s+← clicks", text)


def test_text_of_thirty_operators_fits_eighty_columns() -> None:
    text = printed(thirty())
    assert max(len(line) for line in text.splitlines()) <= 80
    assert all(f"operator_{number}" in text for number in range(30))
    assert "…" not in text


def test_text_goes_down_the_layers(topology: Topology) -> None:
    text, layer = printed(topology), layers_of(topology)
    order = re.findall(r"[▷■◆◉] (clicks|users|parse|count|store|dead)\b", text)
    assert sorted(order) == sorted(layer)
    assert all(layer[one] <= layer[other] for one, other in pairwise(order))


def test_a_source_alone_with_a_sink_can_be_drawn() -> None:
    topology = Topology("bare", (Source("in"),), (), (Sink("out"),), (Edge("in", "out"),))
    assert "<svg" in to_svg(topology)
    assert "◉ out" in printed(topology)
