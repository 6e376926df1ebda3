"""What a template asks for is read from its text; what is none is said to be none."""

import random
from collections.abc import Callable

import pytest
from support.work import takes_at_most

from grpo_recipes.user_files.template import (
    _FILTERS,
    TemplateProblem,
    _plain_variables,
    _variables,
    template_variables,
)


def test_the_variables_of_a_template_are_those_from_outside() -> None:
    assert template_variables("no template") == frozenset()
    assert template_variables("{{ question | trim }}{% for part in parts %}{{ part }}{% endfor %}") == {
        "question",
        "parts",
    }


@pytest.mark.parametrize(
    "text",
    [
        "{{ 7 ** (9 ** 9) ~ x }}",
        "{{ ('a' * 10 ** 10) ~ x }}",
        "{{ 'a' | center(10 ** 10) ~ x }}",
        "{% autoescape 7 ** (9 ** 9) %}{{ x }}{% endautoescape %}",
        "{% set long = 7 ** (9 ** 9) %}{{ long * x }}",
        "{% for i in range(7 ** (9 ** 9)) %}{{ i * x }}{% endfor %}",
        "{% if 7 ** (9 ** 9) == x %}{% endif %}",
        "{{ x | replace('a', 'a' * 10 ** 10) }}",
        "{% macro f(a=7 ** (9 ** 9)) %}{{ x }}{% endmacro %}{{ f() }}",
        "{{ x is divisibleby(7 ** (9 ** 9)) }}",
    ],
)
def test_nothing_is_computed_while_a_template_is_read(text: str) -> None:
    with takes_at_most(1):
        assert template_variables(text) == {"x"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ " + "9" * 5000 + " * x }}", "Exceeds the limit"),
        ("{{ question", "line 1: unexpected end of template"),
        ("{% nothing %}", "unknown tag 'nothing'"),
        ("a\n{{ que| stion }}", "line 2: No filter named 'stion'"),
        ("{{ question is stion }}", "No test named 'stion'"),
        ("{{" + "(" * 3000 + "x" + ")" * 3000 + "}}", "nested too deeply"),
        ("{{ " + "not " * 3000 + "x }}", "nested too deeply"),
        ("{{ " + "x" + ".x" * 3000 + " }}", "nested too deeply"),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_template_is_a_problem(text: str, said: str) -> None:
    with pytest.raises(TemplateProblem) as problem:
        template_variables(text)
    assert said in str(problem.value)


PLAIN = [
    "{{ question }}",
    "Q: {{question}} A: {{ answer.split('####')[-1] | trim }}.",
    '{{ a.b["c"][0].d(e, 1) | replace("x", f) | upper }}',
    "{{ x[-2] }}{{ x }}\n{{ y | int }}",
]
LEFT_TO_JINJA = [
    "{{ true }} {{ none }} {{ loop }}",
    "{{- a -}}",
    "{% if a %}{{ b }}{% endif %}",
    "{# {{ a }} #}{{ b }}",
    "{{ a if b else c }}",
    "{{ a ~ b }}",
    "{{ a is none }}",
    "{{ range(3) }}",
    "{{ a | default('x') }}",
    "{{ a | trim | nothing }}",
    "{{ {'a': b} }}",
    "{{ a or b }} {{ not c }}",
    "{{ a[1:2] }}",
    "{{ r'a' }}{{ f'{a}' }}",
    "{{ 1.5 }} {{ a }}",
    "{{ a\n.b }}",
    "{{ {{ a }} }}",
    "{{ }}",
    "{{ a b }}",
    "{{ lambda: 0 }}",
]


def _said(read: Callable[[str], frozenset[str] | None], text: str) -> object:
    try:
        return read(text)
    except TemplateProblem as problem:
        return str(problem)


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_template_is_read_without_jinja_and_as_jinja_reads_it(text: str) -> None:
    assert _plain_variables(text) == _variables(text)


@pytest.mark.parametrize("text", LEFT_TO_JINJA)
def test_what_python_may_read_otherwise_is_read_by_jinja(text: str) -> None:
    assert _plain_variables(text) in (None, _said(_variables, text))
    assert _said(template_variables, text) == _said(_variables, text)


def test_random_templates_are_read_as_jinja_reads_them() -> None:
    draw = random.Random(5)
    pieces = [
        "a",
        "b.c",
        "d[0]",
        "'x'",
        "1",
        "-",
        "|",
        " ",
        "trim",
        "int",
        "(",
        ")",
        "[",
        "]",
        ",",
        ".",
        "not ",
        "is",
        "%",
        "{{",
        "}}",
    ]
    plain = 0
    for _ in range(1500):
        text = "{{ " + "".join(draw.choices(pieces, k=draw.randrange(1, 7))) + " }}"
        found = _plain_variables(text)
        plain += found is not None
        assert found is None or found == _said(_variables, text), text
    assert plain > 100


def test_the_filters_that_are_read_without_jinja_are_jinjas() -> None:
    from jinja2.filters import FILTERS

    assert set(FILTERS) >= _FILTERS
