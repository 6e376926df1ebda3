"""What a jinja2 template asks for, read from its syntax tree and never rendered."""

import functools


class TemplateProblem(Exception):
    """The template cannot be parsed; the text says where and why."""


@functools.cache
def template_variables(text: str) -> frozenset[str]:
    """The variables that a template needs from outside. Raises TemplateProblem.

    jinja2 is imported here, so that a recipe without templates does not pay for it.
    """
    if "{" not in text:
        return frozenset()
    from jinja2 import TemplateSyntaxError, meta
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    try:
        tree = ImmutableSandboxedEnvironment().parse(text)
    except TemplateSyntaxError as error:
        raise TemplateProblem(f"line {error.lineno}: {error.message}") from None
    except RecursionError:
        raise TemplateProblem("it is nested too deeply") from None
    return frozenset(meta.find_undeclared_variables(tree))
