"""DAT005: what vLLM answers is not the prompt that TRL trains, once it has images."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from vllm_servers import environment

pytestmark = pytest.mark.vllm
ROOT = Path(__file__).parents[2]
TORCHVISION = ROOT / "build" / "torchvision"


@pytest.mark.skipif(not TORCHVISION.is_dir(), reason="make test-vllm fetches torchvision, which vLLM needs for images")
def test_vllm_adds_the_tokens_of_an_image_to_a_prompt_that_has_them(tmp_path: Path) -> None:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", TORCHVISION)))
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("images_in_vllm.py")), str(tmp_path / "model")],
        env=environment(PYTHONPATH=paths),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    given, answered = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[[")))
    (image,) = {token for token in given if given.count(token) == 4}
    assert answered.count(image) > given.count(image)
    assert len(answered) > len(given), "the policy would be asked another prompt than the loss has"
