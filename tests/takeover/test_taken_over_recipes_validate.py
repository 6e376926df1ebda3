"""A recipe that is taken over in full is one that validate takes, on the release that its file was written for."""

from pathlib import Path

import pytest
from taken import taken

from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.gpus import gpu_by_name
from grpo_recipes.stack.target import parse_target

RELEASES = ("0.19.1", "0.22.2", "1.0.0", "1.9.0", "1.16.0")
VLLM = ("{}", "{use_vllm: true}", "{use_vllm: true, vllm_mode: server}", "{use_vllm: true, vllm_mode: colocate}")
MACHINES = (
    "num_processes: 7\nnum_machines: 1\ndistributed_type: MULTI_GPU\n",
    "num_processes: 16\nnum_machines: 2\nmain_process_ip: 10.0.0.1\ndistributed_type: DEEPSPEED\n"
    "deepspeed_config: {zero_stage: 3}\n",
)
CONFIG = """
model_name_or_path: Qwen/Qwen2.5-0.5B
dataset_name: owner/data
reward_funcs: [mine.first, mine.second]
reward_weights: [1.0, 0.5]
per_device_train_batch_size: 8
gradient_accumulation_steps: 4
num_generations: 8
bf16: true
"""


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("accelerate", MACHINES, ids=["one machine", "two machines"])
def test_what_is_taken_over_in_full_validates(release: str, accelerate: str, tmp_path: Path) -> None:
    for vllm in VLLM:
        text = CONFIG + vllm.strip("{}").replace(", ", "\n") + "\n"
        one = taken(tmp_path, text, f"trl=={release}", accelerate=accelerate)
        assert one.is_complete, [row for row in one.rows if row.fate == "refused"]
        for name, content in {**one.files, "recipe.yaml": one.text}.items():
            (tmp_path / name).write_text(content, encoding="utf-8")
        stack, _ = parse_target(f"trl=={release},transformers=={one.release.transformers}")
        gpu = gpu_by_name("H100-80GB")
        assert stack is not None and gpu is not None
        found = resolve(str(tmp_path / "recipe.yaml"), stack._replace(gpus=(gpu,) * 8)).findings
        assert [finding.message for finding in found if finding.severity == "error"] == []
        for name in one.files:
            (tmp_path / name).unlink()
