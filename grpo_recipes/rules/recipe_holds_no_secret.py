"""A recipe holds no token, key or password.

It travels: to a repository, to another team, into plan.json and the card of the trained model. What has the form of a
token (hf_..., sk-..., ghp_..., AKIA..., a password in an address) is refused wherever it stands. Logins belong into the
shell that starts grpo-run, or into the file that the service's own login command writes.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, dotted
from grpo_recipes.contract.secrets.redact import has_secret
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.yaml.compose import Source, once_for_a_source

ID = "TRU002"


def check(context: Context) -> Iterator[Finding]:
    for path in _places(context.source):
        yield Finding(
            rule=ID,
            severity="error",
            message=f"{dotted(path) or 'a key'} has the form of a token or a password",
            key=dotted(path),
            mark=context.source.mark(path),
            because=("a recipe travels, and everybody who gets it would have it",),
            fix="take it out, make a new one, and set that in the shell that starts grpo-run",
            patch=(Patch(path, remove=True),),
        )


@once_for_a_source
def _places(source: Source) -> tuple[Path, ...]:
    return tuple(_secrets(source.values, ()))


def _secrets(value: object, path: Path) -> Iterator[Path]:
    """The places of secret texts; of a key that is one, the mapping that it stands in."""
    if isinstance(value, str) and has_secret(value):
        yield path
    elif isinstance(value, dict):
        if any(has_secret(str(key)) for key in value):
            yield path
            return
        for key, item in value.items():
            yield from _secrets(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _secrets(item, (*path, index))
