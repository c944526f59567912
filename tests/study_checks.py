"""What every published study has to be, checked by the file of tests that runs it: each study is run once."""

from pathlib import Path

import matplotlib
import xarray as xr

matplotlib.use("Agg")

from jaxcontact.study.folder import load, save  # noqa: E402
from jaxcontact.study.named import list_named, load_named  # noqa: E402
from jaxcontact.study.published import Published  # noqa: E402

FIGURES = Path(__file__).parents[1] / "figures"
PAPERS = ("Crutch", "Two approaches", "Foot", "Rolling", "Lopes")

# The pictures that each study draws.
PICTURES = {
    "table2": {"table2"},
    "table3": set(),
    "fig3": {"fig3"},
    "figs4_12": {"figs4_6", "figs7_9", "figs10_12"},
    "figs13_17": {"figs13_17"},
    "figs18_21": {"fig18", "fig19", "figs20_21"},
    "crutch_sensitivity": {"crutch_sensitivity"},
    "two_approaches_fig2": {"two_approaches_fig2"},
    "foot_fig7": {"foot_fig7"},
    "foot_figs8_10": {"foot_figs8_9", "foot_fig10"},
    "foot_layouts": {"foot_layouts"},
    "rolling_spheres": {"rolling_spheres"},
    "ellipsoids_points": {"ellipsoids_points"},
    "fit_rolling": {"fit_rolling", "fit_rolling_curvature"},
    "fit_heel": {"fit_heel"},
    "fit_foot": {"fit_foot"},
    "fit_crutch": {"fit_crutch"},
    "fit_twins": {"fit_twins"},
}


class Runner:
    """Runs a study on a coarse grid, once, whichever test asks first."""

    def __init__(self, coarse: dict[str, dict]) -> None:
        self._coarse = coarse
        self._found: dict[str, Published] = {}

    def __call__(self, name: str) -> Published:
        if name not in self._found:
            self._found[name] = load_named(name).run(lambda *now: None, **self._coarse.get(name, {}))
        return self._found[name]


def check_words_and_results(name: str, result: Published, folder: Path) -> None:
    """A study has a title, words, and results that can be saved and come back as they were."""
    assert dict(list_named())[name].startswith(PAPERS)
    assert result.text and all(len(line) <= 140 for line in result.text.splitlines())
    assert "nan" not in result.text.lower().split()
    assert "did not finish" not in result.text
    save(folder, fingerprint=name, dataset=result.dataset, figures=result.figures)
    xr.testing.assert_identical(load(folder).load(), result.dataset)
    for stem in result.figures:
        assert (folder / f"{stem}.png").stat().st_size > 10_000


def check_pictures(name: str, result: Published) -> None:
    """Every panel is labelled with units, every figure has a key, and a picture of it is kept with the source."""
    assert set(result.figures) == PICTURES[name]
    for stem, figure in result.figures.items():
        assert (FIGURES / f"{stem}.png").exists()
        assert figure.get_suptitle()
        panels = figure.get_axes()
        # The outer panels of a grid name the axes for those inside it.
        assert any(panel.get_xlabel() for panel in panels) and any(panel.get_ylabel() for panel in panels)
        for panel in panels:
            for label in (panel.get_xlabel(), panel.get_ylabel()):
                assert label == "" or "(" in label or "coefficient" in label, f"no unit in {label!r}"
        keys = figure.legends + [panel.get_legend() for panel in panels if panel.get_legend()]
        assert keys or len(panels) == 1
