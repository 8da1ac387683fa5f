"""The page of a run: whole, safe and inside its frame. How it looks is for eyes."""

from __future__ import annotations

from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree

from msgspec.structs import replace

from edgekv.quality.curves import BOTTOM, HEIGHT, LABEL_HEIGHT, WIDTH, Curve, chart
from edgekv.quality.html import page
from edgekv.quality.measures import Measured, NeedleScore, ProseScore
from edgekv.quality.verdicts import Verdict

MEASURED = Measured(
    (
        NeedleScore(700, 0.1, False, -1.0, -1.1, True, True),
        NeedleScore(700, 0.9, True, -1.0, -3.0, True, False),
        NeedleScore(1400, 0.1, False, -3.0, -2.0, False, True),
        NeedleScore(1400, 0.9, True, -1.0, -1.0, False, False),
    ),
    (
        ProseScore(700, 200, 0.003, 0.04, 0.98, -2.0, -2.0),
        ProseScore(1400, 200, 0.005, 0.06, 0.97, -2.0, -2.0),
    ),
)
NOISE = Measured(MEASURED.needles, MEASURED.prose)
VERDICT = Verdict("q8_0", "q4_0", False, (), 1720, MEASURED, "a <model>", "CPU & 0.3.36", NOISE)
OTHER = replace(VERDICT, kv_type_v="q8_0")
LIMIT = Curve("limit", ((700, 0.03), (1400, 0.02)))
VOID = {"meta", "!doctype"}


class Outline(HTMLParser):
    """Every element closed in its turn, and all text in one string."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, _: object) -> None:
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_the_page_is_whole_and_shows_every_score_of_every_type() -> None:
    outline = Outline(page([VERDICT, OTHER]))
    assert outline.tags.count("svg") == 2
    for words in ("q8_0/q4_0", "rounding alone", "a <model>: KV types against f16", "CPU & 0"):
        assert words in outline.words
    for cell in ("+0.10 ✓✓", "+2.00 ✓✗", "-1.00 ✗✓", "+0.00 ✗✗"):
        assert outline.words.count(cell) == 2, cell
    for figure in ("0.0050", "0.060", "97.0%", "1 → 2 of 2", "1 → 0 of 2", "passed to 1,720"):
        assert outline.words.count(figure) >= 2, figure


def test_a_name_or_a_reason_runs_nothing() -> None:
    refused = replace(VERDICT, objections=("<script>it is bad</script>",))
    outline = Outline(page([refused]))
    assert "script" not in outline.tags
    assert "<script>it is bad</script>" in outline.words


def test_every_part_of_a_chart_is_inside_it_whatever_the_values() -> None:
    curves = [
        Curve("none", ((512, 0.0), (4096, 0.0))),
        Curve("far", ((512, 40.0),)),
        Curve("odd", ((700, 0.02), (4096, 0.1))),
    ]
    root = ElementTree.fromstring(chart(curves, LIMIT, "nats <mean>"))
    for element in root.iter():
        for name, most in (
            ("x", WIDTH),
            ("x1", WIDTH),
            ("cx", WIDTH),
            ("y", HEIGHT),
            ("y1", HEIGHT),
        ):
            assert 0 <= float(element.get(name, 0)) <= most
        if element.tag == "circle":
            assert 0 <= float(element.attrib["cy"]) <= HEIGHT
    labels = [element.text for element in root.iter("text")]
    assert {"512", "700", "4,096", "tokens of the text", "nats <mean>", "limit"} <= {*labels}


def test_more_is_higher_and_longer_is_further_right() -> None:
    root = ElementTree.fromstring(chart([Curve("one", ((512, 0.01), (4096, 0.1)))], LIMIT, "nats"))
    low, high = ((float(c.attrib["cx"]), float(c.attrib["cy"])) for c in root.iter("circle"))
    assert low[0] < high[0]
    assert low[1] > high[1]


def test_names_of_curves_that_end_alike_do_not_cover_each_other() -> None:
    names = ("one", "two", "three")
    curves = [Curve(name, ((1000, 0.0101 + place / 1e5),)) for place, name in enumerate(names)]
    root = ElementTree.fromstring(chart(curves, LIMIT, "nats"))
    heights = sorted(float(text.attrib["y"]) for text in root.iter("text") if text.text in names)
    assert len(heights) == 3
    assert heights[-1] <= HEIGHT - BOTTOM, "none is on the axis"
    assert all(below - above >= LABEL_HEIGHT - 0.2 for above, below in pairwise(heights))
