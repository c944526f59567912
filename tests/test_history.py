"""The history of a run: what is counted, and that a checksum tells sequences of events apart."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest

from jaxcontact.contact.friction import SLIDE_BACK, SLIDE_FORWARD, STICK
from jaxcontact.integrate.history import hybrid_state, with_history
from jaxcontact.integrate.hybrid import HybridState
from jaxcontact.integrate.machine import FINISHED, RUNNING, Machine, simulate_steps
from jaxcontact.study.certificates.happenings import MEANINGS


def told(sequences, landings=None) -> Machine:
    """A machine whose lanes go through modes that are written down: (step, lanes), the first being the start.

    `landings` says which steps land on an event; others only move on. A lane is done after its last step.
    """
    sequences = jnp.asarray(sequences, jnp.int32)
    landings = jnp.ones(sequences.shape, bool) if landings is None else jnp.asarray(landings, bool)
    zero = jnp.zeros(sequences.shape[1:])

    def at(step):
        status = jnp.where(step == len(sequences) - 1, FINISHED, RUNNING) + 0 * sequences[0]
        rest = {name: zero for name in HybridState._fields}
        steps = jnp.full(sequences.shape[1:], step, jnp.int32)
        return HybridState(
            **rest | {"mode": sequences[step], "landing": landings[step], "steps": steps, "status": status}
        )

    def step(_params, state):
        inner = state["run"]
        return {"run": at(jnp.minimum(inner.steps[0] + 1, len(sequences) - 1))}

    return Machine(
        init=lambda _params: {"run": at(0)},  # inside a larger state, as recorders have it
        step=step,
        done=lambda state: state["run"].status != RUNNING,
        finish=lambda _params, state: {"steps": state["run"].steps},
    )


def ran(sequences, landings=None, kinds=None) -> dict[str, np.ndarray]:
    machine = with_history(told(sequences, landings), kinds)
    return {name: np.asarray(value) for name, value in simulate_steps(machine, {}, len(sequences)).items()}


def test_only_landings_count_and_a_lane_that_is_done_counts_no_more():
    found = ran([[0, 0], [1, 1], [1, 1], [0, 0]], landings=[[True, False], [False, False], [True, False], [True, True]])
    assert found["events"].tolist() == [2, 0]  # the last one would be a landing after the end
    assert found["steps"].tolist() == [3, 3]  # what the machine itself tells is kept


def test_every_sequence_of_modes_has_a_checksum_of_its_own():
    sequences = np.array(list(product([-1, 0, 1, 2, 5], repeat=4))).T
    assert len(set(ran(sequences)["history"].tolist())) == sequences.shape[1]


def test_an_event_more_is_another_history_also_where_the_mode_stays():
    with_peak = ran([[1, 1], [1, 1], [1, 1]], landings=[[True, True], [True, False], [True, True]])
    assert with_peak["events"].tolist() == [2, 1]
    assert with_peak["history"][0] != with_peak["history"][1]


def test_touch_downs_and_lift_offs_are_bits_that_come_and_go():
    found = ran([[0b000], [0b010], [0b110], [0b100], [0b100]], kinds=MEANINGS["elements"])
    assert (found["touch-downs"].item(), found["lift-offs"].item(), found["events"].item()) == (2, 1, 4)


@pytest.mark.parametrize(
    ("modes", "sticks", "lets_go", "turns"),
    [
        ([SLIDE_FORWARD, STICK, STICK], 1, 0, 0),
        ([SLIDE_FORWARD, SLIDE_BACK, SLIDE_BACK], 0, 0, 1),
        ([STICK, SLIDE_BACK, STICK, SLIDE_FORWARD], 1, 2, 0),
        ([SLIDE_BACK, SLIDE_BACK, SLIDE_BACK], 0, 0, 0),
    ],
)
def test_slip_that_stops_begins_and_turns_back(modes, sticks, lets_go, turns):
    found = ran(np.array(modes)[:, None], kinds=MEANINGS["slip"])
    counts = [found[name].item() for name in MEANINGS["slip"]]
    assert counts == [sticks, lets_go, turns]


def test_a_machine_that_integrates_nothing_has_no_events():
    plain = Machine(
        lambda _: jnp.full(3, FINISHED), lambda _, state: state, lambda state: state != RUNNING, lambda _, s: {"x": s}
    )
    found = simulate_steps(with_history(plain, MEANINGS["slip"]), {}, 2)
    assert hybrid_state(jnp.zeros(3)) is None
    assert found["events"].tolist() == [0, 0, 0] and len(set(found["history"].tolist())) == 1
    assert all(not found[name].any() for name in MEANINGS["slip"])
