"""A recipe holds no token, key or password.

Recipes are shared: in a repository, with another team, in plan.json and in the card of the trained model. Text that
looks like a token (hf_..., sk-..., ghp_..., AKIA..., a password in an address) is refused in any key. Put logins into
the shell that starts grpo-run, or into the file that the service's own login command writes. An option of a reward, or
a value of an environment's config, with a name like api_key or password only gets a warning, since it may be harmless,
such as a word to guess.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, path_text
from grpo_recipes.contract.secrets.redact import has_secret
from grpo_recipes.rules._shared.context import Context, finding_at
from grpo_recipes.yaml.compose import Source, once_for_a_source

ID = "TRU002"
_NAMED = r"(?i)(.*[_-])?((api|secret|access|private)[_-]?key|(api|access|auth|bearer|hf)[_-]?token|passw(or)?d|secret)"
_VALUE = r"(?=.*\d)(?=.*[A-Za-z])[^\s./~$<{\[][^\s<>]{7,}"


def check(context: Context) -> Iterator[Finding]:
    for path in _places(context.source):
        message = f"{path_text(path) or 'a key'} looks like a token or a password"
        because = ["recipes are shared, and anyone who gets the recipe has the secret"]
        fix = "remove it, revoke it, and set a new one in the shell that starts grpo-run"
        patch = [Patch(path, remove=True)]
        yield finding_at(context.source, ID, path, message, because=because, fix=fix, patch=patch)
    for path in _paths_named_like_secrets(context.source):
        message = f"{path_text(path)} has the name of a secret"
        because = ["plan.json, checkpoints and the model card repeat the recipe"]
        variable = str(path[-1]).upper().replace("-", "_")
        fix = f"remove it, and read an environment variable in your code: os.environ[{variable!r}]"
        yield finding_at(context.source, ID, path, message, because=because, fix=fix, severity="warning")


def _paths_named_like_secrets(source: Source) -> Iterator[Path]:
    """Paths of options, and of values of an environment's config, that are named like a secret."""
    rewards, environment = source.values.get("rewards"), source.values.get("environment")
    for index, reward in enumerate(rewards if isinstance(rewards, list) else []):
        yield from _paths_below(
            ("rewards", index, "options"), reward.get("options") if isinstance(reward, dict) else None
        )
    if isinstance(environment, dict):
        yield from _paths_below(("environment", "config"), environment.get("config"))
    several = source.values.get("environments")
    for index, own in enumerate(several if isinstance(several, list) else []):
        yield from _paths_below(("environments", index, "config"), own.get("config") if isinstance(own, dict) else None)


def _paths_below(path: Path, given: object) -> Iterator[Path]:
    for key, value in given.items() if isinstance(given, dict) else ():
        if re.fullmatch(_NAMED, str(key)) and re.fullmatch(_VALUE, str(value)) and not has_secret(str(value)):
            yield (*path, key)


@once_for_a_source
def _places(source: Source) -> tuple[Path, ...]:
    return tuple(_secrets(source.values, ()))


def _secrets(value: object, path: Path) -> Iterator[Path]:
    """Paths of secret texts; if a key is secret, the path of its mapping."""
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
