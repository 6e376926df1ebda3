"""A model whose class is in its own folder trains through grpo-run, if its code is allowed.

The class knows no keyword for the last logits and takes none but those that it names. It needs the shims
`logits_to_keep` (SHM007) and, where TRL looks for classes in transformers alone, `remote_code` (SHM010).
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from environments import STACKS
from laboratory import Laboratory, Outcome
from rendered import Rendered, rendered
from small_model import write_small_model
from test_same_experiment import recipe

pytestmark = pytest.mark.stacks

CODE = """
from transformers import Qwen2Config, Qwen2ForCausalLM
from transformers.modeling_outputs import CausalLMOutputWithPast


class OwnConfig(Qwen2Config):
    model_type = "own"


class OwnForCausalLM(Qwen2ForCausalLM):
    config_class = OwnConfig

    def forward(
        self, input_ids=None, attention_mask=None, position_ids=None, past_key_values=None, inputs_embeds=None,
        use_cache=None, cache_position=None, labels=None, output_attentions=None, output_hidden_states=None,
        return_dict=None,
    ):
        place = {} if cache_position is None else {"cache_position": cache_position}
        out = self.model(
            input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids,
            past_key_values=past_key_values, inputs_embeds=inputs_embeds, use_cache=use_cache, **place,
        )
        return CausalLMOutputWithPast(logits=self.lm_head(out.last_hidden_state), past_key_values=out.past_key_values)
"""
CLASSES = {"AutoConfig": "modeling_own.OwnConfig", "AutoModelForCausalLM": "modeling_own.OwnForCausalLM"}


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, its code beside it, and rows of sums."""
    folder = tmp_path_factory.mktemp("own")
    config = write_small_model(folder / "model") / "config.json"
    changed = {"model_type": "own", "architectures": ["OwnForCausalLM"], "auto_map": CLASSES}
    config.write_text(json.dumps(json.loads(config.read_text()) | changed))
    (folder / "model" / "modeling_own.py").write_text(CODE)
    rows = "".join(f'{{"question": "{a}+{b}="}}\n' for a in range(2, 20, 3) for b in range(3, 12, 2))
    (folder / "rows.jsonl").write_text(rows)
    return folder


def planned(stack: str, own: Path, folder: Path, *, allowed: bool, without: tuple[str, ...] = ()) -> Rendered:
    """Two steps with an adapter, a KL term and autocast."""
    training = {"max_steps": 2, "optim": "adamw_torch", "learning_rate": 1e-3, "bf16": True}
    if stack.startswith("0.14."):
        training["per_device_train_batch_size"] = "auto"
    written = recipe(own, "grpo", "LoRA", training=training)
    written["model"]["trust_remote_code"] = allowed
    return rendered(written, stack, folder, without)


def train(laboratory: Laboratory, stack: str, own: Path, folder: Path, **given: Any) -> tuple[Outcome, Any]:
    """The outcome and run.json."""
    made = planned(stack, own, folder, **given)
    assert made.errors == () and made.folder is not None
    modules = {"HF_MODULES_CACHE": str(folder / "modules")}
    outcome = laboratory.run(stack, "trained_runs.trained", run_folder=str(made.folder), environment=modules)
    return outcome, json.loads((made.folder / "run.json").read_text())


@pytest.mark.parametrize("stack", [STACKS[0], "0.23.1/4.57.6", "0.26.2/4.57.6", STACKS[-1]])
def test_it_trains_with_all_its_proofs(stack: str, own: Path, laboratory: Laboratory, tmp_path: Path) -> None:
    outcome, record = train(laboratory, stack, own, tmp_path / "it", allowed=True)
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    assert (outcome.result["adapters"], outcome.result["zero"]) == (14, [])
    assert not [proof for proof in record["proofs"] if proof["ok"] is False]


@pytest.mark.parametrize("stack", ["0.23.1/4.57.6"])
def test_code_that_is_not_allowed_does_not_run(stack: str, own: Path, laboratory: Laboratory, tmp_path: Path) -> None:
    outcome, record = train(laboratory, stack, own, tmp_path / "it", allowed=False)
    assert outcome.result["exit_code"] == 1
    assert "contains custom code" in record["message"]


@pytest.mark.parametrize("stack", ["0.23.1/4.57.6"])
def test_without_the_shim_trl_does_not_find_its_class(
    stack: str, own: Path, laboratory: Laboratory, tmp_path: Path
) -> None:
    outcome, record = train(laboratory, stack, own, tmp_path / "it", allowed=True, without=("remote_code",))
    assert outcome.result["exit_code"] == 1
    assert "trust_remote_code=True" in record["message"], "the defect is gone: remove the shim"


SWALLOWS = CODE.replace("        return_dict=None,\n", "        return_dict=None, **kwargs,\n")
OWN_PREPARATION = """
    def prepare_inputs_for_generation(self, input_ids, past_key_values=None, attention_mask=None, **kwargs):
        seen = 0 if past_key_values is None else past_key_values.get_seq_length()
        return {
            "input_ids": input_ids[:, seen:].contiguous(), "attention_mask": attention_mask,
            "past_key_values": past_key_values, "use_cache": True,
        }
"""


def of_code(own: Path, folder: Path, code: str) -> Path:
    """The folder of the fixture, with other code beside the weights."""
    copied = shutil.copytree(own, folder)
    (copied / "model" / "modeling_own.py").write_text(code)
    return copied


@pytest.mark.parametrize("code", [SWALLOWS, CODE + OWN_PREPARATION], ids=["swallows keywords", "prepares its inputs"])
@pytest.mark.parametrize("stack", ["1.9.0/5.23.0", STACKS[-1]])
def test_a_class_that_knows_the_cache_by_its_old_name_generates_with_it(
    stack: str, code: str, own: Path, laboratory: Laboratory, tmp_path: Path
) -> None:
    other = of_code(own, tmp_path / "own", code)
    outcome, record = train(laboratory, stack, other, tmp_path / "it", allowed=True)
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    (generation,) = [proof for proof in record["proofs"] if proof["id"] == "PRF038"]
    assert generation["ok"] is True
    assert ("cache_keyword" in record["shims"]) is (stack == STACKS[-1])
    if stack == STACKS[-1]:
        assert "of OwnForCausalLM get cache as past_key_values" in record["shims"]["cache_keyword"]


@pytest.mark.parametrize("stack", STACKS[-1:])
def test_without_the_shim_a_lost_cache_stops_the_run_before_its_first_step(
    stack: str, own: Path, laboratory: Laboratory, tmp_path: Path
) -> None:
    other, without = of_code(own, tmp_path / "own", SWALLOWS), ("cache_keyword",)
    outcome, record = train(laboratory, stack, other, tmp_path / "it", allowed=True, without=without)
    assert outcome.result["exit_code"] == 3, "the defect is gone: remove the shim"
    assert "generation: the proof failed in step 1 [PRF038]" in record["message"]
