"""TRN009: torch multiplies bfloat16 faster than float32 with AVX512-BF16, slower without, and far slower with AVX2."""

import json
import os
import platform
import subprocess
import sys

import pytest

from grpo_recipes.stack.probe import has_avx512_bf16

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="instructions of x86 processors"),
]

# CPU seconds of a product of two matrices, forward and backward, the least of several. The two dtypes take turns, so
# that a processor that changes its clock changes both.
MEASURE = """
import json, time, torch
torch.set_num_threads(1)

def spend(a, b):
    began = time.process_time()
    for _ in range(REPEATS):
        (a @ b).sum().backward()
    return time.process_time() - began

dtypes = (torch.bfloat16, torch.float32)
pairs = [[torch.randn(384, 384).to(dtype).requires_grad_() for _ in range(2)] for dtype in dtypes]
spent = [[spend(*pair) for pair in pairs] for _ in range(ROUNDS)][1:]
bfloat16, float32 = map(min, zip(*spent))
print(json.dumps({"known": torch.ops.mkldnn._is_mkldnn_bf16_supported(), "ratio": bfloat16 / float32}))
"""


def _measured(instructions: str | None) -> dict[str, float]:
    """How much longer bfloat16 takes, if oneDNN uses no more than these instructions."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if instructions is not None:
        environment["ONEDNN_MAX_CPU_ISA"] = instructions
    repeats, rounds = ("2", "4") if instructions == "AVX2" else ("10", "20")
    code = MEASURE.replace("REPEATS", repeats).replace("ROUNDS", rounds)
    ran = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    answer: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def test_without_avx512_torch_has_no_kernel_of_its_own() -> None:
    answer = _measured("AVX2")
    assert not answer["known"]
    assert answer["ratio"] > 4


def test_with_avx512_alone_each_number_is_converted() -> None:
    assert _measured("AVX512_CORE")["ratio"] > 1.1  # 1.2 on AMD EPYC


@pytest.mark.skipif(has_avx512_bf16() is not True, reason="this processor has no AVX512-BF16")
def test_with_avx512_bf16_it_is_faster_than_float32() -> None:
    answer = _measured(None)
    assert answer["known"]
    assert answer["ratio"] < 0.9
