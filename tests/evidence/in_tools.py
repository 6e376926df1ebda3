"""What evidence about tools calls, in the process that has the libraries."""

import json
import shutil
from pathlib import Path
from typing import Any

import in_library
from tool_sources import ADD

TALKS = [{"role": "user", "content": "1+1="}]


def read_all(docstrings: list[str]) -> list[Any]:
    """For each docstring the description and the argument texts that transformers reads."""
    from transformers.utils.chat_template_utils import parse_google_format_docstring

    return [list(parse_google_format_docstring(text.strip())[:2]) for text in docstrings]


def parameters() -> list[str]:
    """What GRPOTrainer takes."""
    import inspect

    from trl import GRPOTrainer

    return [*inspect.signature(GRPOTrainer.__init__).parameters]


def with_transformers(release: str) -> None:
    """Builds a GRPOTrainer with a tool, where transformers says it is this release."""
    import transformers

    transformers.__version__ = release
    trainer(ADD, ["add"])


def without_jmespath(reads_templates: bool) -> None:
    """Builds a GRPOTrainer with a tool without jmespath, as transformers from 5.13 on reads calls or as before."""
    from trl import chat_template_utils
    from trl.trainer import grpo_trainer

    for module in (grpo_trainer, chat_template_utils):
        module._SUPPORTS_RESPONSE_TEMPLATE = reads_templates
    grpo_trainer.is_jmespath_available = lambda: False
    trainer(ADD, ["add"])


def read_templates() -> dict[str, str]:
    """sha256 -> name of each chat template that TRL ships, renders calls and answers with, and reads calls of."""
    import hashlib

    import trl
    from transformers import AutoTokenizer
    from trl.chat_template_utils import add_response_schema, supports_tool_calling

    found = {}
    for place in sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja")):
        tokenizer = AutoTokenizer.from_pretrained(in_library.FOLDER / "model")
        tokenizer.chat_template = place.read_text(encoding="utf-8")
        try:
            add_response_schema(tokenizer)
        except ValueError:
            continue
        if supports_tool_calling(tokenizer):
            found[hashlib.sha256(tokenizer.chat_template.encode()).hexdigest()] = place.stem
    return found


def schemas(sources: list[str]) -> list[Any]:
    """For each source of one function `f` what get_json_schema makes of it, or the type and text of what it raises."""
    from transformers.utils import get_json_schema

    found: list[Any] = []
    for source in sources:
        names: dict[str, Any] = {}
        exec(source, names)
        try:
            found.append(get_json_schema(names["f"])["function"])
        except Exception as error:  # whatever it is, it is an answer
            found.append([type(error).__name__, str(error)])
    return found


def model_with(template: str | None = None, response_template: dict[str, Any] | None = None) -> Path:
    """The model with a chat template, TRL's copy of Qwen3's by default."""
    import trl

    folder = in_library.FOLDER / "model-for-tools"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(in_library.FOLDER / "model", folder)
    if template is None:
        template = (Path(trl.__file__).parent / "chat_templates" / "qwen3.jinja").read_text(encoding="utf-8")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    place = folder / "tokenizer_config.json"
    config = json.loads(place.read_text())
    if response_template is not None:
        config["response_template"] = response_template
    place.write_text(json.dumps(config))
    return folder


def trainer(tools: str, names: list[str], rows: list[dict[str, Any]] | None = None, **model: Any) -> Any:
    """A GRPOTrainer with the functions of a source as tools. model: as of model_with."""
    from datasets import Dataset
    from trl import GRPOTrainer

    functions: dict[str, Any] = {}
    exec(tools, functions)
    arguments = in_library._config(model_init_kwargs={"dtype": "float32"}, max_steps=1)
    in_library.STAGE[0] = "trainer"
    return GRPOTrainer(
        model=str(model_with(model.get("template"), model.get("response_template"))),
        args=arguments,
        train_dataset=Dataset.from_list(rows or [{"prompt": TALKS}] * 8),
        reward_funcs=[lambda completions, **kwargs: [float(len(str(one))) for one in completions]],
        tools=[functions[name] for name in names],
    )


def train(tools: str, names: list[str], rows: list[dict[str, Any]] | None = None, **model: Any) -> None:
    """Trains a step with tools, which an untrained model does not call."""
    built = trainer(tools, names, rows, **model)
    in_library.STAGE[0] = "train"
    built.train()


def called(tools: str, names: list[str], call: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a completion in which the model makes one call of a tool, and nothing after it."""
    built = trainer(tools, names)
    built.model.train()
    answers = [[{"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}]]
    built._sync_tool_dicts = [{tool.__name__: tool for tool in built.tools}]
    built._async_tool_dicts = [{}]
    built.max_completion_length = 10_000
    built._generate_single_turn = lambda ids, *a, **k: ([[2]], None)
    prompt = [list(TALKS)]
    ids = built._tokenize_prompts(prompt)[0]
    built._tool_call_loop(prompt, ids, [[5]], answers, None, None, {})
    return answers[0]


def without_rows(environment: str = "", max_steps: int = -1, rows: list[dict[str, Any]] | None = None) -> list[Any]:
    """Trains without a data set, or with rows; gives what `reset` of `Game`, if there is one, was called with."""
    from datasets import Dataset
    from trl import GRPOTrainer

    names: dict[str, Any] = {"CALLS": []}
    exec(environment, names)
    length = {"max_steps": max_steps, "num_train_epochs": 1}
    arguments = in_library._config(model_init_kwargs={"dtype": "float32"}, shuffle_dataset=False, **length)
    in_library.STAGE[0] = "trainer"
    built = GRPOTrainer(
        model=str(model_with()),
        args=arguments,
        train_dataset=None if rows is None else Dataset.from_list(rows),
        reward_funcs=[lambda completions, **kwargs: [float(len(str(one))) for one in completions]],
        environment_factory=names.get("Game"),
    )
    in_library.STAGE[0] = "train"
    built.train()
    calls: list[Any] = names["CALLS"]
    return calls


def with_environment(
    environment: str,
    config: dict[str, Any] | None = None,
    rows: list[dict[str, Any]] | None = None,
    **parts: Any,
) -> dict[str, Any]:
    """Trains a step with the class `Game` of a source; gives the logs and what the model is told it can call.

    A function `several` of the source makes the environments by name in its place.
    parts: tools, a source of functions whose names `tool_names` has; rollout, a source of one; release, that
    transformers says it is; rewards, how many there are beside that of the class.
    """
    import functools

    import transformers
    from datasets import Dataset
    from trl import GRPOTrainer

    if "release" in parts:
        transformers.__version__ = parts["release"]
    names: dict[str, Any] = {}
    exec(environment, names)
    exec(parts.get("tools", ""), names)
    arguments = in_library._config(model_init_kwargs={"dtype": "float32"}, max_steps=1)
    in_library.STAGE[0] = "trainer"
    factory = functools.partial(names["Game"], **(config or {})) if "Game" in names else None
    if "several" in names:
        factory = names["several"](3)
    built = GRPOTrainer(
        model=str(model_with()),
        args=arguments,
        train_dataset=Dataset.from_list(rows or [{"prompt": TALKS, "answer": "2"}] * 8),
        reward_funcs=[
            lambda completions, **kwargs: [float(len(str(one))) for one in completions],
        ][: parts.get("rewards", 1)],
        tools=[names[name] for name in parts.get("tool_names", [])],
        environment_factory=factory,
        rollout_func=in_library._functions(parts["rollout"])[-1] if "rollout" in parts else None,
    )
    in_library.STAGE[0] = "train"
    built.train()
    return {
        "logs": built.state.log_history,
        "tools": [tool.__name__ for tool in built.tools],
        "called": {name: str(tool()) for name, tool in (built._sync_tool_dicts[0] if built.tools else {}).items()},
        "rewards": built.reward_func_names,
    }
