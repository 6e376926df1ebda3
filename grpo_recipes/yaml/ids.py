"""The ids of everything that the YAML layer refuses, each with a one-line description, and how a refusal is made."""

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path, path_text
from grpo_recipes.yaml.page import visible_text

MEANINGS: dict[str, str] = {}


def _id(number: int, meaning: str) -> str:
    rule = f"YML{number:03}"
    MEANINGS[rule] = meaning
    return rule


UNREADABLE = _id(1, "the file is missing, is not a regular file, or may not be read")
TOO_LARGE = _id(2, "a recipe file is at most 256 KiB; it is refused before it is parsed")
NOT_TEXT = _id(3, "a recipe is UTF-8 text without control characters")
EMPTY = _id(4, "the file is empty")
NOT_A_MAPPING = _id(5, "the top level of a recipe is a mapping of keys to values")
SYNTAX = _id(6, "the text is not YAML")
DUPLICATE_KEY = _id(7, "a mapping repeats a key; YAML readers silently keep only one value")
KEY_NOT_TEXT = _id(8, "a key is text; numbers, booleans, null, lists and mappings are not keys")
TAG = _id(9, "tags such as !!python/object or !!str are refused; values have their YAML 1.2 types")
MERGE_KEY = _id(10, "the merge key << is refused; maps are merged with extends")
SECOND_DOCUMENT = _id(11, "a recipe is one YAML document")
TOO_DEEP = _id(12, "lists and mappings nest at most 32 levels deep")
TOO_MANY_VALUES = _id(13, "a recipe has at most 20,000 values, with aliases expanded")
ALIAS = _id(14, "an alias stands for an anchor that is complete and written before it")
DIRECTIVE = _id(15, "directives are refused, except %YAML 1.2")
NUMBER_SPELLING = _id(16, "a leading zero, 0o, 0x, 0b and _ make numbers in some YAML readers only; quote a text")
BASE_SIXTY = _id(17, "digits with colons such as 1:30:00 are a base-60 number in YAML 1.1 and text in YAML 1.2")
PYTHON_NONE = _id(18, "None is Python; the empty value of YAML is null")
NUMBER_TOO_LARGE = _id(19, "numbers fit: integers in 64 bits, floats in their range, except .inf; quote a text")
CONTROL_CHARACTER = _id(20, 'a text has an invisible character, or a backslash made one, as in "\\boxed"')
UNQUOTED_TEMPLATE = _id(21, "a jinja2 template that starts with {{ is quoted, or YAML reads a mapping")
EXTENDS_VALUE = _id(22, "extends takes one recipe: the path of a .yaml file, or grpo-recipes:NAME for a shipped one")
EXTENDS_CYCLE = _id(23, "a file extends itself, directly or through others")
EXTENDS_TOO_DEEP = _id(24, "at most 8 files are chained by extends")
OVERRIDE_SYNTAX = _id(25, "an override is written key=value, as in rewards[0].weight=0.5")
OVERRIDE_PLACE = _id(26, "an override names a key that exists or can be added")
EXTEND_NO_LIST = _id(27, "extend adds items to a list that a parent wrote")
NOT_THE_TEXT = _id(
    28, "a # after a space, \\n without double quotes and a TeX command in a pattern are not what they look"
)


def refusal(
    rule: str,
    message: str,
    mark: Mark | None,
    fix: str,
    because: str = "",
    path: Path = (),
    patch: tuple[Patch, ...] = (),
) -> Finding:
    """An error. because: by default, the meaning of the rule."""
    return Finding(rule, "error", message, key_text(path), mark, (because or MEANINGS[rule],), fix, patch)


def key_text(path: Path) -> str:
    """The key of a path for a finding, cut if it is very long."""
    return visible_text(path_text(path), 200)
