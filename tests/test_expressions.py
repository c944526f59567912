"""Expressions: what a person wrote means what it does on paper, on whole arrays, and nothing else can be said."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxcontact.contact.friction import mindlin_stiffness, shear_modulus
from jaxcontact.contact.normal import effective_modulus, hertz_stiffness
from jaxcontact.errors import InputError
from jaxcontact.study.derive import parse_derivations
from jaxcontact.study.expressions import FUNCTIONS, read_condition, read_formula


def value(text, **values):
    return read_formula(text, "[derive] k_n")(values)


# ---------------------------------------------------------------- what it means


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3", 7.0),
        ("-2 ** 2", -4.0),  # a power binds tighter than a sign, as on paper
        ("2 ** 3 ** 2", 512.0),
        ("(1 + 2) / 4 - +1", -0.25),
        ("2 * pi", 2 * math.pi),
        ("sqrt(2) * exp(1) + log(10) - log10(1000)", math.sqrt(2) * math.e + math.log(10) - 3),
        ("sin(pi / 6) + cos(0) + tan(pi / 4)", 2.5),
        ("sin(radians(30)) + degrees(pi)", 180.5),
        ("abs(-3) + min(3, 1, 2) * max(4, 5)", 8.0),
        ("1 +\n   2", 3.0),
    ],
)
def test_arithmetic(text, expected):
    assert value(text) == pytest.approx(expected, rel=1e-14)


def test_the_stiffness_of_a_hertz_contact_in_both_ways():
    modulus, poisson, radius = np.array([1e8, 2e8, 3e9]), 0.3, np.array([0.01, 0.02, 0.05])
    by_hand = 4 / 3 * modulus / (1 - poisson**2) * np.sqrt(radius)
    written = value("4/3 * E / (1 - nu**2) * sqrt(R)", E=modulus, nu=poisson, R=radius)
    # against a body so stiff that it does not give
    by_name = value("hertz_stiffness(effective_modulus(E, nu, 1e300, 0.2), R)", E=modulus, nu=poisson, R=radius)
    np.testing.assert_allclose(written, by_hand, rtol=1e-14)
    np.testing.assert_allclose(by_name, by_hand, rtol=1e-14)


def test_contact_functions_are_the_librarys_and_give_plain_arrays():
    young = np.array([1e8, 2e9])
    found = {
        "effective_modulus(E, 0.5, 30e9, 0.2)": effective_modulus(young, 0.5, 30e9, 0.2),
        "hertz_stiffness(E, 0.05)": hertz_stiffness(young, 0.05),
        "shear_modulus(E, 0.3)": shear_modulus(young, 0.3),
        "mindlin_stiffness(E, 0.5, 1e10, 0.2, 0.05)": mindlin_stiffness(young, 0.5, 1e10, 0.2, 0.05),
    }
    for text, expected in found.items():
        result = value(text, E=young)
        assert type(result) is np.ndarray and result.dtype == np.float64
        np.testing.assert_array_equal(result, expected)


def test_names_may_have_dots_and_are_listed_in_order():
    formula = read_formula("leg.length * a + leg.mass / a - pi", "[derive] x")
    assert formula.names == ("leg.length", "a", "leg.mass")
    assert formula({"leg.length": 2.0, "a": 3.0, "leg.mass": 6.0}) == pytest.approx(8 - math.pi)


def test_spacing_is_no_difference():
    assert read_formula(" a  +\n\tb ", "x") == read_formula("a + b", "x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 / 0", np.inf),
        ("0 / x", np.nan),
        ("sqrt(-1)", np.nan),
        ("(0 - 1) ** 0.5", np.nan),
        ("log(0)", -np.inf),
        ("10 ** 400", np.inf),
        ("hertz_stiffness(1e9, -1)", np.nan),
        ("effective_modulus(0, 0.5, 1e9, 0.2)", 0.0),
        ("max(1, log(-1))", np.nan),
    ],
)
def test_what_is_not_defined_is_a_number_that_the_model_refuses_and_no_exception(text, expected):
    np.testing.assert_equal(value(text, x=0.0), np.asarray(expected))


LEAVES = st.one_of(
    st.sampled_from(["a", "b.c"]).map(lambda name: (name, lambda values: values[name])),
    st.floats(-1e3, 1e3).map(lambda x: (f"({x!r})", lambda values: x)),
)


def _combine(parts):
    def binary(sign, apply):
        return st.tuples(parts, parts).map(
            lambda p: (f"({p[0][0]} {sign} {p[1][0]})", lambda values: apply(p[0][1](values), p[1][1](values)))
        )

    return st.one_of(
        binary("+", lambda x, y: x + y),
        binary("-", lambda x, y: x - y),
        binary("*", lambda x, y: x * y),
        parts.map(lambda p: (f"-{p[0]}", lambda values: -p[1](values))),
        parts.map(lambda p: (f"cos({p[0]})", lambda values: np.cos(p[1](values)))),
        st.tuples(parts, parts).map(
            lambda p: (f"min({p[0][0]}, {p[1][0]})", lambda values: np.minimum(p[0][1](values), p[1][1](values)))
        ),
    )


@given(st.recursive(LEAVES, _combine, max_leaves=12), st.floats(-10, 10))
def test_any_formula_is_what_it_says_and_an_array_is_its_elements(formula, number):
    text, expected = formula
    values = {"a": np.array([number, 1.5, -2.0]), "b.c": np.array([0.25, number, 3.0])}
    read = read_formula(text, "[derive] x")
    found = np.broadcast_to(read(values), 3)
    np.testing.assert_allclose(found, np.broadcast_to(expected(values), 3), rtol=1e-12)
    for i in range(3):
        assert read({name: array[i] for name, array in values.items()}) == found[i]


# ---------------------------------------------------------------- conditions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x < 2", [True, False, False]),
        ("x <= 2", [True, True, False]),
        ("x >= 2", [False, True, True]),
        ("x == 2 or x > 2.5", [False, True, True]),
        ("x != 2 and x < 3", [True, False, False]),
        ("not x < 2", [False, True, True]),
        ("1 < x < 3", [False, True, False]),
        ("3 > x > y", [False, False, False]),
        ("not (x < 2 or x > 2) and y == 2", [False, True, False]),
    ],
)
def test_conditions(text, expected):
    condition = read_condition(text, "[require] conditions")
    assert condition({"x": np.array([1.0, 2.0, 3.0]), "y": 2.0}).tolist() == expected


def test_a_comparison_with_nan_does_not_hold():
    for sign in ("<", "<=", ">", ">=", "=="):
        assert not read_condition(f"x {sign} 1", "[require]")({"x": np.nan})


# ---------------------------------------------------------------- what cannot be said


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("__import__('os').system('ls')", r"'__import__\('os'\)\.system\('ls'\)' cannot stand here"),
        ("open('x')", r"(?s)unknown function 'open'.*allowed: sqrt, exp"),
        ("eval(x)", r"unknown function 'eval'"),
        ("sqr(x)", r"(?s)unknown function 'sqr' in \[derive\] k_n.*Did you mean 'sqrt'"),
        ("np.sqrt(x)", r"unknown function 'np.sqrt'"),
        ("(1).real", r"'1 \.real' cannot stand here"),
        ("x[0]", r"'x\[0\]' cannot stand here"),
        ("[1, 2]", r"'\[1, 2\]' cannot stand here"),
        ("'text'", r"cannot stand here"),
        ("2j", r"'2j' cannot stand here"),
        ("True", r"'True' cannot stand here"),
        ("lambda: 1", r"'lambda: 1' cannot stand here"),
        ("1 if x else 2", r"cannot stand here"),
        ("1if x else 2", r"cannot stand here"),
        ("[y for y in x]", r"cannot stand here"),
        ("(y := 3)", r"cannot stand here"),
        ("f'{x}'", r"cannot stand here"),
        ("x // 2", r"'x // 2' cannot stand here"),
        ("x % 2", r"'x % 2' cannot stand here"),
        ("~x", r"'~x' cannot stand here"),
        ("x ^ 2", r"(?s)'x \^ 2' cannot stand here; a power is written \*\*.*allowed: numbers"),
        ("x < 2", r"'x < 2' cannot stand here; a condition belongs in \[require\]"),
        ("1 + (x and y)", r"'x and y' cannot stand here; a condition"),
        ("not x", r"'not x' cannot stand here; a condition"),
        ("sqrt + 1", r"sqrt is a function: write sqrt\(\.\.\.\)"),
        ("sqrt(1, 2)", r"sqrt takes 1 number, not 2"),
        ("hertz_stiffness(1)", r"hertz_stiffness takes 2 numbers, not 1"),
        ("min(1)", r"min takes two or more numbers, not 1"),
        ("hertz_stiffness(modulus=1, radius=2)", r"takes plain numbers, in order"),
        ("max(*x)", r"takes plain numbers, in order"),
        ("1 +", r"'1 \+' cannot be read: invalid syntax"),
        ("a = 3", r"'a = 3' cannot be read"),
        ("1; 2", r"cannot be read"),
        ("", r"k_n = '': an expression in quotes is needed"),
        (3, r"k_n = 3: an expression in quotes is needed"),
        (None, r"k_n = None: an expression"),
        ("1" + "0" * 400, r"beyond 1e308"),
        ("1e999", r"beyond 1e308"),
        ("1\0", r"cannot be read"),
        ("+".join("1" * 500), r"nested more than 100 deep"),
        ("-" * 500 + "1", r"nested more than 100 deep"),
        ("(" * 5000 + "1" + ")" * 5000, r"cannot be read"),
        ("-" * 100_000 + "1", r"cannot be read"),
    ],
)
def test_anything_else_is_refused_by_name(text, pattern):
    with pytest.raises(InputError, match=pattern) as caught:
        read_formula(text, "[derive] k_n")
    assert str(caught.value).startswith(("[derive] k_n", "unknown function"))


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("x", r"(?s)'x' is not a condition.*allowed: comparisons"),
        ("x < 2 and y", r"'y' is not a condition"),
        ("x in y", r"'x in y' is not a condition"),
        ("x is y", r"'x is y' is not a condition"),
        ("True", r"'True' is not a condition"),
        ("(x < 1) < 2", r"'x < 1' cannot stand here"),
        ("x = 2", r"(?s)'x = 2' cannot be read.*allowed: comparisons.*=="),
    ],
)
def test_what_is_not_a_condition_is_refused(text, pattern):
    with pytest.raises(InputError, match=pattern):
        read_condition(text, "[require] conditions")


@given(st.text(max_size=30))
def test_any_text_is_an_expression_or_an_input_error(text):
    for read in (read_formula, read_condition):
        try:
            read(text, "[derive] x")
        except InputError:
            pass


def test_every_function_is_listed_when_one_is_refused():
    with pytest.raises(InputError) as caught:
        read_formula("x[0]", "[derive] k_n")
    assert all(name in str(caught.value) for name in (*FUNCTIONS, "pi", "**"))


# ---------------------------------------------------------------- [derive] and [require] together


def test_derived_names_are_put_in_order_and_free_names_found():
    found = parse_derivations(
        ["k_n", "k_t", "R", "leg.length"],
        {"k_n": "hertz_stiffness(E_star, R)", "k_t": "k_n * ratio", "E_star": "E / (1 - nu**2)"},
        {"conditions": ["R < leg.length", "margin > 0"]},
    )
    assert list(found.derived) == ["E_star", "k_n", "k_t"]
    assert [condition.text for condition in found.requirements] == ["R < leg.length", "margin > 0"]
    assert found.free == {
        "ratio": "[derive] k_t",
        "E": "[derive] E_star",
        "nu": "[derive] E_star",
        "margin": "[require] conditions",
    }


def test_names_that_toml_took_apart_are_joined():
    found = parse_derivations(["leg.mass", "leg.length"], {"leg": {"mass": "3 * leg.length"}}, None)
    assert list(found.derived) == ["leg.mass"]


@pytest.mark.parametrize(
    ("derive", "require", "pattern"),
    [
        ({"k_n": "2 * k_n"}, None, r"k_n needs k_n: nothing can be derived from itself"),
        ({"k_n": "k_t", "k_t": "a", "a": "k_n"}, None, r"k_n needs k_t needs a needs k_n"),
        ({"k_nn": "3 * R"}, None, r"(?s)unknown parameter 'k_nn' in \[derive\].*'k_n'"),
        ({"P_n": "3 * R", "k_n": "P_n"}, None, r"P_n is the name of a result"),
        ({"k_n": "3 * P_n"}, None, r"\[derive\] k_n: P_n is the name of a result"),
        ({"k_n": 3}, None, r"\[derive\] k_n = 3: an expression in quotes"),
        (None, {"condition": ["R < 1"]}, r"(?s)unknown key 'condition' in \[require\].*'conditions'"),
        (None, {"conditions": "R < 1"}, r"\[require\] conditions = 'R < 1': a list"),
        (None, {"conditions": [3]}, r"\[require\] conditions = 3: an expression in quotes"),
        (None, {"conditions": ["R"]}, r"'R' is not a condition"),
        ([1], None, r"\[derive\]: a table is needed"),
    ],
)
def test_mistakes_in_derive_and_require_are_named(derive, require, pattern):
    with pytest.raises(InputError, match=pattern):
        parse_derivations(["k_n", "k_t", "R"], derive, require, taken=["P_n"])
