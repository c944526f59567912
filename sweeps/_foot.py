"""What the studies of the foot paper share: drawings of a leg and a foot, and words for which spheres are down."""

from collections.abc import Iterable, Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from jaxcontact.models.layouts import NINE_SPHERES, POINTS_31
from jaxcontact.models.stance import shaped_elements

GROUND_COLOUR = "#999999"
Numbers = Mapping[str, float]  # parameters of a model, SI units


def turned(x, z, angle):
    """Where a point (x forward, z up) of a segment comes to lie when the segment is turned clockwise by an angle."""
    return x * np.cos(angle) + z * np.sin(angle), z * np.cos(angle) - x * np.sin(angle)


def toes_at(foot: tuple, pitch, toe_pitch, params: Numbers) -> tuple:
    """The joint and the centre of the toes, from place (x, z) and pitch of the main foot's centre and the toes'."""
    along, up = turned(params["toe_joint.x"], params["toe_joint.z"], pitch)
    joint = foot[0] + along, foot[1] + up
    along, up = turned(params["toes.x"], params["toes.z"], toe_pitch)
    return joint, (joint[0] + along, joint[1] + up)


def sole_outline(params: Numbers) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """The sole's outline under each segment, shape included, from that segment's centre of mass (m)."""
    points = shaped_elements(POINTS_31, {**params, **_numbers(POINTS_31)})
    return {
        segment: tuple(np.asarray(values)[list(POINTS_31.on(segment))] for values in (points.x, points.z))  # type: ignore[misc]
        for segment in ("foot", "toes")
    }


def draw_foot(
    panel: Axes,
    foot: tuple,
    pitch: float,
    toe_pitch: float,
    params: Numbers,
    *,
    colour: str,
    alpha: float = 1.0,
    down: Iterable[int] = (),
) -> None:
    """Draw sole and spheres, filled where they are down; `foot` is where the main foot's centre of mass is."""
    down = set(down)
    _, toes = toes_at(foot, pitch, toe_pitch, params)
    places = {"foot": (foot, pitch), "toes": (toes, toe_pitch)}
    elements = shaped_elements(NINE_SPHERES, params)
    for segment, (x, z) in sole_outline(params).items():
        centre, angle = places[segment]
        along, up = turned(x, z, angle)
        panel.plot(centre[0] + along, centre[1] + up, color=colour, linewidth=1.4, alpha=alpha)
        for i in NINE_SPHERES.on(segment):
            along, up = turned(float(elements.x[i]), float(elements.z[i]), angle)
            panel.add_patch(
                Circle(
                    (centre[0] + along, centre[1] + up),
                    float(elements.radius[i]),
                    facecolor=colour if i in down else "none",
                    edgecolor=colour,
                    linewidth=0.7,
                    alpha=alpha * (0.45 if i in down else 0.8),
                )
            )


def draw_leg(panel: Axes, angles: tuple, params: Numbers, *, colour: str, alpha: float = 1.0) -> None:
    """Draw shank, foot and toes that hang from the knee, at x = 0; angles of the three, clockwise (rad)."""
    shank, pitch, toe_pitch = angles
    along, up = turned(0.0, -params["shank.length"], shank)
    ankle = along, params["knee"] + up
    along, up = turned(-params["ankle.x"], -params["ankle.z"], pitch)
    foot = ankle[0] + along, ankle[1] + up
    joint, toes = toes_at(foot, pitch, toe_pitch, params)
    bones = np.array([(0.0, params["knee"]), ankle, joint, toes])
    panel.plot(*bones.T, color=colour, linewidth=2.2, alpha=alpha, marker="o", markersize=3, solid_capstyle="round")
    draw_foot(panel, foot, pitch, toe_pitch, params, colour=colour, alpha=alpha)


def draw_ground(panel: Axes) -> None:
    """Fill what is below 0, and make both axes equally long per metre."""
    panel.axhspan(-1.0, 0.0, color=GROUND_COLOUR, alpha=0.35, linewidth=0)
    panel.set_aspect("equal")
    panel.set_xlabel("forward (m)")
    panel.set_ylabel("height (m)")


def spheres_in_words(down: Iterable[bool]) -> str:
    """Name elements that are down by their numbers, in runs: "1-3, 5-9"."""
    numbers = [i for i, is_down in enumerate(down, 1) if is_down]
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"


def _numbers(layout) -> dict[str, float]:
    return {parameter.name: parameter.default for parameter in layout.parameters()}
