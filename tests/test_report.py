"""The page about a fit: whole, self-contained, escaped, and with the fit's own numbers."""

import base64
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from carried import TITLE, fit_heel, given_fit

from jaxcontact.errors import InputError
from jaxcontact.models import get_model
from jaxcontact.reports.figures import draw_channels
from jaxcontact.reports.html import report, write_report
from jaxcontact.study.fit import Problem, Unknown, make_channel
from jaxcontact.study.fit.profile import Profile

PROFILE = Profile(
    "k", "N/m", np.array([4e4, 5e4, 6e4]), np.array([60.0, 50.0, 55.0]), 5.01e4, 54.0, 4.2e4, float("nan")
)
VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """What a browser would see: tags, attributes, rows of tables, and text. Tags must close in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text, self.rows, self.titled = [], [], "", [], ""
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" in self.open:
            return
        self.text += data
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data
        if self.open and self.open[-1] == "title":
            self.titled += data

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def row(self, first):
        return next(row for row in self.rows if row and row[0] == first)


@pytest.fixture(scope="module")
def heel(tmp_path_factory):
    return fit_heel(tmp_path_factory.mktemp("heel"))


@pytest.fixture(scope="module")
def text(heel):
    return report(heel, profiles=[PROFILE])


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_it_is_one_whole_page(page, text):
    assert text.startswith("<!DOCTYPE html>")
    assert page.named("html") == [{"lang": "en"}]
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.named("meta")
    assert {"charset": "utf-8"} in page.named("meta")
    assert page.titled == TITLE
    assert len(page.named("h1")) == 1


def test_it_needs_no_network_and_no_script(page, text):
    assert not page.named("script") and not page.named("link") and not page.named("iframe")
    for _, attributes in page.tags:
        for name in ("src", "href", "srcset", "data", "poster"):
            assert attributes.get(name, "data:").startswith("data:")
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style and "@import" not in style


def test_text_is_escaped(page, text):
    assert "<script" not in text
    assert TITLE in page.text  # and yet it can be read


def test_pictures_are_inside_and_have_words(page):
    images = page.named("img")
    assert len(images) == 4  # the channel, costs, places, the profile
    for image in images:
        kind, data = image["src"].split(";base64,")
        content = base64.b64decode(data, validate=True)
        assert kind == "data:image/svg+xml" and b"<svg" in content and b"<script" not in content
        assert len(image["alt"]) > 20


def test_numbers_are_those_of_the_fit(heel, page):
    for name, value in heel.values.items():
        low, high = heel.diagnosis.intervals[name]
        assert page.row(name)[1:3] == [f"{value:.5g}", f"{low:.5g} to {high:.5g}"]
    assert page.row("F_z")[1] == f"{heel.rms['F_z']:.4g}"
    names = heel.problem.names
    for i, name in enumerate(names):
        cells = ["1" if i == j else f"{heel.diagnosis.correlation[i, j]:+.2f}" for j in range(len(names))]
        assert [name, *cells] in page.rows
    assert f"Cost {heel.cost:.5g}" in page.text
    told = heel.diagnosis
    assert f"{told.equals} of 4 starts ended within 1 % of the best cost" in page.text


def test_findings_provenance_and_settings_are_told(heel, page):
    for finding in heel.diagnosis.findings:
        assert finding in page.text
    assert page.row("measured: file")[1] == "strike.csv"
    assert page.row("smoothing")[1] == heel.problem.source["smoothing"]
    assert page.row("law: normal")[1] == "hunt_crossley"
    assert page.row("m")[1:] == ["1", "1", "set by hand"]
    assert any("300, sd 1 of its logarithm" in row for row in page.rows)  # the prior of c
    assert ["k", "50100", "42000 to open", "N/m"] in page.rows  # the profile


def test_the_same_fit_gives_the_same_bytes(heel, text):
    assert report(heel, profiles=[PROFILE]) == text


def test_what_a_page_says_of_a_bad_fit(heel):
    told = replace(
        heel.diagnosis,
        converged=False,
        reason="stopped at the step limit",
        bounds={"k": "low", "c": "", "offset": ""},
        intervals=heel.diagnosis.intervals | {"k": (float("nan"), float("nan"))},
        unused=("offset",),
        correlation=np.full((3, 3), np.nan),
        findings=("k rests on its low bound (1000)",),
    )
    page = Page(report(replace(heel, diagnosis=told), title="other"))
    assert page.row("k")[2] == "on its low bound"
    assert page.row("offset")[2] == "no effect"
    assert {"class": "bad"} in page.named("p")
    assert page.titled == "other"


def test_a_hundred_unknowns_fold_away_and_become_a_picture():
    model = get_model("stance")
    names = [p.name for p in model.parameters if p.name.endswith((".x", ".z", ".radius"))][:27]
    channels = [
        make_channel(model, "F_z", "frames", np.full(5, 500.0), 10.0, valid=np.arange(5) > 0),
        make_channel(model, "impulse", "outcome", 300.0, 10.0),
    ]
    known = {p.name: p for p in model.parameters}
    unknowns = [Unknown(name, known[name].default - 0.01, known[name].default + 0.01) for name in names]
    problem = Problem.of_model(model, unknowns=unknowns, channels=channels, points=5, body_weight=700.0)
    values = {name: known[name].default for name in names}
    fit = given_fit(problem, values, {"F_z": np.full(5, 507.0), "impulse": np.array([297.0])})
    correlation = np.eye(27)
    correlation[3, 1] = correlation[1, 3] = -0.91
    fit = replace(fit, diagnosis=replace(fit.diagnosis, correlation=correlation))
    page = Page(report(fit))
    assert [f"{names[1]} and {names[3]}", "-0.910"] in page.rows
    (heat,) = [image for image in page.named("img") if "png" in image["src"]]
    assert "27 unknowns" in heat["alt"]
    assert len(page.named("details")) == 3 and {"open": None} in page.named("details")  # the one strong pair is shown
    assert page.row("F_z")[1:4] == ["7", "N", "1.00"]  # 7 N off everywhere, of 700 N
    assert ["impulse", "300", "297", "10", "N s"] in page.rows
    assert "whether others would end elsewhere is not known" in page.text
    assert all(any(name in row for row in page.rows) for name in names)


def test_writing_where_nothing_can_be_written(heel, tmp_path):
    write_report(heel, tmp_path / "page.html", title="t")
    assert Page((tmp_path / "page.html").read_text(encoding="utf-8")).titled == "t"
    with pytest.raises(InputError, match="cannot be written"):
        write_report(heel, tmp_path / "nowhere" / "page.html")


def test_one_figure_has_all_channels(heel):
    left, right = draw_channels(heel).axes
    measured, computed = (line.get_ydata() for line in left.lines)
    channel = heel.problem.channels[0]
    np.testing.assert_array_equal(measured, channel.values)
    np.testing.assert_array_equal(computed, heel.predictions["F_z"])
    np.testing.assert_allclose(right.lines[1].get_ydata(), (computed - measured) / 5.0)
