"""Recipes that try to do harm. Each has a name that says what it attempts, and the harm it would do is seen.

In texts CANARY is the path of a file that nobody may make, HOME the user's home and OUTSIDE a folder beside that of
the recipe; both hold secrets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

BASE = """\
recipe: 1
name: base
model: {model_name_or_path: MODEL}
dataset: {path: rows.jsonl, prompt: "{{ question }}", columns: {solution: "{{ answer }}"}}
rewards: [{name: exact_match}]
generation: {max_completion_length: 64}
grpo: {num_generations: 4}
training: {prompts_per_step: 4, max_steps: 10}
"""
ROWS = "".join(f'{{"question": "{n}+1", "answer": "{n + 1}"}}\n' for n in range(16))
TOUCH = "import os\nos.system('touch CANARY')\n"
REWARD = "def f(completions, **kwargs):\n    return [0.0 for _ in completions]\n"
TOOL = 'def f(a: int) -> int:\n    """Says.\n\n    Args:\n        a: one\n    """\n    return a\n'
CALL = "__import__('os').system('touch CANARY')"

Make = Callable[[Path], None]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. recipe: the file's text, laid over the base with `over`; files: beside it, by name.

    make: does what is no text. overrides: of --set. is_refused: whether validate and plan end with 2; None for either.
    """

    name: str
    recipe: str | bytes
    files: Mapping[str, str] = field(default_factory=dict)
    make: Make | None = None
    overrides: tuple[str, ...] = ()
    is_refused: bool | None = True


def over(text: str) -> str:
    """The text as a recipe over the base."""
    return f"extends: base.yaml\n{text}\n"


def _link(target: str, name: str) -> Make:
    return lambda folder: (folder / name).symlink_to(target.replace("FOLDER", str(folder)))


def _fifo(name: str) -> Make:
    import os

    return lambda folder: os.mkfifo(folder / name)


def _huge(name: str, size: int) -> Make:
    import os

    def make(folder: Path) -> None:
        (folder / name).write_text("")
        os.truncate(folder / name, size)

    return make


def _bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines)


def _data(path: str) -> str:
    return over(f"dataset: {{path: {path}}}")


def _reward(path: str) -> str:
    return over(f"rewards: [{{python: {path}}}]")


def tool(path: str = "t.py:f") -> str:
    """A recipe with a tool and a model that nobody has here, so that its chat template is not judged."""
    return over(f"model: {{model_name_or_path: owner/model}}\ntools: [{{python: {path}}}]")


def _prompt(template: str) -> str:
    return over(f"dataset: {{prompt: '{template}'}}")


def _environment(name: str, value: str = "x") -> str:
    return over(f"launch: {{environment: {{{name}: '{value}'}}}}")


YAML = (
    Attempt("a python object as a tag", over("description: !!python/object/apply:os.system ['touch CANARY']")),
    Attempt("a python module as a tag", over("description: !!python/module:antigravity")),
    Attempt("a python name as a tag", over("description: !!python/name:os.system")),
    Attempt("a new object as a tag", over("description: !!python/object/new:os.system ['touch CANARY']")),
    Attempt(
        "a tag with a handle of its own", "%TAG ! tag:yaml.org,2002:python/\n---\n" + over("a: !object/apply:x []")
    ),
    Attempt("a tag in a key", over("!!python/name:os.system : 1")),
    Attempt("an alias bomb", over(_bomb())),
    Attempt("an alias that contains itself", over("trl: &a {x: *a}")),
    Attempt("a merge key", over("trl: &t {beta: 1}\ngrpo: {<<: *t}")),
    Attempt("brackets without end", "[" * 200_000),
    Attempt("maps without end", over("trl: " + "{a: " * 50_000)),
    Attempt("indents without end", "".join(" " * n + "a:\n" for n in range(700))),
    Attempt("quotes without end", over('description: "' + "\\" * 100_000)),
    Attempt("a line of a megabyte", over("description: " + "x" * (1 << 20))),
    Attempt("a key of a hundred thousand letters", over("k" * 100_000 + ": 1")),
    Attempt("fifty thousand keys", over("\n".join(f"k{n}: 1" for n in range(20_000)))),
    Attempt("a second document", over("") + "---\n" + over("name: other")),
    Attempt("NUL", over("description: a\0b").encode()),
    Attempt("UTF-16", over("description: x").encode("utf-16")),
    Attempt("bytes that are no text", b"\xff\xfe\xfd" * 1000),
    Attempt("a byte order mark before a tag", "\ufeff" + over("description: !!python/name:os.system")),
    Attempt("escapes of a terminal in a value", over('description: "\\e]0;owned\\a\\e[2J"')),
    Attempt("escapes of a terminal in a key", over('"\\e[31mkey": 1')),
    Attempt("raw escapes of a terminal", over("description: \x1b]52;c;Y3VybA==\x07").encode()),
    Attempt("a second line in the name", over('name: "x\\n\\e[31mpassed"')),
    Attempt(
        "text that is written from right to left", over('description: "\u202e\u2066 drawer\u2069"'), is_refused=None
    ),
    Attempt("a key that only looks like another", over("ｇｒｐｏ: {beta: 1}")),
    Attempt("a number of a million digits", over("seed: " + "9" * 200_000)),
    Attempt("a number beyond every float", over("training: {learning_rate: 1e999999999}")),
    Attempt("a batch of billions", over("training: {prompts_per_step: 99999999999999}"), is_refused=None),
    Attempt("more groups than memory", over("grpo: {num_generations: 9223372036854775807}"), is_refused=None),
    Attempt("steps without end", over("training: {max_steps: 99999999999999999999}"), is_refused=None),
    Attempt("no number", over("training: {learning_rate: .nan}")),
)
EXTENDS = (
    Attempt("a recipe that extends itself", "extends: recipe.yaml\n"),
    Attempt("two that extend each other", over(""), {"base.yaml": "extends: recipe.yaml\n"}),
    Attempt("a device as the parent", "extends: /dev/zero\n"),
    Attempt("a pipe as the parent", "extends: pipe.yaml\n", make=_fifo("pipe.yaml")),
    Attempt("a file of secrets as the parent", "extends: OUTSIDE/secrets.env\n"),
    Attempt(
        "a link to a file of secrets as the parent",
        "extends: link.yaml\n",
        make=_link("../outside/secrets.env", "link.yaml"),
    ),
    Attempt("the list of users as the parent", "extends: ../../../../../../../../etc/passwd\n"),
    Attempt("an address as the parent", "extends: https://example.org/evil.yaml\n"),
    Attempt("a command as the parent", "extends: $(touch CANARY).yaml\n"),
    Attempt("a parent with a NUL in its name", 'extends: "a\\0b"\n'),
    Attempt("a parent far out of the shipped ones", "extends: grpo-recipes:../../../../etc/passwd\n"),
)
DATA = (
    Attempt("a device as the data", _data("/dev/zero")),
    Attempt("a device behind a link", _data("zero.jsonl"), make=_link("/dev/zero", "zero.jsonl")),
    Attempt("a pipe as the data", _data("pipe.jsonl"), make=_fifo("pipe.jsonl")),
    Attempt("the kernel's log as the data", _data("log.jsonl"), make=_link("/proc/kmsg", "log.jsonl")),
    Attempt("a file of exabytes", _data("holes.jsonl"), make=_huge("holes.jsonl", 1 << 42)),
    Attempt("the password file as the data", _data("/etc/passwd")),
    Attempt(
        "the password file behind a link", _data("users.csv"), make=_link("/etc/passwd", "users.csv"), is_refused=None
    ),
    Attempt(
        "secrets behind a link as columns",
        _data("s.csv"),
        make=_link("../outside/secrets.env", "s.csv"),
        is_refused=None,
    ),
    Attempt(
        "secrets behind a link as rows",
        _data("s.jsonl"),
        make=_link("../outside/secrets.env", "s.jsonl"),
        is_refused=None,
    ),
    Attempt("the whole disk as the data", _data("/"), is_refused=None),
    Attempt("rows nested without end", _data("deep.jsonl"), {"deep.jsonl": "[" * 100_000}),
    Attempt("a header of megabytes", _data("wide.csv"), {"wide.csv": "a," * 500_000 + "\n"}, is_refused=None),
    Attempt(
        "escapes of a terminal as columns",
        _data("e.csv"),
        {"e.csv": "\x1b[2Jquestion,\x07answer\n1,2\n"},
        is_refused=None,
    ),
    Attempt("a command as the data", _data("'$(touch CANARY).jsonl'")),
    Attempt(
        "a pipe as the model's configuration",
        over("model: {model_name_or_path: ./m}"),
        make=lambda f: ((f / "m").mkdir(), _fifo("m/config.json")(f))[-1],
        is_refused=None,
    ),
    Attempt("a password in an address", _data("'https://me:correct-horse-battery@example.org/x.jsonl'")),
)
TEMPLATES = (
    Attempt(
        "a template that leaves the sandbox", _prompt('{{ "".__class__.__mro__[1].__subclasses__() }}'), is_refused=None
    ),
    Attempt(
        "a template that imports",
        _prompt('{{ cycler.__init__.__globals__.os.system("touch CANARY") }}'),
        is_refused=None,
    ),
    Attempt("a template that includes a file", _prompt('{% include "/etc/passwd" %}'), is_refused=None),
    Attempt("a template that computes a long number", _prompt("{{ 7 ** (9 ** 9) ~ question }}"), is_refused=None),
    Attempt("a template that makes a long text", _prompt('{{ "a" * 10 ** 11 ~ question }}'), is_refused=None),
    Attempt("a template that pads without end", _prompt('{{ "a" | center(10 ** 11) ~ question }}'), is_refused=None),
    Attempt(
        "a template that loops without end",
        _prompt("{% for a in range(10 ** 12) %}{{ question }}{% endfor %}"),
        is_refused=None,
    ),
    Attempt(
        "a template in a switch of the engine",
        _prompt("{% autoescape 7 ** (9 ** 9) %}{{ question }}{% endautoescape %}"),
        is_refused=None,
    ),
    Attempt("brackets in a template without end", _prompt("{{ " + "(" * 20_000 + " }}")),
    Attempt("a number in a template of a million digits", _prompt("{{ question ~ " + "9" * 100_000 + " }}")),
    Attempt("a template in a path", _data("'{{ 7 ** (9 ** 9) }}.jsonl'")),
    Attempt("a private key as the chat template", over("tokenizer: {chat_template_path: HOME/.ssh/id_rsa}")),
    Attempt(
        "a link to a key as the chat template",
        over("tokenizer: {chat_template_path: t.jinja}"),
        make=_link("../home/.ssh/id_rsa", "t.jinja"),
    ),
    Attempt("a pipe as the chat template", over("tokenizer: {chat_template_path: p.jinja}"), make=_fifo("p.jinja")),
    Attempt(
        "a chat template that computes when it is read",
        over("tokenizer: {chat_template_path: t.jinja}\ngeneration: {chat_template_kwargs: {x: 1}}"),
        {"t.jinja": "{{ 7 ** (9 ** 9) ~ x ~ messages }}"},
        is_refused=None,
    ),
)
REWARDS = (
    Attempt("a function of Python as a reward", _reward("os:system")),
    Attempt("a dotted function as a reward", _reward("os.system")),
    Attempt("a call as a reward", _reward("'r.py:f(os.system(1))'"), {"r.py": REWARD}),
    Attempt("code at the top of a reward", _reward("r.py:f"), {"r.py": TOUCH + REWARD}, is_refused=False),
    Attempt(
        "code in a file that a reward imports",
        _reward("r.py:f"),
        {"r.py": "import h\n" + REWARD, "h.py": TOUCH},
        is_refused=False,
    ),
    Attempt(
        "code in a package that a reward imports",
        _reward("r.py:f"),
        {"r.py": "import h\n" + REWARD, "h/__init__.py": TOUCH},
    ),
    Attempt("code in a decorator", _reward("r.py:f"), {"r.py": TOUCH + "@os.system\n" + REWARD}, is_refused=False),
    Attempt(
        "code in a default value",
        _reward("r.py:f"),
        {"r.py": "def f(a=__import__('os').system('touch CANARY'), **kwargs): return []\n"},
        is_refused=False,
    ),
    Attempt(
        "a configuration of pytest beside the recipe",
        over(""),
        {
            "conftest.py": TOUCH,
            "sitecustomize.py": TOUCH,
            "usercustomize.py": TOUCH,
            "yaml.py": TOUCH,
            "click.py": TOUCH,
        },
        is_refused=False,
    ),
    Attempt("a device as a reward", _reward("z.py:f"), make=_link("/dev/zero", "z.py")),
    Attempt("a pipe as a reward", _reward("p.py:f"), make=_fifo("p.py")),
    Attempt("a reward nested without end", _reward("r.py:f"), {"r.py": "x = " + "(" * 5000 + ")" * 5000}),
    Attempt("a reward of operators without end", _reward("r.py:f"), {"r.py": "x = " + "-" * 100_000 + "1\n" + REWARD}),
    Attempt("a reward of gigabytes", _reward("big.py:f"), make=_huge("big.py", 1 << 35)),
    Attempt("a reward whose name is a command", _reward("'`touch CANARY`$(touch CANARY);.py:f'"), {"r.py": REWARD}),
    Attempt("a reward whose name leaves the folder", _reward("../../../../../../etc/passwd.py:f")),
    Attempt("a module of Python as a tool", tool("os:system")),
    Attempt("code at the top of a tool", tool("t.py:f"), {"t.py": TOUCH + TOOL}, is_refused=False),
    Attempt("code in a type hint", tool(), {"t.py": TOOL.replace("int", CALL)}, is_refused=None),
    Attempt("code in a type hint's text", tool(), {"t.py": TOOL.replace("int", repr(CALL))}, is_refused=None),
    Attempt("a device as a tool", tool("z.py:f"), make=_link("/dev/zero", "z.py")),
    Attempt("a shipped reward by a path", over("rewards: [{name: ../../../etc/passwd}]")),
)
MACHINE = (
    Attempt("a library before all others", _environment("LD_PRELOAD", "/tmp/x.so")),
    Attempt("modules from elsewhere", _environment("PYTHONPATH", ".")),
    Attempt("a script before every shell", _environment("BASH_ENV", "x.sh")),
    Attempt("another hub", _environment("HF_ENDPOINT", "https://example.org")),
    Attempt("a proxy for everything", _environment("HTTPS_PROXY", "http://example.org")),
    Attempt("remote code of data sets", _environment("HF_DATASETS_TRUST_REMOTE_CODE", "1")),
    Attempt("pickles as weights", _environment("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")),
    Attempt("a place for caches", _environment("HF_MODULES_CACHE", ".")),
    Attempt(
        "a command in a value of the environment",
        _environment("NCCL_DEBUG", "$(touch CANARY)`touch CANARY`;touch CANARY"),
        is_refused=False,
    ),
    Attempt("the end of a quote in a value", _environment("NCCL_DEBUG", "''; touch CANARY; ''"), is_refused=False),
    Attempt("a second line in a value", over('launch: {environment: {NCCL_DEBUG: "x\\ntouch CANARY"}}')),
    Attempt("a command as a name of a variable", over("launch: {environment: {'A;touch CANARY;B': '1'}}")),
    Attempt("a command as the name of the recipe", over("name: x`touch CANARY`")),
    Attempt("a name that leaves the folder of runs", over("name: ../../../escaped")),
    Attempt("a name of dots", over("name: ..")),
    Attempt(
        "a command in the description",
        over("description: '\"; touch CANARY; $(touch CANARY) `touch CANARY`'"),
        is_refused=False,
    ),
    Attempt("a module that PEFT imports", over("lora: {r: 4, megatron_core: antigravity, megatron_config: {tp: 1}}")),
    Attempt(
        "a class that PEFT looks for",
        over("lora: {r: 4, auto_mapping: {base_model_class: X, parent_library: antigravity}}"),
    ),
    Attempt(
        "files that DeepSpeed writes anywhere",
        over("distributed: {strategy: zero2, deepspeed: {csv_monitor: {enabled: true, output_path: OUTSIDE}}}"),
    ),
    Attempt(
        "a backend that DeepSpeed imports",
        over("distributed: {strategy: zero2, deepspeed: {compile: {backend: antigravity}}}"),
    ),
    Attempt("an output folder of its own", over("trl: {output_dir: OUTSIDE}")),
    Attempt("a checkpoint of a stranger", over("trl: {resume_from_checkpoint: OUTSIDE}")),
    Attempt(
        "code of generation from the hub",
        over("trl: {generation_kwargs: {custom_generate: someone/code, trust_remote_code: true}}"),
    ),
    Attempt("remote code through a back door", over("trl: {model_init_kwargs: {trust_remote_code: true}}")),
    Attempt("a service that is a module", over("logging: {report_to: [os.system]}")),
    Attempt("a token in the recipe", over("logging: {run_name: hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345}")),
    Attempt("a token in a field that takes one", over("trl: {hub_token: hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345}")),
    Attempt("a variable of the environment in a path", _data("'${HF_TOKEN}.jsonl'")),
    Attempt(
        "a variable of the environment in a template",
        _prompt("{{ environ.HF_TOKEN }}{{ self._TemplateReference__context }}"),
    ),
)
OVERRIDES = (
    Attempt(
        "a tag in an override", over(""), overrides=("description=!!python/object/apply:os.system [touch CANARY]",)
    ),
    Attempt("an override without end", over(""), overrides=("trl=" + "[" * 20_000,)),
    Attempt("an override of a place far away", over(""), overrides=("rewards[99999999999]={name: exact_match}",)),
    Attempt("an override of two lines", over(""), overrides=("description=a\nlaunch: {environment: {LD_PRELOAD: x}}",)),
    Attempt("an override of the environment", over(""), overrides=("launch.environment.LD_PRELOAD=/x.so",)),
    Attempt("escapes of a terminal in an override", over(""), overrides=("\x1b[2Jname=\x1b]0;owned\x07",)),
    Attempt("an override of the parent", over(""), overrides=("extends=/etc/passwd",)),
    Attempt("a path of a thousand keys", over(""), overrides=(".".join(["trl"] + ["a"] * 5000) + "=1",)),
)
ATTEMPTS = (*YAML, *EXTENDS, *DATA, *TEMPLATES, *REWARDS, *MACHINE, *OVERRIDES)
