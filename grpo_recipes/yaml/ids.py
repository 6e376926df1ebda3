"""The ids of everything that the YAML layer refuses, each with a one-line description."""

UNREADABLE = "YML001"
TOO_LARGE = "YML002"
NOT_TEXT = "YML003"
EMPTY = "YML004"
NOT_A_MAPPING = "YML005"
SYNTAX = "YML006"
DUPLICATE_KEY = "YML007"
KEY_NOT_TEXT = "YML008"
TAG = "YML009"
MERGE_KEY = "YML010"
SECOND_DOCUMENT = "YML011"
TOO_DEEP = "YML012"
TOO_MANY_VALUES = "YML013"
ALIAS = "YML014"
DIRECTIVE = "YML015"
NUMBER_SPELLING = "YML016"
BASE_SIXTY = "YML017"
PYTHON_NONE = "YML018"
NUMBER_TOO_LARGE = "YML019"
CONTROL_CHARACTER = "YML020"
UNQUOTED_TEMPLATE = "YML021"
EXTENDS_VALUE = "YML022"
EXTENDS_CYCLE = "YML023"
EXTENDS_TOO_DEEP = "YML024"
OVERRIDE_SYNTAX = "YML025"
OVERRIDE_PLACE = "YML026"
EXTEND_NO_LIST = "YML027"

MEANINGS: dict[str, str] = {
    UNREADABLE: "the file is missing, is not a regular file, or may not be read",
    TOO_LARGE: "a recipe file is at most 256 KiB; it is refused before it is parsed",
    NOT_TEXT: "a recipe is UTF-8 text without control characters",
    EMPTY: "the file is empty",
    NOT_A_MAPPING: "the top level of a recipe is a mapping of keys to values",
    SYNTAX: "the text is not YAML",
    DUPLICATE_KEY: "a mapping repeats a key; YAML readers silently keep only one value",
    KEY_NOT_TEXT: "a key is text; numbers, booleans, null, lists and mappings are not keys",
    TAG: "tags such as !!python/object or !!str are refused; values have their YAML 1.2 types",
    MERGE_KEY: "the merge key << is refused; maps are merged with extends",
    SECOND_DOCUMENT: "a recipe is one YAML document",
    TOO_DEEP: "lists and mappings nest at most 32 levels deep",
    TOO_MANY_VALUES: "a recipe has at most 20,000 values, with aliases expanded",
    ALIAS: "an alias stands for an anchor that is complete and written before it",
    DIRECTIVE: "directives are refused, except %YAML 1.2",
    NUMBER_SPELLING: "leading zeros, 0o, 0x, 0b and digits with _ are numbers to some YAML readers only",
    BASE_SIXTY: "digits with colons such as 1:30:00 are a base-60 number in YAML 1.1 and text in YAML 1.2",
    PYTHON_NONE: "None is Python; the empty value of YAML is null",
    NUMBER_TOO_LARGE: "numbers fit: integers in 64 bits, floats in their range, unless written .inf",
    CONTROL_CHARACTER: 'a text has an invisible character, or a backslash made one, as in "\\boxed"',
    UNQUOTED_TEMPLATE: "a jinja2 template that starts with {{ is quoted, or YAML reads a mapping",
    EXTENDS_VALUE: "extends takes one recipe: the path of a .yaml file, or grpo-recipes:NAME for a shipped one",
    EXTENDS_CYCLE: "a file extends itself, directly or through others",
    EXTENDS_TOO_DEEP: "at most 8 files are chained by extends",
    OVERRIDE_SYNTAX: "an override is written key=value, as in rewards[0].weight=0.5",
    OVERRIDE_PLACE: "an override names a key that exists or can be added",
    EXTEND_NO_LIST: "extend adds items to a list that a parent wrote",
}
