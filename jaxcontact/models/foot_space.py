"""The falling foot of `foot` in space: three bodies, revolute joints as constraints, Baumgarte (Foot eqs 19-22).

Frame: x forward, y left, z up; the leg's joints turn about y, positive as in the plane (z towards x: heel up). A leg
whose knee is a hinge and whose elements lie on the midline moves as the planar one does; a ball in the knee with a lean
at the start, or elements beside the midline, make it leave the plane. Inertias are the same about all axes, as in Foot
Table 1. Angles are told as seen in the sagittal plane, within half a turn either way.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from jaxcontact.bodies import joints, spatial
from jaxcontact.bodies.joints import Baumgarte, Frame, Joint
from jaxcontact.bodies.linkage import stack
from jaxcontact.contact import geometry
from jaxcontact.errors import InputError
from jaxcontact.integrate import hybrid, record
from jaxcontact.integrate.machine import BAD_VALUE, FINISHED, RUNNING, Machine
from jaxcontact.integrate.settings import Settings
from jaxcontact.models import foot, sole, touchdown
from jaxcontact.models.layout import Layout
from jaxcontact.models.layouts import NINE_SPHERES
from jaxcontact.models.model import Model, Parameter, Params, Quantity, within_bounds
from jaxcontact.models.strike import lanes
from jaxcontact.vectors import add, dot, turn_about_y

SHANK, FOOT, TOES = range(3)
SPACE_PARAMETERS = (
    Parameter("lean", "deg", 0.0, -80.0, 80.0, "leg at the start, turned about x: to the right is positive", "ours"),
    Parameter("feedback.velocity", "1/s", 50.0, 0.0, 1e5, "Baumgarte's alpha", "ours: Foot prints none"),
    Parameter("feedback.position", "1/s", 50.0, 0.0, 1e5, "Baumgarte's beta", "ours: Foot prints none"),
)
DRIFT = (
    Quantity("drift", "m", "largest violation of the joints' points"),
    Quantity("drift_angle", "rad", "largest violation of the joints' axes"),
)
SIDEWAYS = (
    Quantity("F_y", "N", "friction on the sole, positive to the left"),
    Quantity("cop_y", "m", "centre of pressure, to the left of the knee; 0 where nothing presses"),
    Quantity("T_z", "N m", "free moment about the vertical, at the centre of pressure"),
)
# State rows after those of the bodies: angles of ankle and toe joint, which count full turns (a foot may turn over, and
# its spring goes on winding up), then work of normal forces, of friction, of springs and dampers.
_TURNS, _WORKS = 2, 3
_MORE = _TURNS + _WORKS


def foot_space_model(layout: Layout = NINE_SPHERES) -> Model:
    """The falling foot in space, with the elements of a layout under it."""
    planar = foot.foot_model(layout)
    parameters = (*SPACE_PARAMETERS, *planar.parameters)
    outcomes = (*planar.outcomes[:-2], *DRIFT, *planar.outcomes[-2:])

    def machine(_method: str, choices: Mapping[str, str], settings: Settings) -> Machine:
        _refuse_kick_drift(settings)
        return Machine(
            init=lambda params: _start(layout, parameters, params, choices, settings),
            step=lambda params, state: hybrid.advance(_system(layout, params, choices), settings, params, state)[0],
            done=hybrid.done,
            finish=lambda params, state: _outcomes(params, choices, state),
        )

    def recorder(_method: str, choices: Mapping[str, str], settings: Settings, count: int) -> Machine:
        _refuse_kick_drift(settings)

        def finish(params, recording):
            found = _curves(layout, params, choices, recording)
            ok = recording.run.status == FINISHED
            curves = {name: jnp.where(ok, value, jnp.nan) for name, value in found.items()}
            return {"outcomes": _outcomes(params, choices, recording.run), "curves": curves}

        return Machine(
            init=lambda params: record.start(_start(layout, parameters, params, choices, settings), count),
            step=lambda params, state: record.advance(_system(layout, params, choices), settings, params, state),
            done=record.done,
            finish=finish,
        )

    return Model(
        name="foot_space" if layout is NINE_SPHERES else f"foot_space:{layout.name}",
        summary=f"the falling foot in space: three bodies, joints as constraints; {len(layout)} {layout.kind}s",
        source=foot.SOURCE,
        parameters=parameters,
        outcomes=outcomes,
        curve_outcomes=(*planar.curve_outcomes, *SIDEWAYS, *DRIFT),
        machine=machine,
        recorder=recorder,
        methods=("compliant",),
        choices={**planar.choices, "knee": ("hinge", "ball")},
    )


def _refuse_kick_drift(settings: Settings) -> None:
    """A quaternion is no position whose rate is a velocity."""
    if settings.stepper == "semi_implicit_euler":
        raise InputError("[solver] stepper = 'semi_implicit_euler' is not for foot_space\nallowed: dopri5, rk4")


def _bodies(params: Params, choices: Mapping[str, str]) -> list[spatial.Body]:
    links = foot.segment_links(params, choices)
    return [spatial.Body(link.mass, (link.inertia, link.inertia, link.inertia)) for link in links]


def _joints(params: Params, choices: Mapping[str, str]) -> list[Joint]:
    """Knee, ankle and the joint of the toes; each turns about y, and is at 0 in a standing leg."""
    length, centre = params["shank.length"], params["shank.centre"]
    half = 0.5 * jnp.asarray(params["lean"])
    lean = jnp.cos(half), jnp.sin(half), jnp.zeros_like(half), jnp.zeros_like(half)  # the axis of a hinge leans too
    knee = "spherical" if choices["knee"] == "ball" else "revolute"
    return [
        Joint(joints.GROUND, SHANK, knee, Frame((0.0, 0.0, params["knee"]), lean), Frame((0.0, 0.0, centre))),
        Joint(
            SHANK,
            FOOT,
            "revolute",
            Frame((0.0, 0.0, centre - length)),
            Frame((params["ankle.x"], 0.0, params["ankle.z"])),
        ),
        Joint(
            FOOT,
            TOES,
            "revolute",
            Frame((params["toe_joint.x"], 0.0, params["toe_joint.z"])),
            Frame((-params["toes.x"], 0.0, -params["toes.z"])),
        ),
    ]


def _contacts(layout: Layout, params: Params, choices, motions, mode=None) -> dict[int, sole.Contacts]:
    """What the ground does to the elements of main foot and toes, by body."""
    found, bit = {}, 0
    for each in foot.soles(layout, params, (FOOT, TOES)):
        moving = motions[each.link]
        elements = each.elements.over(jnp.ndim(moving.position[0]))
        count = elements.x.shape[0]
        body = geometry.Body(moving.position, moving.rotation, moving.velocity, moving.turning)
        is_down = None if mode is None else touchdown.down(mode, bit, count)
        found[each.link] = sole.contact_forces(body, each.kind, elements, params, choices, down=is_down)
        bit += count
    return found


def _system(layout: Layout, params: Params, choices: Mapping[str, str]) -> hybrid.HybridSystem:
    bodies, held = _bodies(params, choices), _joints(params, choices)
    feedback = Baumgarte(params["feedback.velocity"], params["feedback.position"])
    count = touchdown.check_count(len(layout))
    side = _side(params)

    def flow(_params, _t, mode, y):
        motions = spatial.unpack(y[:-_MORE])
        contacts = _contacts(layout, params, choices, motions, mode)
        springs = _springs(params, held, motions, y[-_MORE:-_WORKS])
        loads = [
            spatial.Load(add(weight.force, spring.force), spring.torque)
            for weight, spring in zip(spatial.weights(bodies, params["gravity"]), springs, strict=True)
        ]
        power_n = power_t = 0.0
        for body, each in contacts.items():
            force, moment = sole.sum_and_moment(each, motions[body].position)
            loads[body] = spatial.Load(add(loads[body].force, force), add(loads[body].torque, moment))
            power_n = power_n + jnp.sum(each.F_n * each.touch.v_n, axis=0)
            power_t = power_t + jnp.sum(dot(each.force, each.touch.v_t), axis=0)
        accelerations = spatial.accelerations(bodies, held, motions, loads, feedback)
        power_joint = sum(dot(spring.torque, m.turning) for spring, m in zip(springs, motions, strict=True))
        depths = jnp.concatenate([-each.touch.gap for each in contacts.values()])
        _, ankle_velocity = joints.point_motion(motions[SHANK], held[1].parent_frame.origin)
        ending = side * ankle_velocity[0] - params["v_rest"]
        turning = [joints.joint_angle(*joints.ends(joint, motions))[1] for joint in held[1:]]
        rates = [*spatial.state_rates(motions, accelerations), *turning, power_n, power_t, power_joint]
        return stack(rates), jnp.concatenate([depths, jnp.broadcast_to(ending, depths[:1].shape)])

    def guards(_params, mode, signals):
        return jnp.concatenate([touchdown.guards(mode, signals[:count]), signals[count:]])

    def transition(_params, _t, mode, event, y, _signals):
        return touchdown.flipped(mode, event, count), y, event == count

    boundary = (True,) * count + (False,)
    return hybrid.HybridSystem(flow, guards, transition, boundary, ends_at_max_time=False, smooth_beyond=False)


def _springs(params: Params, held, motions, turns) -> list[spatial.Load]:
    """Springs and dampers of ankle and toes as loads; `turns` are about the angles of both, full turns counted."""
    loads = [spatial.Load() for _ in motions]
    for name, joint, near in zip(("ankle", "toe_joint"), held[1:], turns, strict=True):
        stiffness, damping = params[f"{name}.stiffness"], params[f"{name}.damping"]
        loads = spatial.with_torsion_spring(loads, joint, motions, stiffness, damping, near=near)
    return loads


def _side(params: Params):
    """A leg that starts behind swings forward (+1), one in front back (-1)."""
    return jnp.where(jnp.asarray(params["shank"]) >= 0, 1.0, -1.0)


def _first_motions(params: Params, choices: Mapping[str, str]) -> list[joints.Motion]:
    """The leg at rest in its starting posture; the joints hold exactly."""
    knee, ankle, toes = _joints(params, choices)
    motions = [joints.attached(knee, [], turn_about_y(params["shank"]))]
    motions.append(joints.attached(ankle, motions, turn_about_y(params["foot"] - params["shank"])))
    motions.append(joints.attached(toes, motions))
    return motions


def _start(layout: Layout, parameters, params: Params, choices, settings: Settings) -> hybrid.HybridState:
    status = jnp.where(within_bounds(parameters, params), RUNNING, BAD_VALUE)
    motions = _first_motions(params, choices)
    turns = [params["foot"] - params["shank"], jnp.zeros_like(params["foot"])]
    rows = [*spatial.pack(motions), *turns, *jnp.zeros((_WORKS, *lanes(params, status)))]
    y = stack(rows)
    contacts = _contacts(layout, params, choices, spatial.unpack(y[:-_MORE]))
    mode = touchdown.start_mode(jnp.concatenate([-each.touch.gap for each in contacts.values()]))
    return hybrid.start(_system(layout, params, choices), settings, params, 0.0, mode, y, status)


def _angle(moving: joints.Motion):
    """Angle of a body about y, as seen in the sagittal plane (rad, clockwise)."""
    return jnp.arctan2(moving.rotation[0][2], moving.rotation[2][2])


def _outcomes(params: Params, choices: Mapping[str, str], state: hybrid.HybridState) -> dict[str, jax.Array]:
    bodies, held = _bodies(params, choices), _joints(params, choices)
    motions = spatial.unpack(state.y[:-_MORE])

    def energy(motions):
        potential = spatial.potential_energy(bodies, motions, params["gravity"])
        return spatial.kinetic_energy(bodies, motions) + potential

    works = dict(zip(("W_n", "W_t", "W_joint"), state.y[-_WORKS:], strict=True))
    broken = joints.violation(held, motions)
    numbers = {
        "turning_angle": -_side(params) * _angle(motions[SHANK]),
        "t_end": state.t,
        "foot_angle": _angle(motions[FOOT]),
        **works,
        "energy_error": energy(motions) - energy(_first_motions(params, choices)) - sum(works.values()),
        "drift": broken.position,
        "drift_angle": broken.angle,
    }
    numbers = {name: jnp.where(state.status == FINISHED, value, jnp.nan) for name, value in numbers.items()}
    return numbers | {"status": state.status, "n_steps": state.steps}


def _curves(layout: Layout, params: Params, choices, recording: record.Recording) -> dict[str, jax.Array]:
    motions = spatial.unpack(recording.y[:-_MORE])
    contacts = tuple(_contacts(layout, params, choices, motions, recording.mode).values())
    ground = sole.reaction(contacts)
    broken = joints.violation(_joints(params, choices), motions)
    return {
        "t": recording.t,
        "shank_angle": _angle(motions[SHANK]),
        "foot_angle": _angle(motions[FOOT]),
        "toe_angle": _angle(motions[TOES]),
        "F_n": ground.F_n,
        "F_t": ground.force[0],
        "cop_x": ground.cop[0],
        "down": jnp.sum(jnp.concatenate([each.touch.gap for each in contacts]) < 0, axis=0).astype(recording.t.dtype),
        "F_y": ground.force[1],
        "cop_y": ground.cop[1],
        "T_z": ground.free_moment,
        "drift": broken.position,
        "drift_angle": broken.angle,
    }
