"""The model: ModelConfig's keys, `model_init_kwargs`, LoRA and quantization."""

import re
from collections.abc import Mapping

from grpo_recipes.takeover.basis.context import Situation, beside_the_recipe
from grpo_recipes.takeover.basis.read import Unreadable, as_trl_reads, rows_of, table_of
from grpo_recipes.user_files.model_config import read_model_config

IGNORED = "`trl grpo` before 0.26 reads it and loads the model without it"
DTYPES = ("float32", "bfloat16", "float16")
# ModelConfig's keys of LoRA, their types, LoraConfig's names, and ModelConfig's defaults that differ from PEFT's.
LORA: dict[str, tuple[str, str, object]] = {
    "lora_r": ("int", "lora.r", 16),
    "lora_alpha": ("int", "lora.lora_alpha", 32),
    "lora_dropout": ("float", "lora.lora_dropout", 0.05),
    "lora_target_modules": ("list[str] | str | None", "lora.target_modules", None),
    "lora_target_parameters": ("list[str] | str | None", "lora.target_parameters", None),
    "lora_modules_to_save": ("list[str] | None", "lora.modules_to_save", None),
    "use_rslora": ("bool", "lora.use_rslora", False),
    "use_dora": ("bool", "lora.use_dora", False),
}
QUANTIZATION = {
    "load_in_8bit": ("bool", "quantization.load_in_8bit"),
    "load_in_4bit": ("bool", "quantization.load_in_4bit"),
    "bnb_4bit_quant_type": ("str", "quantization.bnb_4bit_quant_type"),
    "use_bnb_nested_quant": ("bool", "quantization.bnb_4bit_use_double_quant"),
    "bnb_4bit_quant_storage": ("str | None", "quantization.bnb_4bit_quant_storage"),
}
# Config keys of mixtures of experts, and the names of such models.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "router_aux_loss_coef")
MIXTURE = re.compile(
    r"moe|mixtral|\d+x\d+b|-a\d+(\.\d+)?b|gpt-oss|deepseek-?v[23]|llama-4|glm-4\.[5-9]|kimi-k|minimax|jamba|dbrx",
    re.IGNORECASE,
)
LOADING = {"dtype": "dtype", "torch_dtype": "dtype", "revision": "model_revision"}
LOADING |= {name: name for name in ("attn_implementation", "trust_remote_code")}
NO_ADAPTER = "the configuration does not say whether the script passes one; if it does, write its values under `lora`"


def take_model(situation: Situation) -> None:
    """Takes over all keys about the model."""
    given = situation.given
    if given.values.get("model_name_or_path"):
        name = str(given.values["model_name_or_path"])
        given.mapped("model_name_or_path", "model.model_name_or_path", beside_the_recipe(name, situation.folder))
    else:
        situation.draft.put("model.model_name_or_path", "owner/model", "no model was named: replace it with yours")
        given.refused("model_name_or_path", "the configuration names no model", "model.model_name_or_path")
        if "use_peft" not in given:
            given.refused("peft_config", NO_ADAPTER, "model.model_name_or_path")
    _loading_arguments(situation)
    for name in ("dtype", "torch_dtype", "model_revision", "attn_implementation", "trust_remote_code"):
        if name in given:
            _loading(situation, name)
    _quantization(situation)
    _lora(situation)


def _loading_arguments(situation: Situation) -> None:
    """Takes over model_init_kwargs: its keys override those of ModelConfig, as in TRL's script."""
    given = situation.given
    if "model_init_kwargs" not in given:
        return
    try:
        block = as_trl_reads(given.take("model_init_kwargs"), "dict | str | None")
    except Unreadable as problem:
        given.refused("model_init_kwargs", f"TRL cannot take it: {problem}", "model")
        return
    if not isinstance(block, Mapping) or not block:
        given.mapped("model_init_kwargs", None)
        return
    for key, value in block.items():
        name = LOADING.get(str(key))
        spelled = f"model_init_kwargs.{key}"
        if name is None:
            given.names[spelled] = spelled
            given.taken[spelled] = value
            if key == "use_cache":
                given.emulated(spelled, None, None, "the cache is on for generation and off for training")
            else:
                given.refused(spelled, "the model is loaded with the values under `model` and `quantization`", "model")
            continue
        if name in given:
            given.emulated(name, None, None, f"{spelled} wins")
        given.values[name], given.names[name] = value, spelled
        _loading(situation, name, always=True)


def _loading(situation: Situation, name: str, *, always: bool = False) -> None:
    given = situation.given
    value = given.values[name]
    where = f"model.{'dtype' if name == 'torch_dtype' else name}"
    if not always and not _is_read(situation, where.removeprefix("model.")):
        given.emulated(name, None, None, IGNORED)
        situation.draft.comments["model"] = f"{name}: {IGNORED}"
    elif where in situation.draft.values:
        given.emulated(name, None, None, f"{where} is already set")
    elif name == "trust_remote_code":
        given.mapped(name, where, value in (True, "true", "True", "yes", 1))
    elif where == "model.dtype" and value is not None and str(value).removeprefix("torch.") not in DTYPES:
        own = _own_dtype(situation) if value == "auto" else None
        if own is None:
            given.refused(name, f"a recipe sets the dtype of the weights to {', '.join(DTYPES)}, not {value}", where)
        else:
            given.emulated(name, where, own, "as in the model's own config")
    elif value is None:
        given.mapped(name, None)
    else:
        given.mapped(name, where, str(value).removeprefix("torch."))


def _is_read(situation: Situation, name: str) -> bool:
    """Whether the script passes a key of ModelConfig to the model; a script without rewards is its author's."""
    if not {"reward_funcs", "reward_model_name_or_path"} & set(situation.given.values):
        return True
    window = rows_of("script_loads_the_model").get(situation.dialect, {}).get(name)
    return window is None or situation.release.is_in({"trl": window})


def _config(situation: Situation) -> Mapping[str, object]:
    return read_model_config(str(situation.draft.values["model.model_name_or_path"])) or {}


def mixes_experts(situation: Situation) -> bool:
    """Whether the model is a mixture of experts: by its configuration, or by name if that is unknown here."""
    config = _config(situation)
    if config:
        return any(config.get(key) for key in EXPERTS)
    return MIXTURE.search(str(situation.draft.values["model.model_name_or_path"])) is not None


def _own_dtype(situation: Situation) -> str | None:
    config = _config(situation)
    own = config.get("dtype") or config.get("torch_dtype")
    return own if own in DTYPES else None


def _read(situation: Situation, name: str, kind: str) -> object:
    """The value of a key; None, with a row, if TRL cannot take it."""
    given = situation.given
    try:
        return as_trl_reads(given.values.get(name), kind if name in given else "None")
    except Unreadable as problem:
        given.refused(name, f"TRL cannot take it: {problem}")
        return None


def _quantization(situation: Situation) -> None:
    given, draft = situation.given, situation.draft
    values = {name: _read(situation, name, kind) for name, (kind, _) in QUANTIZATION.items()}
    is_on = bool(values["load_in_4bit"] or values["load_in_8bit"])
    read = _is_read(situation, "quantization")
    for name, (_, where) in QUANTIZATION.items():
        if name not in given:
            continue
        if not read and is_on:
            given.emulated(name, None, None, IGNORED)
        elif is_on and values[name] is not None:
            given.mapped(name, where, values[name])
        else:
            given.mapped(name, None, because="" if name.startswith("load_in") else "read only with load_in_4bit")
    if not (read and values["load_in_4bit"]):
        return
    dtype = draft.values.get("model.dtype", "float32")
    draft.values.setdefault("quantization.bnb_4bit_quant_type", "nf4")
    draft.put("quantization.bnb_4bit_compute_dtype", dtype, "TRL takes the dtype of the weights")
    if situation.release.is_in(rows_of("quant_storage_is_the_dtype")) and "model.dtype" in draft.values:
        draft.values.setdefault("quantization.bnb_4bit_quant_storage", dtype)


def _lora(situation: Situation) -> None:
    given, draft = situation.given, situation.draft
    wanted = _read(situation, "use_peft", "bool")
    if "use_peft" in given:
        given.mapped("use_peft", None, because="a `lora` section" if wanted else "no `lora` section")
    for name, (kind, where, default) in LORA.items():
        if not wanted:
            if name in given:
                given.emulated(name, None, None, "TRL reads it only with use_peft: true")
            continue
        value = _read(situation, name, kind) if name in given else default
        if isinstance(value, list) and len(value) == 1 and name == "lora_target_modules":
            value = value[0] if value[0] == "all-linear" else value
        if name in given and value is not None:
            given.mapped(name, where, value)
        elif name in given:
            given.mapped(name, None)
        elif value not in (None, False):
            draft.put(where, value, "TRL's own default")
    if wanted and "lora.target_modules" not in draft.values:
        _target_modules(situation)


def _target_modules(situation: Situation) -> None:
    """Writes the target modules: PEFT's default depends on the architecture, a recipe states them."""
    kind = _config(situation).get("model_type")
    modules = table_of("peft_targets").get(str(kind))
    if modules is not None:
        situation.draft.put("lora.target_modules", modules, f"PEFT's own choice for {kind}")
    else:
        reason = "PEFT chooses by the model's architecture, which is not known here; write the list"
        situation.given.refused("lora_target_modules", reason, "lora.target_modules")
