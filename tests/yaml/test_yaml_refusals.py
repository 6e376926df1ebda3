"""Texts that are refused: each has one finding, at its place, under both of PyYAML's parsers."""

import pytest
import yaml
from support.work import takes_at_most

from grpo_recipes.yaml import ids, nodes
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.merge import read_override

PARSERS = {"libyaml": nodes.LOADER, "pure": yaml.SafeLoader}

SILENT = {
    "curly quotes inside a text": "a: the \u201cb\u201d of c\nd: \u201cb\u201d and \u201cc\u201d\n",
    "curly quotes in straight ones": 'a: "\u201cb\u201d"\nb: \u2019tis\n\u201cc\u201d: 1\n',
    "comment": "# head\na: 1  # tail\n",
    "one document with its mark": "---\na: 1\n",
    "yaml 1.2 directive": "%YAML 1.2\n---\na: 1\n",
    "byte order mark": "\ufeffa: 1\n",
    "carriage returns": "a: 1\r\nb: 2\r\n",
    "alias": "a: &a [1, 2]\nb: *a\n",
    "32 levels": "a: " + "[" * 31 + "]" * 31,
    "the same key in two maps": "a: {x: 1}\nb: {x: 1}\n",
    "quoted number as key": '"1": a\n',
    "quoted merge key": '"<<": a\n',
    "quoted template": 'a: "{{ question }}"\n',
    "template after text": "a: Q {{ question }}\n",
    "emoji": "a: \U0001f600 é\n",
    "hash in a word": "a: foo#bar\n",
    "60 KiB in one scalar": f"a: {'x' * 70_000}\n",
    "empty map": "{}",
}

# name -> text, rule, line, column, words of the message or the fix
REFUSED: dict[str, tuple[str, str, int, int, str]] = {
    "empty": ("", ids.EMPTY, 1, 1, "empty"),
    "only comments": ("# a\n# b\n", ids.EMPTY, 1, 1, "empty"),
    "only a document mark": ("---\n", ids.EMPTY, 1, 1, "empty"),
    "null at the top": ("null\n", ids.EMPTY, 1, 1, "empty"),
    "list at the top": ("- a\n- b\n", ids.NOT_A_MAPPING, 1, 1, "the file is a list"),
    "missing space": ("beta:0.04\n", ids.NOT_A_MAPPING, 1, 1, "beta: 0.04"),
    "missing spaces": ("beta:0.04\nlr:1e-5\n", ids.NOT_A_MAPPING, 1, 1, "beta: 0.04"),
    "missing space before a key": ("g:\n  beta:0.04\n  n: 8\n", ids.SYNTAX, 2, 3, "beta: 0.04"),
    "missing space after a key": ("g:\n  n: 8\n  beta:0.04\nb: 1\n", ids.SYNTAX, 3, 3, "beta: 0.04"),
    "missing space before a gap": ("g:\n  beta:0.04\n\n  n: 8\n", ids.SYNTAX, 2, 3, "beta: 0.04"),
    "duplicate key": ("beta: 0.0\nx: 1\nbeta: 0.04\n", ids.DUPLICATE_KEY, 3, 1, "twice, on lines 1, 3"),
    "duplicate key in flow": ("a: {b: 1, b: 2}", ids.DUPLICATE_KEY, 1, 11, "twice, on lines 1, 1"),
    "duplicate key three times": ("a: 1\na: 2\na: 3", ids.DUPLICATE_KEY, 3, 1, "lines 1, 2, 3"),
    "number as key": ("a:\n  1: x\n", ids.KEY_NOT_TEXT, 2, 3, '"1":'),
    "decimal comma in braces": ("a: {b: 0,04, c: x}\n", ids.KEY_NOT_TEXT, 1, 10, "a decimal point: 0.04"),
    "bracket in a word in braces": ("a: {b: x, c: train[:90%], d: 1}\n", ids.SYNTAX, 1, 19, "single quotes"),
    "bracket in a word in brackets": ("a: [b[0][1], c]\n", ids.SYNTAX, 1, 6, "single quotes"),
    "brace in a word at the end": ("a: {b: x{y}}\n", ids.SYNTAX, 1, 9, "single quotes"),
    "bracket after a quote": ('a: {b: "x"[0], c: 1}\n', ids.SYNTAX, 1, 11, "add the comma"),
    "number as key in braces": ("a: {b: 1,2: x}\n", ids.KEY_NOT_TEXT, 1, 10, "a decimal point: 1.2"),
    "float as key": ("1.5: x\n", ids.KEY_NOT_TEXT, 1, 1, '"1.5":'),
    "octal as key": ("010: x\n", ids.KEY_NOT_TEXT, 1, 1, '"010":'),
    "boolean as key": ("true: x\n", ids.KEY_NOT_TEXT, 1, 1, '"true":'),
    "null as key": ("~: x\n", ids.KEY_NOT_TEXT, 1, 1, '"~":'),
    "list as key": ("[a]: b\n", ids.KEY_NOT_TEXT, 1, 1, "word"),
    "map as long key": ("? {a: 1}\n: b\n", ids.KEY_NOT_TEXT, 1, 3, "word"),
    "alias as key": ("a: &a b\n*a : c\n", ids.KEY_NOT_TEXT, 2, 1, "word"),
    "no-break space in a key": ("a\u00a0: 1\n", ids.CONTROL_CHARACTER, 1, 1, "U+00A0"),
    "python tag": (
        "a: !!python/object/apply:os.system [ls]",
        ids.TAG,
        1,
        4,
        "!!python/object/apply:os.system",
    ),
    "own tag": ("a: !x y\n", ids.TAG, 1, 4, "remove !x"),
    "string tag": ("a: !!str 1\n", ids.TAG, 1, 4, "a: '1'"),
    "tag on a map": ("a: !!map {b: 1}\n", ids.TAG, 1, 4, "!!map"),
    "tag on a key": ("!!str a: b\n", ids.TAG, 1, 1, "!!str"),
    "tag with an unknown handle": ("a: !h!x y\n", ids.TAG, 1, 4, "quotes"),
    "lone exclamation mark": ("a: ! y\n", ids.TAG, 1, 4, "remove !"),
    "merge key": ("b: &b {x: 1}\nc:\n  <<: *b\n  y: 2\n", ids.MERGE_KEY, 3, 3, "extends"),
    "second document": ("a: 1\n---\nb: 2\n", ids.SECOND_DOCUMENT, 2, 1, "second document"),
    "tag directive": ("%TAG !e! tag:e,2000:\n---\na: 1\n", ids.DIRECTIVE, 1, 1, "directive"),
    "yaml 1.1 directive": ("# c\n%YAML 1.1\n---\na: no\n", ids.DIRECTIVE, 2, 1, "directive"),
    "33 levels": ("a: " + "[" * 32 + "]" * 32, ids.TOO_DEEP, 1, 35, "32"),
    "33 levels through an alias": (
        "a: &a [[[]]]\nb: " + "[" * 29 + "*a" + "]" * 29,
        ids.TOO_DEEP,
        2,
        33,
        "32",
    ),
    "unknown alias": ("a: *foo\n", ids.ALIAS, 1, 4, '"*foo"'),
    "alias inside its anchor": ("a: &a [1, *a]\n", ids.ALIAS, 1, 11, "no complete anchor"),
    "glob": ("a: *.json\n", ids.SYNTAX, 1, 5, "single quotes"),
    "glob in a list": ("a: [*.json, b]\n", ids.SYNTAX, 1, 6, "single quotes"),
    "percent": ("a: %x  # c\n", ids.SYNTAX, 1, 4, "single quotes"),
    "at": ("a: @x\n", ids.SYNTAX, 1, 4, "single quotes"),
    "backtick": ("a: `x`\n", ids.SYNTAX, 1, 4, "single quotes"),
    "template": ("a: {{ question }}\n", ids.UNQUOTED_TEMPLATE, 1, 4, 'a: "{{ question }}"'),
    "template in a list": ("a:\n- {{ x }}\n", ids.UNQUOTED_TEMPLATE, 2, 3, '"{{ x }}"'),
    "template and text": ("a: {{ x }} b\n", ids.UNQUOTED_TEMPLATE, 1, 4, '"{{ x }} b"'),
    "template with a filter": (
        "a: {{ x[-1] | trim }}\n",
        ids.UNQUOTED_TEMPLATE,
        1,
        4,
        '"{{ x[-1] | trim }}"',
    ),
    "escape": ('a: "\\d+"\n', ids.SYNTAX, 1, 5, "single quotes"),
    "half an escape": ('a: "\\x1"\n', ids.SYNTAX, 1, 7, "single quotes"),
    "tab": ("a:\n\tb: 1\n", ids.SYNTAX, 2, 1, "tab"),
    "open quote": ('a: "x\nb: 1\n', ids.SYNTAX, 1, 4, "close the quote"),
    "open quote before a document mark": ("a: 'x\n---\n", ids.SYNTAX, 1, 4, "close the quote"),
    "open list": ("a: [1, 2\nb: 3\n", ids.SYNTAX, 1, 4, "closing bracket"),
    "open map": ("a: {b: 1\n", ids.SYNTAX, 1, 4, "closing bracket"),
    "second colon": ("a: b: c\n", ids.SYNTAX, 1, 5, "colon and a space"),
    "deeper line": ("a: 1\n  b: 2\n", ids.SYNTAX, 2, 4, "indent"),
    "line between": ("a:\n  b: 1\n c: 2\n", ids.SYNTAX, 3, 2, "indent"),
    "list beside keys": ("a: 1\n- b\n", ids.SYNTAX, 2, 1, "indent"),
    "list on the line of its key": ("a: - b\n", ids.SYNTAX, 1, 4, "entries are not allowed"),
    "text after a quote": ('a: "x" y\n', ids.SYNTAX, 1, 8, "single quotes"),
    "text after |": ("a: |x\n b\n", ids.SYNTAX, 1, 5, "block scalar"),
    "no value": ("a: ]\n", ids.SYNTAX, 1, 4, "node"),
    "no key": (": x\n", ids.SYNTAX, 1, 1, "indent"),
    "curly quotes": ("a: \u201cb c\u201d\n", ids.SYNTAX, 1, 4, 'a: "b c"'),
    "single curly quotes": ("a: [1, \u2018b\u2019]\n", ids.SYNTAX, 1, 8, '"b"'),
    "question mark": ("a: ? b\n", ids.SYNTAX, 1, 4, "mapping keys"),
    "neither key nor item": ("a: 1\nfoo\nb: 1\n", ids.SYNTAX, 2, 1, "key: value"),
    "escape character": ("a: \x1b[31m\n", ids.NOT_TEXT, 1, 4, "U+001B"),
    "nul": ("a: b\nc: \0\n", ids.NOT_TEXT, 2, 4, "NUL"),
    "half a surrogate pair": ("a: \ud83d\n", ids.NOT_TEXT, 1, 4, "U+D83D"),
    "line separator": ("a: b\u2028c\n", ids.NOT_TEXT, 1, 5, "U+2028"),
    "byte order mark inside": ("a: b\ufeff\n", ids.NOT_TEXT, 1, 5, "U+FEFF"),
}

HUGE = {
    "brackets": ("[" * 200_000, ids.TOO_DEEP),
    "dashes": ("- " * 100_000, ids.TOO_DEEP),
    "question marks": ("? " * 100_000, ids.TOO_DEEP),
    "maps": ("{a: " * 60_000, ids.TOO_DEEP),
    "values": ("a: [" + "1," * 30_000 + "]", ids.TOO_MANY_VALUES),
    "alias bomb": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{k}: &{k} [{', '.join([f'*{chr(ord(k) - 1)}'] * 9)}]\n" for k in "bcdefghijkl"),
        ids.TOO_MANY_VALUES,
    ),
    "one key again and again": ("a: 1\n" * 9_000, ids.DUPLICATE_KEY),
    "digits": ("a: " + "9" * 200_000, ids.NUMBER_TOO_LARGE),
    "colons and digits": ("a: 1" + ":1" * 100_000, ids.BASE_SIXTY),
    "tag directives": ("".join(f"%TAG !a{n}! x\n" for n in range(12_000)), ids.DIRECTIVE),
}


@pytest.fixture(params=list(PARSERS.values()), ids=list(PARSERS))
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "LOADER", request.param)


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("text", [t for name, t in SILENT.items() if "KiB" not in name])
def test_correct_text_is_silent(text: str) -> None:
    document, findings = load_text(text, "recipe.yaml")
    assert findings == []
    assert document is not None


def test_long_scalar_is_silent() -> None:
    document, findings = load_text(SILENT["60 KiB in one scalar"], "recipe.yaml")
    assert findings == []
    assert document is not None
    assert document.values == {"a": "x" * 70_000}


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(("text", "rule", "line", "column", "words"), REFUSED.values(), ids=REFUSED)
def test_mistake_has_one_finding_at_its_place(text: str, rule: str, line: int, column: int, words: str) -> None:
    _, findings = load_text(text, "recipe.yaml")
    assert [finding.rule for finding in findings] == [rule]
    finding = findings[0]
    assert finding.severity == "error"
    assert finding.mark is not None
    assert (finding.mark.file, finding.mark.line) == ("recipe.yaml", line)
    assert finding.mark.column == column or (rule == ids.SYNTAX and "escape" in finding.message)  # the parsers differ
    assert finding.fix
    assert words in f"{finding.message} {finding.because} {finding.fix}"
    shown = "".join([finding.message, *finding.because, finding.fix, finding.mark.line_text])
    assert shown.replace("\t", "").replace("\u00a0", "").isprintable() or "\ufffd" in shown


@pytest.mark.parametrize(("text", "rule"), HUGE.values(), ids=HUGE)
def test_hostile_text_is_refused_at_once(text: str, rule: str) -> None:
    with takes_at_most(1):
        _, findings = load_text(text, "recipe.yaml")
    assert [finding.rule for finding in findings] == [rule]
    assert len(findings[0].message) < 200
    assert len("".join(findings[0].because)) < 200
    assert len(findings[0].fix or "") < 200


def test_all_mistakes_are_found_in_one_run() -> None:
    text = "seed: 010\nmodel:\n  dtype: None\n  dtype: !x bfloat16\n1: a\nstop: {{ x }}\n"
    document, findings = load_text(text, "recipe.yaml")
    places = [(finding.rule, finding.mark.line) for finding in findings if finding.mark]
    assert places == [
        (ids.NUMBER_SPELLING, 1),
        (ids.PYTHON_NONE, 3),
        (ids.DUPLICATE_KEY, 4),
        (ids.TAG, 4),
        (ids.KEY_NOT_TEXT, 5),
        (ids.UNQUOTED_TEMPLATE, 6),
    ]
    assert document is not None
    assert document.values == {"seed": 10, "model": {"dtype": "bfloat16"}, "1": "a", "stop": "{{ x }}"}


def test_syntax_error_keeps_the_findings_before_it() -> None:
    document, findings = load_text("a: 010\nb: @x\n", "recipe.yaml")
    assert document is None
    assert [finding.rule for finding in findings] == [ids.NUMBER_SPELLING, ids.SYNTAX]


# name -> text, line, column, words of the message
INVISIBLE = {
    "zero width space": ("p: Answer\u200b in\n", 1, 10, "U+200B ZERO WIDTH SPACE"),
    "word joiner in a block": ("d:\n  p: |\n    one\n    tw\u2060o\n", 4, 7, "U+2060 WORD JOINER"),
    "in a list, after windows line breaks": ("s:\r\n- 'a'\r\n- '\u200b</s>'\r\n", 3, 4, "U+200B"),
    "hidden letters": ('p: "hi\U000e0069\U000e0067"\n', 1, 7, "U+E0069 TAG LATIN SMALL LETTER I"),
    "language tag": ("p: hi\U000e0001\n", 1, 6, "U+E0001 LANGUAGE TAG"),
    "behind an emoji": ("p: \U0001f600\U000e0067\n", 1, 5, "U+E0067"),
}
JOINED = {
    "family": "p: \U0001f468\u200d\U0001f469\u200d\U0001f467\n",
    "flag of Scotland": "p: \U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f\n",
    "persian": "p: \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645\n",
    "emoji style": "p: \u2764\ufe0f\n",
    "written on purpose": 'p: "a\\u200b \\ufeff \\U000E0041"\n',
    "comment": "p: 1  # a\u200b\n",
}


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(("text", "line", "column", "words"), INVISIBLE.values(), ids=INVISIBLE)
def test_invisible_character_in_a_text_is_a_warning(text: str, line: int, column: int, words: str) -> None:
    document, (finding,) = load_text(text, "recipe.yaml")
    assert document is not None
    assert (finding.rule, finding.severity, finding.patch) == (ids.CONTROL_CHARACTER, "warning", ())
    assert finding.mark is not None
    assert (finding.mark.line, finding.mark.column) == (line, column)
    assert words in finding.message
    assert finding.message.isprintable()


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("text", JOINED.values(), ids=JOINED)
def test_joined_letters_and_emoji_are_silent(text: str) -> None:
    document, findings = load_text(text, "recipe.yaml")
    assert findings == []
    assert document is not None


def test_invisible_character_in_an_override() -> None:
    override, (finding,) = read_override("dataset.prompt=a\u200b, b")
    assert override is not None
    assert (finding.key, finding.severity) == ("dataset.prompt", "warning")
    assert finding.mark is not None
    assert finding.mark.column == 17


def test_key_of_a_finding_is_its_path() -> None:
    _, findings = load_text("rewards:\n- {name: a}\n- weight: 0x1\n", "recipe.yaml")
    assert [finding.key for finding in findings] == ["rewards[1].weight"]
    assert findings[0].patch[0].path == ("rewards", 1, "weight")


def test_every_id_has_one_meaning() -> None:
    named = [value for name, value in vars(ids).items() if name.isupper() and name != "MEANINGS"]
    assert len(set(named)) == len(named)
    assert set(named) == set(ids.MEANINGS)
