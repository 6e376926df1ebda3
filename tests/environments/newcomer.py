"""What somebody does who has the wheel alone: every recipe that `init` writes, every page, every schema.

`python newcomer.py CHECKOUT` in an empty folder; CHECKOUT is only compared with. The standard library and the installed
package are enough.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

COMMAND = next(one for one in metadata.entry_points(group="console_scripts") if one.name == "grpo-run")
MACHINE = "tested,gpus=16xH100-80GB"
SCHEMAS = ("recipe", "plan", "run", "findings", "diff", "doctor")
CONFIGURATION = """\
model_name_or_path: Qwen/Qwen2.5-0.5B-Instruct
dataset_name: owner/data
reward_funcs: [think_format_reward, mine.brevity]
learning_rate: 1e-6
"""


def answer(*words: str, code: int = 0) -> str:
    """What the command prints on stdout. Raises SystemExit where it ends with another code."""
    out, err = io.StringIO(), io.StringIO()
    ended: object = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            COMMAND.load()(list(words))
        except SystemExit as end:
            ended = end.code
    if (ended or 0) != code:
        sys.exit(f"grpo-run {' '.join(words)}: exit {ended}\n{out.getvalue()}{err.getvalue()}")
    return out.getvalue()


def write_recipes() -> int:
    """Each shipped recipe in a folder of its own, validated and planned there. How many there are."""
    listed = json.loads(answer("init", "--list", "--json"))
    for name, hardware in ((one["name"], one["hardware"]) for one in listed):
        machine = _machine(hardware)
        with _folder(name):
            if name == "smollm2":  # its model is built, by the training stack
                answer("init", name, code=2)
                if left := os.listdir():
                    sys.exit(f"init {name} was refused and left {', '.join(left)}")
                continue
            answer("init", name)
            answer("validate", f"{name}.yaml", "--target", machine)
            answer("plan", f"{name}.yaml", "--target", machine)
            Path("mine.yaml").write_text(f"extends: grpo-recipes:{name}\nname: mine\n", encoding="utf-8")
            if f"grpo-recipes:{name}:" not in answer("plan", "mine.yaml", "--target", machine):
                sys.exit(f"{name} is not where a recipe's values come from that extends it")
            answer("diff", f"{name}.yaml", "mine.yaml", "--target", machine)
    return len(listed)


def _machine(hardware: str) -> str:
    """The target that a recipe's head names: cpu, or GPUs of a machine, after how many machines where they are more."""
    if hardware == "cpu":
        return MACHINE
    count, kind = hardware.split("x")[-2:]
    return f"tested,vllm==0.30.0,gpus={count}x{kind}"


def write_others() -> None:
    """The small recipe, printed and written, and a configuration that is taken over with its stubs."""
    with _folder("others"):
        answer("init")
        answer("init", "-o", "-")
        answer("validate", "recipe.yaml", "--target", MACHINE, "--strict")
        Path("config.yaml").write_text(CONFIGURATION, encoding="utf-8")
        answer("init", "--from", "config.yaml", "-o", "taken.yaml")
        answer("validate", "taken.yaml", "--target", MACHINE)
        answer("recipe.yaml", "--dry-run", "--out", "run", "--target", MACHINE)
        answer("run", "--verify")
        answer("doctor", "--target", "tested")


def read_pages() -> int:
    """Each page that completion offers for `explain`. How many there are."""
    words = {"_GRPO_RUN_COMPLETE": "bash_complete", "COMP_LINE": "grpo-run explain ", "COMP_POINT": "17"}
    command = str(Path(sys.executable).with_name("grpo-run"))
    offered = subprocess.run([command], env=os.environ | words, capture_output=True, text=True, check=True).stdout
    pages = [line.partition(",")[2] for line in offered.splitlines()]
    empty = [page for page in pages if len(answer("explain", page).splitlines()) < 2]
    if empty or not {"BAT001", "PRF001", "GRD001", "SHM001", "grpo.beta"} <= set(pages):
        sys.exit(f"explain says nothing of {empty}, of {len(pages)} pages")
    return len(pages)


def compare_schemas(checkout: Path) -> None:
    """The schemas that the command prints are those of the checkout."""
    for name in SCHEMAS:
        if answer("schema", name) != (checkout / f"schemas/{name}.schema.json").read_text(encoding="utf-8"):
            sys.exit(f"schema {name} is another one where grpo-recipes is installed")


@contextlib.contextmanager
def _folder(name: str) -> Iterator[None]:
    Path(name).mkdir()
    with contextlib.chdir(name):
        yield


if __name__ == "__main__":
    recipes = write_recipes()
    write_others()
    pages = read_pages()
    compare_schemas(Path(sys.argv[1]))
    print(f"environments: {recipes} shipped recipes, {pages} pages and {len(SCHEMAS)} schemas of the wheel alone")
