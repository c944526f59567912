"""What OpenSim and MuJoCo themselves make of fitted spheres: the forces that our text states. Skipped without them."""

import re
from pathlib import Path

import numpy as np
import pytest
from carried import carry_stance, stance, stated

from jaxcontact.study.fit.spheres import spheres_of


def test_mujoco_gives_the_stated_forces():
    mujoco = pytest.importorskip("mujoco", reason="pip install mujoco, to hold forces against it")
    text = carry_stance("mujoco").text
    mujoco.MjModel.from_xml_string(text)
    for sphere in spheres_of(stance()).spheres:
        # One pair alone: the others would press as well.
        alone = re.sub(rf'<pair (?!geom1="floor" geom2="{sphere.name}")[^>]*/>', "", text)
        model = mujoco.MjModel.from_xml_string(alone)
        model.opt.gravity[:] = 0.0
        data = mujoco.MjData(model)
        joint = model.body(sphere.body).jntadr[0]
        q, v, s = model.jnt_qposadr[joint], model.jnt_dofadr[joint], sphere.states
        found = np.zeros((len(s.depth), 2))
        for i, (depth, rate, slip) in enumerate(zip(s.depth, s.rate, s.slip, strict=True)):
            data.qpos[:], data.qvel[:] = model.qpos0, 0.0
            data.qpos[q + 2] = sphere.radius - depth - sphere.place[2]
            data.qvel[v], data.qvel[v + 2] = slip, -rate
            mujoco.mj_forward(model, data)
            if data.ncon:
                force = np.zeros(6)
                mujoco.mj_contactForce(model, data, 0, force)
                found[i] = force[0], np.hypot(force[1], force[2])
        normal, friction = stated(text, sphere.name)
        # The body's turning, and what three digits of the statement leave open.
        assert np.abs(found[:, 0] - s.F_n).max() == pytest.approx(normal, rel=0.01, abs=1e-3 * s.F_n.max())
        assert np.abs(found[:, 1] + s.F_t).max() == pytest.approx(friction, rel=0.02, abs=2e-3 * s.F_n.max())


@pytest.mark.parametrize("kind", ["hunt_crossley", "smooth_sphere"])
def test_opensim_gives_the_stated_forces(kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it begins a log wherever it is imported
    opensim = pytest.importorskip("opensim", reason="pip install opensim, to hold forces against it")
    text = carry_stance(kind).text
    model = opensim.Model()
    for name in ("foot", "toes"):
        body = opensim.Body(name, 1.0, opensim.Vec3(0), opensim.Inertia(1.0))
        model.addBody(body)
        model.addJoint(opensim.FreeJoint(f"joint_{name}", model.getGround(), body))
    model.finalizeConnections()
    path = str(tmp_path / "model.osim")
    model.printToXML(path)
    whole = Path(path).read_text()
    for tag in ("ContactGeometrySet", "ForceSet"):
        ours = re.search(rf"<{tag}.*?</{tag}>", text, re.S).group(0)
        whole = re.sub(rf"<{tag}.*?</{tag}>", "", whole, flags=re.S).replace("</Model>", f"{ours}</Model>")
    Path(path).write_text(whole)
    model = opensim.Model(path)
    model.setGravity(opensim.Vec3(0))
    state = model.initSystem()
    for sphere in spheres_of(stance()).spheres:
        joint, force = model.getJointSet().get(f"joint_{sphere.body}"), model.getForceSet().get(f"{sphere.name}_force")
        labels = force.getRecordLabels()
        names = [labels.get(i) for i in range(labels.size())]
        end = ".Sphere.force.X" if kind == "smooth_sphere" else f".{sphere.body}.force.X"
        first, s = names.index(f"{sphere.name}_force{end}"), sphere.states
        found = np.zeros((len(s.depth), 2))
        for i, (depth, rate, slip) in enumerate(zip(s.depth, s.rate, s.slip, strict=True)):
            for coordinate, value, speed in ((3, 0.0, slip), (4, sphere.radius - depth - sphere.place[2], -rate)):
                joint.get_coordinates(coordinate).setValue(state, float(value), False)
                joint.get_coordinates(coordinate).setSpeedValue(state, float(speed))
            model.realizeDynamics(state)
            values = force.getRecordValues(state)
            found[i] = values.get(first + 1), values.get(first)
        normal, friction = stated(text, sphere.name)
        off = np.abs(np.abs(found[:, 0]) - s.F_n).max()
        assert off == pytest.approx(normal, rel=5e-3, abs=1e-9 * s.F_n.max())
        assert np.abs(np.abs(found[:, 1]) + s.F_t).max() == pytest.approx(friction, rel=5e-3, abs=1e-9)
