"""Converts an axolotl GRPO configuration to the flat keys that axolotl passes to TRL.

Source: axolotl core/builders/base.py, core/trainers/grpo/__init__.py, loaders/model.py, utils/config/__init__.py.
"""

from collections.abc import Mapping

from grpo_recipes.schemas.other_names import algorithm_row, renamed_keys
from grpo_recipes.takeover.basis.context import SERVER_ADDRESS
from grpo_recipes.takeover.basis.draft import Draft, Given
from grpo_recipes.takeover.basis.read import table_of

NO_TRANSFORM = "a Python function builds the prompt: write dataset.prompt and dataset.columns as templates over the row"


def is_axolotl(values: Mapping[str, object]) -> bool:
    """Whether a configuration is axolotl's."""
    return "base_model" in values or isinstance(values.get("trl"), Mapping)


def as_trl_keys(values: dict[str, object], draft: Draft) -> Given:
    """The configuration's keys by TRL's names; adds rows for keys that only axolotl has."""
    tables = table_of("axolotl")
    file = Given(values, draft)
    flat = Given({}, draft)
    _trl_block(file, flat)
    for name, today in [*_renamed().items(), *[(name, name) for name in tables["same"]]]:
        if name in file:
            _hand_on(file, flat, name, today)
    _algorithm(file, flat)
    _precision(file, flat)
    _checkpointing(file, flat)
    _adapter(file, flat)
    _attention(file, flat)
    _rows(file, flat)
    _vllm(file, flat)
    _template(file)
    for name in list(file.values):
        of_a_plugin = next((one for start, one in tables["plugins"].items() if name.startswith(start)), None)
        if of_a_plugin is not None:
            file.refused(name, of_a_plugin)
        else:
            file.answer(name, tables["answers"].get(name))
    _defaults(flat, draft)
    return flat


def _renamed() -> dict[str, str]:
    """axolotl's names for keys that TRL calls differently."""
    same = table_of("axolotl")["same"]
    names = {name: today for name, today in renamed_keys("axolotl").items() if name not in same}
    return {**names, "eval_batch_size": "per_device_eval_batch_size", "lora_modules_to_save": "lora_modules_to_save"}


def _algorithm(file: Given, flat: Given) -> None:
    """Expands `rl`: the keys that axolotl sets for an algorithm other than grpo, unless the file sets them."""
    word = file.values.get("rl")
    row = algorithm_row(word) if word == "gdpo" else None
    if row is None:
        return
    for name, value in row["set"].items():
        flat.values.setdefault(name, value)
    file.emulated("rl", None, None, f"grpo.{' and grpo.'.join(row['set'])} sets it")


def _hand_on(file: Given, flat: Given, name: str, today: str, spelled: str = "") -> None:
    value = file.take(name)
    spelled = spelled or name
    if value is None:
        file.taken[name] = None
        file.names[name] = spelled
        file.mapped(name, None, because="null sets nothing")
        return
    if today in flat:
        flat.names[f"{today} "] = spelled
        flat.taken[f"{today} "] = value
        flat.emulated(f"{today} ", None, None, f"{flat.name(today)} wins")
        return
    flat.values[today] = value
    if spelled != today:
        flat.names[today] = spelled


def _trl_block(file: Given, flat: Given) -> None:
    tables = table_of("axolotl")
    inside = file.inside("trl")
    if "reward_funcs" in inside and isinstance(inside.values["reward_funcs"], str):
        inside.values["reward_funcs"] = [inside.values["reward_funcs"]]
    for name in list(inside.values):
        if name in tables["trl"]:
            _hand_on(inside, flat, name, name, f"trl.{name}")
        else:
            inside.answer(name, tables["in_trl"].get(name))


def _precision(file: Given, flat: Given) -> None:
    """Expands the precision: bf16 true or auto is autocast with bfloat16 weights; full is only bfloat16 weights. The
    default is auto, which fp16 overrides.
    """
    fp16 = bool(file.values.get("fp16"))
    bf16 = file.values.get("bf16", "auto")
    if bf16 == "auto" and fp16:
        bf16 = False
    on = bf16 in (True, "true", "auto", "full")
    dtype = "bfloat16" if on else "float16" if fp16 else "float32"
    flat.draft.put("model.dtype", dtype, f"axolotl loads the weights this way for bf16: {str(bf16).lower()}")
    if "bf16" not in file:
        flat.draft.put("training.bf16", on, "axolotl's own default: auto, true on GPUs that can" if on else "")
    elif bf16 == "auto":
        file.emulated("bf16", "training.bf16", True, "auto is true on GPUs that can")
    else:
        file.mapped("bf16", "training.bf16", on and bf16 != "full")
    if "fp16" in file:
        file.mapped("fp16", "training.fp16", fp16 and not on)
    if "tf32" in file:
        file.mapped("tf32", "trl.tf32" if file.values["tf32"] is True else None, True)


def _checkpointing(file: Given, flat: Given) -> None:
    name = "gradient_checkpointing"
    if name not in file:
        return
    value = file.values[name]
    if value in (True, False, None):
        file.mapped(name, f"training.{name}", bool(value))
    else:
        file.emulated(name, f"training.{name}", True, f"{value} also offloads them; here they are only recomputed")
    flat.taken[name] = value


def _adapter(file: Given, flat: Given) -> None:
    tables = table_of("axolotl")
    adapter = file.values.get("adapter")
    if "adapter" in file:
        if str(adapter) in tables["adapters"]:
            file.told("adapter", "mapped", "lora", "a `lora` section")
            flat.values["use_peft"] = True
            flat.names["use_peft"] = "adapter"
        elif adapter is None:
            file.mapped("adapter", None)
        else:
            file.refused("adapter", "the adapters are lora and qlora", "lora")
    if "lora_target_linear" in file:
        if file.values["lora_target_linear"] and "lora_target_modules" not in flat:
            _hand_on(file, flat, "lora_target_linear", "lora_target_modules")
            flat.values["lora_target_modules"] = "all-linear"
        else:
            file.mapped("lora_target_linear", None)
    if flat.values.get("load_in_4bit"):
        flat.values["use_bnb_nested_quant"] = True
        flat.names["use_bnb_nested_quant"] = "load_in_4bit"


def _attention(file: Given, flat: Given) -> None:
    for name, implementation in table_of("axolotl")["attention"].items():
        if name not in file:
            continue
        if file.values[name] and "attn_implementation" not in flat:
            flat.values["attn_implementation"], flat.names["attn_implementation"] = implementation, name
            file.take(name)
        else:
            file.mapped(name, None)


def _rows(file: Given, flat: Given) -> None:
    if "datasets" not in file:
        return
    parts = file.take("datasets")
    listed = [dict(part) for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
    for part in listed:
        kind = part.pop("type", None)
        file.taken["datasets.type"] = kind
        if kind is not None:
            file.refused("datasets.type", NO_TRANSFORM, "dataset")
        if "split" in part and part["split"] is None:
            del part["split"]
    flat.values["datasets"] = listed or parts


def _vllm(file: Given, flat: Given) -> None:
    """Takes over axolotl's `vllm` section, read by `axolotl vllm-serve` or by a trainer that runs vLLM itself."""
    inside = file.inside("vllm")
    if flat.values.get("use_vllm") is True and inside.values and "vllm_mode" not in flat:
        flat.draft.put("generation.vllm_mode", "server", "the `vllm` section is for axolotl's server")
        flat.taken["vllm_mode"] = "server"
    mode = flat.values.get("vllm_mode") or flat.taken.get("vllm_mode")
    for name in ("gpu_memory_utilization", "tensor_parallel_size"):
        if name not in inside:
            continue
        if flat.values.get("use_vllm") is not True or any(address in flat for address in SERVER_ADDRESS):
            inside.emulated(name, None, None, "read with use_vllm by a server that the run starts")
        elif mode == "colocate" or inside.values[name] is None:
            _hand_on(inside, flat, name, f"vllm_{name}", f"vllm.{name}")
        else:
            home = "gpus" if name == "tensor_parallel_size" else name
            inside.mapped(name, f"vllm_server.{home}", inside.values[name], "for the server, which the run starts")
    for name in list(inside.values):
        said = table_of("axolotl")["vllm"].get(name)
        if said is None:
            inside.refused(name, "no recipe key has this meaning", "generation")
        else:
            inside.emulated(name, None, None, said)


def _template(file: Given) -> None:
    if "tokens" in file:
        file.mapped("tokens", "tokenizer.add_tokens", file.values["tokens"] or [])
    special = file.values.get("special_tokens")
    if isinstance(special, Mapping) and set(special) == {"pad_token"}:
        file.emulated("special_tokens", None, None, "padding is masked; the tokenizer keeps the model's own")
    if "chat_template" not in file:
        return
    if file.values["chat_template"] in (None, "tokenizer_default"):
        file.mapped("chat_template", None, because="the model's own")
    else:
        reason = "axolotl's own template: copy it to a file and name that"
        file.refused("chat_template", reason, "tokenizer.chat_template_path")


def _defaults(flat: Given, draft: Draft) -> None:
    """Adds axolotl's defaults that differ from TRL's."""
    tables = table_of("axolotl")["defaults"]
    for name in tables["of_training"]:
        if name not in flat and name not in flat.taken:
            draft.put(f"training.{name}", tables[name], "axolotl's own default")
            flat.taken[name] = tables[name]
    if "warmup_steps" not in flat and "warmup_ratio" not in flat:
        steps = flat.values.get("max_steps")
        known = isinstance(steps, int) and steps > 0
        share = tables["warmup_ratio"]
        warmup = min(int(share * steps), tables["most_warmup_steps"]) if known else share
        draft.put("training.warmup_steps", warmup, "axolotl's own default, 3 % of the steps")
        flat.taken["warmup_steps"] = warmup
    if flat.values.get("wandb_project") and "report_to" not in flat:
        draft.put("logging.report_to", ["wandb"], "axolotl reports there when wandb_project is written")
    if flat.values.get("use_peft") and "lora_dropout" not in flat:
        flat.values["lora_dropout"] = tables["lora_dropout"]
        flat.names["lora_dropout"] = "adapter"
