"""Numbers that the studies of the crutch paper share (Font-Llagunes et al. 2012, section 5)."""

from jaxcontact.models.impact_model import NOMINAL_CHI, NOMINAL_K_N

MU = [0.5, 0.75, 1.0]
DQ5 = [-0.2, 0.0, 0.2, 0.4]  # rad/s

# Section 5.5: the reference case with another stiffness, or another damping.
REFERENCE = {"mu": 0.75, "dq5": -0.2, "q3": 12.0}
K_N = {"k_n/3": 1 / 3, "k_n/2": 1 / 2, "k_n": 1.0, "2 k_n": 2.0, "3 k_n": 3.0}
CHI = {"chi/5": 1 / 5, "chi/2": 1 / 2, "chi": 1.0, "2 chi": 2.0, "5 chi": 5.0}

# The nine pairs of Table 3, in its order.
PAIRS = [
    ("k_n", "chi"),
    *((k_n, "chi") for k_n in K_N if k_n != "k_n"),
    *(("k_n", chi) for chi in CHI if chi != "chi"),
]
PAIR_CASES = {
    "k_n": [K_N[k_n] * NOMINAL_K_N for k_n, _ in PAIRS],  # N/m^1.5
    "chi": [CHI[chi] * NOMINAL_CHI for _, chi in PAIRS],  # N s/m^2.5
}
