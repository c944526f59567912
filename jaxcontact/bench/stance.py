"""A stance to measure fits on where no file is given: the reference gait of nine spheres, as a laboratory sees it."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxcontact.measured.stance import Provenance, Stance, find_foot_flat, flat_window
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.models.model import default_params
from jaxcontact.models.prescribed import evaluate, sagittal_feet
from jaxcontact.models.stance import GAIT, reference_motion, shaped_elements, stance_model
from jaxcontact.vectors import Vector, rotate

RATE = 400  # Hz
_CARRIES = 50.0  # N: the plate tells no centre of pressure below this
# Markers in the frame of the main foot (m): behind the heel, and on the outermost metatarsal heads.
_HEEL, _HEIGHT, _HALF_WIDTH = -0.139, -0.02, 0.04


def made_up_stance() -> Stance:
    """A right foot over a plate: its markers, and the forces that the default sole has under the reference motion."""
    frames = round(GAIT.duration * RATE) + 1
    model = stance_model()
    params, choices = default_params(model), {name: allowed[0] for name, allowed in model.choices.items()}
    motion = reference_motion(NINE_SPHERES, choices, frames)
    found = jax.jit(
        lambda motion, params: evaluate(
            motion,
            lambda frame: sagittal_feet(frame, params),
            NINE_SPHERES,
            shaped_elements(NINE_SPHERES, params),
            params,
            choices,
            threshold=_CARRIES,
        )
    )(motion, params)
    foot = sagittal_feet(type(motion)(*map(jnp.asarray, motion)), params).foot

    def marker(x: float, y: float) -> np.ndarray:
        local: Vector = (x, y, _HEIGHT)
        return _columns(tuple(a + b for a, b in zip(foot.position, rotate(foot.rotation, local), strict=True)), frames)

    ball = float(params["toe_joint.x"])
    markers = {"heel": marker(_HEEL, 0.0), "mtp": marker(ball, 0.0)}
    markers |= {"mt1": marker(ball, _HALF_WIDTH), "mt5": marker(ball, -_HALF_WIDTH)}
    on = np.ones(frames, bool)
    loaded = np.asarray(found.loaded)
    return Stance(
        name="R_reference",
        side="R",
        time=np.linspace(0.0, GAIT.duration, frames),
        in_stance=on,
        marker_frame=on,
        markers=markers,
        force=_columns(found.force, frames),
        free_moment=np.where(loaded, found.free_moment, 0.0),
        cop=np.where(loaded[:, None], _columns(found.cop[:2], frames), 0.0),
        cop_valid=loaded,
        flat=find_foot_flat(markers, flat_window(markers, on, markers["mtp"]), markers["mtp"]),
        provenance=Provenance(files=("made up: the reference gait",), mass=GAIT.mass, mass_source="the reference gait"),
    )


def _columns(parts, frames: int) -> np.ndarray:
    return np.stack([np.broadcast_to(np.asarray(part, float), frames) for part in parts], axis=1)
