"""Converts an axolotl GRPO configuration to the flat keys that axolotl passes to TRL.

data/axolotl.json decides the keys that need no other: `same` and `renamed` have TRL's names, `where_true` the value of
TRL's key that a true one stands for.

Source: axolotl core/builders/base.py, core/trainers/grpo/__init__.py, loaders/model.py, utils/config/__init__.py.
"""

from collections.abc import Mapping

from grpo_recipes.schemas.other_names import algorithm_row, key_names_of
from grpo_recipes.takeover.basis.context import SERVER_ADDRESS
from grpo_recipes.takeover.basis.draft import Draft, Given
from grpo_recipes.takeover.basis.read import table_of

NO_TRANSFORM = "builds the prompt: write dataset.prompt and dataset.columns as templates over the row"


def is_axolotl(values: Mapping[str, object]) -> bool:
    """Whether a configuration is axolotl's."""
    return "base_model" in values or isinstance(values.get("trl"), Mapping)


def as_trl_keys(values: dict[str, object], draft: Draft) -> Given:
    """The configuration's keys by TRL's names; adds rows for keys that only axolotl has."""
    tables = table_of("axolotl")
    file, flat = Given(values, draft), Given({}, draft)
    inside = file.inside("trl")
    if isinstance(inside.values.get("reward_funcs"), str):
        inside.values["reward_funcs"] = [inside.values["reward_funcs"]]
    for name in list(inside.values):
        if name in tables["trl"]:
            _hand_on(inside, flat, name, name)
        else:
            inside.answer(name, tables["in_trl"].get(name))
    same = {name: name for name in tables["same"]}
    for name, today in {**key_names_of("axolotl"), **tables["renamed"], **same}.items():
        if name in file:
            _hand_on(file, flat, name, today)
    if "rl" not in file:
        file.add_row("rl", "emulated", "warm_start", "without rl it trains on answers; warm_start does before GRPO")
    row = algorithm_row(file.values.get("rl")) if file.values.get("rl") == "gdpo" else None
    if row is not None:
        flat.values = row["set"] | flat.values
        file.emulate_key("rl", f"grpo.{' and grpo.'.join(row['set'])} sets it")
    _precision(file, draft)
    if file.values.get("adapter") in ("lora", "qlora"):
        file.add_row("adapter", "mapped", "lora", "a `lora` section")
        flat.values["use_peft"], flat.names["use_peft"] = True, "adapter"
    if "gradient_checkpointing" in file:
        flat.taken["gradient_checkpointing"] = file.values["gradient_checkpointing"]
    for name, (today, value) in tables["where_true"].items():
        _where_true(file, flat, name, today, value)
    if flat.values.get("load_in_4bit"):
        flat.values["use_bnb_nested_quant"], flat.names["use_bnb_nested_quant"] = True, "load_in_4bit"
    _rows(file, flat)
    _vllm(file, flat)
    special = file.values.get("special_tokens")
    if isinstance(special, Mapping) and set(special) == {"pad_token"}:
        file.emulate_key("special_tokens", "padding is masked; the tokenizer keeps the model's own")
    for name in list(file.values):
        of_a_plugin = next((because for start, because in tables["plugins"].items() if name.startswith(start)), None)
        file.answer(name, {"because": of_a_plugin} if of_a_plugin else tables["answers"].get(name))
    _defaults(flat)
    return flat


def _hand_on(file: Given, flat: Given, name: str, today: str) -> None:
    value = file.values[name]
    if value is None:
        file.map_key(name, because="null sets nothing")
    elif today in flat:
        file.emulate_key(name, f"{flat.name(today)} wins")
    else:
        flat.values[today], flat.names[today] = file.take(name), file.name(name)


def _where_true(file: Given, flat: Given, name: str, today: str, value: object) -> None:
    """Hands on the value that a key stands for if it is true, and nothing else has set it."""
    if name in file and file.values[name] and today not in flat:
        flat.values[today], flat.names[today] = value, name
        file.take(name)
    elif name in file:
        file.map_key(name)


def _precision(file: Given, draft: Draft) -> None:
    """Expands the precision: bf16 true or auto is autocast with bfloat16 weights; full is only bfloat16 weights. The
    default is auto, which fp16 overrides.
    """
    fp16, bf16 = bool(file.values.get("fp16")), file.values.get("bf16", "auto")
    if bf16 == "auto" and fp16:
        bf16 = False
    on = bf16 in (True, "true", "auto", "full")
    dtype = "bfloat16" if on else "float16" if fp16 else "float32"
    draft.put("model.dtype", dtype, f"axolotl loads the weights this way for bf16: {str(bf16).lower()}")
    if "bf16" not in file:
        draft.put("training.bf16", on, "axolotl's own default: auto, true on GPUs that can" if on else "")
    elif bf16 == "auto":
        file.emulate_key("bf16", "auto is true on GPUs that can", "training.bf16", True)
    else:
        file.map_key("bf16", "training.bf16", on and bf16 != "full")
    if "fp16" in file:
        file.map_key("fp16", "training.fp16", fp16 and not on)


def _rows(file: Given, flat: Given) -> None:
    if "datasets" not in file:
        return
    parts = file.take("datasets")
    listed = [dict(part) for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    for part in listed:
        file.taken["datasets.type"] = kind = part.pop("type", None)
        if kind is not None:
            is_python = isinstance(kind, str) and "." in kind and not kind.startswith("chat_template")
            builder = f"axolotl's {kind if isinstance(kind, str) else 'own format'}"
            file.refuse_key(
                "datasets.type", f"{'a Python function' if is_python else builder} {NO_TRANSFORM}", "dataset"
            )
        if part.get("ds_type") in ("json", "csv", "parquet"):
            file.taken["datasets.ds_type"] = part.pop("ds_type")
            file.emulate_key("datasets.ds_type", "grpo-run knows it by the name of the file")
    flat.values["datasets"] = listed or parts


def _vllm(file: Given, flat: Given) -> None:
    """Takes over axolotl's `vllm` section, read by `axolotl vllm-serve` or by a trainer that runs vLLM itself."""
    inside = file.inside("vllm")
    uses_vllm = flat.values.get("use_vllm") is True
    is_server = inside.values or any(flat.values.get(address) is not None for address in SERVER_ADDRESS)
    mode = flat.values.get("vllm_mode")
    if uses_vllm and is_server and "vllm_mode" not in flat:
        because = "the `vllm` section is for axolotl's server" if inside.values else "the file names a server's address"
        flat.draft.put("generation.vllm_mode", "server", because)
        mode = flat.taken["vllm_mode"] = "server"
    for name, home in (("gpu_memory_utilization", "gpu_memory_utilization"), ("tensor_parallel_size", "gpus")):
        if name not in inside:
            continue
        if not uses_vllm or any(address in flat for address in SERVER_ADDRESS):
            inside.emulate_key(name, "read with use_vllm by a server that the run starts")
        elif mode == "colocate" or inside.values[name] is None:
            _hand_on(inside, flat, name, f"vllm_{name}")
        else:
            value = inside.values[name]
            inside.map_key(name, f"vllm_server.{home}", value, "for the server, which the run starts")
    inside.answers(table_of("axolotl")["vllm"], {"because": "no recipe key has this meaning", "at": "generation"})


def _defaults(flat: Given) -> None:
    """Adds axolotl's defaults that differ from TRL's."""
    draft, tables = flat.draft, table_of("axolotl")["defaults"]
    for name, value in tables["of_training"].items():
        if name not in flat and name not in flat.taken:
            draft.put(f"training.{name}", value, "axolotl's own default")
            flat.taken[name] = value
    if "warmup_steps" not in flat and "warmup_ratio" not in flat:
        steps, share = flat.values.get("max_steps"), tables["warmup_ratio"]
        known = isinstance(steps, int) and steps > 0
        flat.taken["warmup_steps"] = min(int(share * steps), tables["most_warmup_steps"]) if known else share
        draft.put("training.warmup_steps", flat.taken["warmup_steps"], "axolotl's own default, 3 % of the steps")
    if flat.values.get("wandb_project") and "report_to" not in flat:
        draft.put("logging.report_to", ["wandb"], "axolotl reports there when wandb_project is written")
    if flat.values.get("use_peft") and "lora_dropout" not in flat:
        flat.values["lora_dropout"], flat.names["lora_dropout"] = tables["lora_dropout"], "adapter"
