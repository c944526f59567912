"""Impact as algebra: the paper's matrix formulas, written out, referee the two-phase solution on random systems."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.contact import impulse

N_CASES = 400


def random_cases():
    """Random mass matrices (6 x 6), Jacobians (2 x 6), velocities towards the ground, friction."""
    rng = np.random.default_rng(7)
    for i in range(N_CASES):
        root = rng.normal(size=(6, 6))
        mass, jacobian = root @ root.T + 0.3 * np.eye(6), rng.normal(size=(2, 6))
        velocity = rng.normal(size=6)
        if jacobian[0] @ velocity > 0:
            velocity = -velocity
        if i % 4 == 0:  # no slip before impact
            velocity -= np.linalg.pinv(jacobian) @ np.array([0.0, jacobian[1] @ velocity])
        yield np.linalg.inv(mass), jacobian, velocity, rng.uniform(0.05, 2.5), mass


def solve(inverse, jacobian, velocity, mu):
    response = impulse.point_response(inverse, jacobian)
    v_n, v_t = jacobian @ velocity
    v_t = jnp.where(jnp.abs(v_t) < 1e-12, 0.0, v_t)
    phases = impulse.solve_impact(response, v_n, v_t, mu)
    return response, v_n, v_t, phases, impulse.evolve(response, v_n, v_t, phases, phases.total)


@pytest.fixture(scope="module")
def solved():
    cases = list(random_cases())
    answers = jax.jit(jax.vmap(solve))(*(np.stack(x) for x in list(zip(*cases, strict=True))[:4]))
    return [(*case, *jax.tree.map(lambda x, i=i: float(x[i]), answers)) for i, case in enumerate(cases)]


def test_every_regime_occurs_and_jamming_too(solved):
    regimes = {int(r[8].regime) for r in solved}
    assert regimes == set(range(1, 6))
    jams = [r for r in solved if r[7] != 0 and r[5].nn - r[3] * np.sign(r[7]) * r[5].nt <= 0]
    assert len(jams) >= 5
    for *_, phases, _after in jams:
        assert phases.regime in (impulse.SLIDING_STICKING, impulse.SLIDING_REVERSAL)


def test_impact_ends_with_no_normal_velocity_and_a_pushing_impulse(solved):
    for *_, phases, after in solved:
        assert phases.total > 0
        assert abs(after.v_n) < 1e-9 * (1 + abs(after.P_n))


def test_energy_balance_to_rounding(solved):
    # Crutch eq. 39, with the kinetic energy from the full velocity vector.
    for inverse, jacobian, velocity, _, mass, *_, after in solved:
        post = velocity + inverse @ jacobian.T @ np.array([after.P_n, after.P_t])
        change = 0.5 * post @ mass @ post - 0.5 * velocity @ mass @ velocity
        scale = 0.5 * velocity @ mass @ velocity + abs(after.W_n) + abs(after.W_t)
        assert abs(after.W_n + after.W_t - change) < 1e-11 * scale
        assert after.W_t <= 1e-12 * scale  # friction never gives energy
        np.testing.assert_allclose(jacobian @ post, [after.v_n, after.v_t], atol=1e-8 * (1 + abs(after.P_n)))


def test_impulse_stays_in_the_friction_cone(solved):
    for _, _, _, mu, *_, after in solved:
        assert abs(after.P_t) <= mu * after.P_n * (1 + 1e-12)


def test_sticking_ends_are_equations_10_11_14_18(solved):
    for inverse, A, velocity, _, _, response, _, v_t, phases, after in solved:
        if phases.regime not in (impulse.PERMANENT_STICKING, impulse.SLIDING_STICKING):
            continue
        P = -np.linalg.solve(A @ inverse @ A.T, A @ velocity)  # (10)
        np.testing.assert_allclose([after.P_n, after.P_t], P, rtol=1e-8)
        post = velocity + inverse @ A.T @ P
        np.testing.assert_allclose(impulse.admissible_projector(inverse, A) @ velocity, post, atol=1e-9)  # (11), (14)
        if v_t == 0:  # (18)
            loss = -0.5 * (response.nn - response.nt**2 / response.tt) * after.P_n**2
            assert after.W_n == pytest.approx(loss, rel=1e-9)
            assert abs(after.W_t) < 1e-12 * abs(loss)


def test_permanent_sliding_is_equations_22_to_25(solved):
    for inverse, A, velocity, mu, _, response, _, v_t, phases, after in solved:
        if phases.regime not in (impulse.PERMANENT_SLIDING, impulse.IMMEDIATE_SLIDING):
            continue
        sigma = np.sign(v_t) if v_t else np.sign(response.nt)
        push = inverse @ (A[0] - mu * sigma * A[1])
        P_n = -(A[0] @ velocity) / (A[0] @ push)  # (22)
        assert after.P_n == pytest.approx(P_n, rel=1e-9)
        assert after.P_t == pytest.approx(-mu * sigma * P_n, rel=1e-9)
        assert after.W_n == pytest.approx(-0.5 * (A[0] @ push) * P_n**2, rel=1e-8)  # (24)
        W_t = -mu * (A[1] @ velocity) * sigma * P_n - 0.5 * mu * (A[1] @ push) * sigma * P_n**2  # (25)
        assert after.W_t == pytest.approx(W_t, rel=1e-7, abs=1e-10)


def test_reversal_is_equations_28_to_32(solved):
    for inverse, A, velocity, mu, _, _, _, v_t, phases, after in solved:
        if phases.regime != impulse.SLIDING_REVERSAL:
            continue
        sigma = np.sign(v_t)
        fore, back = inverse @ (A[0] - mu * sigma * A[1]), inverse @ (A[0] + mu * sigma * A[1])
        first = -(A[1] @ velocity) / (A[1] @ fore)  # (28)
        second = -(A[0] - (A[0] @ fore) / (A[1] @ fore) * A[1]) @ velocity / (A[0] @ back)  # (29)
        assert phases.first == pytest.approx(first, rel=1e-9)
        assert after.P_n == pytest.approx(first + second, rel=1e-9)
        between = velocity + fore * first
        W_n = A[0] @ (velocity * first + between * second) + 0.5 * A[0] @ (fore * first**2 + back * second**2)  # (31)
        W_t = -mu * (A[1] @ velocity) * sigma * first  # (32)
        W_t -= 0.5 * mu * sigma * A[1] @ (fore * first**2 - back * second**2)
        assert after.W_n == pytest.approx(W_n, rel=1e-8)
        assert after.W_t == pytest.approx(W_t, rel=1e-7)


def test_evolution_is_what_small_impulses_add_up_to(solved):
    # The paper's integrative method, done with small steps and Coulomb's rule at each.
    chosen = {}
    for case in solved:
        chosen.setdefault(int(case[8].regime), case)
    for _, _, _, mu, _, response, v_n0, v_t0, phases, _ in chosen.values():
        steps = 20_000
        dP = phases.total / steps
        v_n, v_t, P_t, W_n, W_t = v_n0, v_t0, 0.0, 0.0, 0.0
        for i in range(steps):
            holding = -response.nt / response.tt * dP - v_t / response.tt  # stops the slip within this step
            dP_t = np.clip(holding, -mu * dP, mu * dP)
            new_n, new_t = v_n + response.nn * dP + response.nt * dP_t, v_t + response.nt * dP + response.tt * dP_t
            W_n, W_t = W_n + 0.5 * (v_n + new_n) * dP, W_t + 0.5 * (v_t + new_t) * dP_t
            v_n, v_t, P_t = new_n, new_t, P_t + dP_t
            if i in (steps // 4, steps // 2, steps - 1):
                exact = impulse.evolve(response, v_n0, v_t0, phases, (i + 1) * dP)
                scale = np.array([1, 1, phases.total, abs(v_n0) * phases.total, abs(v_n0) * phases.total])
                got = np.array([v_n, v_t, P_t, W_n, W_t])
                expected = np.array([exact.v_n, exact.v_t, exact.P_t, exact.W_n, exact.W_t])
                assert np.all(np.abs(got - expected) < 2e-3 * scale)


def test_projectors_split_motion():
    inverse, A, velocity, _, mass = next(iter(random_cases()))
    constrained, admissible = impulse.constrained_projector(inverse, A), impulse.admissible_projector(inverse, A)
    np.testing.assert_allclose(constrained @ constrained, constrained, atol=1e-10)
    np.testing.assert_allclose(constrained @ admissible, 0, atol=1e-10)
    np.testing.assert_allclose(A @ admissible, 0, atol=1e-10)
    # The parts are orthogonal in the kinetic metric, so their energies add up.
    assert abs((constrained @ velocity) @ mass @ (admissible @ velocity)) < 1e-9


def test_derivatives_are_finite_in_a_batch_of_all_regimes_and_agree_with_differences(solved):
    batch = [jnp.asarray(x) for x in zip(*[(*r[5], r[6], r[7], r[3]) for r in solved], strict=True)]

    def outcomes(nn, nt, tt, v_n, v_t, mu):
        response = impulse.PointResponse(nn, nt, tt)
        phases = impulse.solve_impact(response, v_n, v_t, mu)
        after = impulse.evolve(response, v_n, v_t, phases, phases.total)
        return jnp.stack([after.P_n, after.P_t, after.W_n, after.W_t]), phases.regime

    slips = np.asarray(jnp.abs(batch[4]) > 1e-9)
    for i in range(6):
        tangent = [jnp.zeros_like(x) if j != i else jnp.ones_like(x) for j, x in enumerate(batch)]
        slope = jax.jvp(lambda *a: outcomes(*a)[0], tuple(batch), tuple(tangent))[1]
        assert np.all(np.isfinite(slope))
        step = 1e-6 * np.maximum(np.abs(batch[i]), 1e-2)
        up, regime_up = outcomes(*[x + (step if j == i else 0) for j, x in enumerate(batch)])
        down, regime_down = outcomes(*[x - (step if j == i else 0) for j, x in enumerate(batch)])
        # At zero slip the outcome has a kink in v_t: only one-sided derivatives exist there.
        smooth = np.asarray(regime_up == regime_down) & (slips | (i != 4))
        assert smooth.sum() > 0.7 * N_CASES
        difference = (up - down) / (2 * step)
        scale = np.abs(difference) + 1e-3 * np.max(np.abs(difference), axis=0) + 1e-4
        assert np.max((np.abs(slope - difference) / scale)[:, smooth]) < 1e-5
