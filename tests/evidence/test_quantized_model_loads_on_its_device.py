"""QNT003: accelerate refuses a quantized model that is spread over devices; on its own device it trains."""

import pytest
from library import Library, environment_of_ranks

pytestmark = pytest.mark.stack


def test_on_the_device_of_its_process_it_trains(library: Library) -> None:
    lora = {"r": 4, "target_modules": ["q_proj"]}
    answer = library.call("build", arguments={}, quantization={"load_in_8bit": True}, lora=lora, device_map={"": "cpu"})
    assert (answer.raised, answer.result["devices"]) == ("", ["cpu"])


def test_spread_over_devices_it_is_refused_in_a_distributed_run(library: Library) -> None:
    spread = {"model.layers.0": 0, "model.layers.1": 1}
    answer = library.call("prepare_spread", device_map=spread, environment=environment_of_ranks())
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "in any distributed mode" in answer.text


def test_on_gpus_every_process_has_its_own(library: Library) -> None:
    if not library.call("cuda_devices").result:
        pytest.skip("needs a GPU; on the CPU transformers keeps no device map")
    lora = {"r": 4, "target_modules": ["q_proj"]}
    arguments = {"use_cpu": False}
    quantization = {"load_in_4bit": True}
    answer = library.call("build", arguments=arguments, quantization=quantization, lora=lora, device_map={"": 0})
    assert answer.result == {"device_map": {"": "0"}, "devices": ["cuda:0"]}
