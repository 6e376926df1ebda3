"""What evidence about vLLM calls: TRL's own code on this side of vLLM, which is not installed."""

import json
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import urlsplit

import in_library


def _policy(folder: Any, lora: dict[str, Any] | None, quantization: dict[str, Any] | None, tied: bool) -> Any:
    """The policy, away from the model that it started as wherever it is trained."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    loading = {"quantization_config": BitsAndBytesConfig(**quantization)} if quantization is not None else {}
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, tie_word_embeddings=tied, **loading)
    if lora is not None:
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", **lora))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval()


def _handed_over(model: Any) -> Any:
    """The pairs of name and tensor that TRL hands to vLLM, as its VLLMGeneration makes them."""
    from accelerate import Accelerator
    from trl.distributed import DistributedBackend
    from trl.generation.vllm_generation import VLLMGeneration

    generation = object.__new__(VLLMGeneration)  # its constructor starts vLLM
    generation.model = model
    generation.accelerator = Accelerator(cpu=True)
    generation._dist = DistributedBackend(generation.accelerator)
    return generation._iter_named_params()


def seen_by_vllm(
    lora: dict[str, Any] | None = None, quantization: dict[str, Any] | None = None, tied: bool = True
) -> dict[str, Any]:
    """How the model that vLLM holds after the first handing over differs from the policy.

    unknown: names that the model does not have; shapes and dtypes: of the tensors that do not fit the model's.
    difference: the largest between the logits of both, None when tensors do not fit. As vLLM does, a tied model takes
    its output layer from the embeddings.
    """
    import torch
    from transformers import AutoModelForCausalLM

    folder = in_library.FOLDER / "model"
    policy = _policy(folder, lora, quantization, tied)
    torch.manual_seed(1)
    held = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, tie_word_embeddings=tied).eval()
    own, ids = dict(held.named_parameters()), torch.arange(3, 20)[None]
    with torch.no_grad():
        wanted = policy(ids).logits
        in_library.STAGE[0] = "train"
        unknown, unfit = [], []
        for name, tensor in _handed_over(policy):
            if name not in own and not (tied and name == "lm_head.weight"):
                unknown.append(name)
            elif name in own and (tensor.shape != own[name].shape or tensor.dtype != own[name].dtype):
                unfit.append([name, list(tensor.shape), list(own[name].shape), str(tensor.dtype)])
            elif name in own:
                own[name].copy_(tensor)
        difference = None if unfit else float((held(ids).logits - wanted).abs().max())
    return {"unknown": unknown, "unfit": unfit, "difference": difference}


def start_vllm(mode: str, tensor_parallel_size: int = 1, quantization: dict[str, Any] | None = None) -> None:
    """Builds TRL's VLLMGeneration in a world of one, as far as it comes without vLLM, which it is told is there."""
    from accelerate import Accelerator
    from trl.generation import vllm_generation

    folder = in_library.FOLDER / "model"
    lora = {"r": 4, "target_modules": ["q_proj"]} if quantization is not None else None
    model = _policy(folder, lora, quantization, tied=True)
    in_library.STAGE[0] = "trainer"
    vllm_generation.is_vllm_available = lambda: True
    vllm_generation.VLLMGeneration(
        model, Accelerator(cpu=True), None, mode=mode, tensor_parallel_size=tensor_parallel_size
    )


class InThisProcess:
    """Takes vLLM's place in a trainer: samples with transformers and answers as vLLM does with processed_logprobs.

    These log-probs are of the distribution that was sampled from: after the temperature, penalties and truncation.
    """

    def __init__(self, model: Any, **options: Any) -> None:
        self.model, self.options = model, options

    def sync_weights(self) -> None:
        """Nothing is to be handed over."""

    def generate(self, prompts: list[list[int]], **_: Any) -> tuple[Any, ...]:
        """Prompt ids, completion ids, their log-probs and the ids that these are of, one list for each prompt."""
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
        sampling = {name: self.options[name] for name in names} | self.options["generation_kwargs"]
        answers = [self._answer(prompt, sampling) for prompt in prompts]
        logprobs = [[[value] for value in values] for _, values in answers]
        return prompts, [ids for ids, _ in answers], logprobs, [[[token] for token in ids] for ids, _ in answers]

    def _answer(self, prompt: list[int], sampling: dict[str, Any]) -> tuple[list[int], list[float]]:
        import torch

        ids = torch.tensor([prompt])
        length = self.options["max_completion_length"]
        # Gradient checkpointing takes the cache away from a model in training without telling the generation.
        told = {"output_scores": True, "return_dict_in_generate": True, "pad_token_id": 0, "use_cache": False}
        with torch.no_grad():
            out = self.model.generate(ids, do_sample=True, max_new_tokens=length, **sampling, **told)
        tokens = out.sequences[0, len(prompt) :].tolist()
        scores = torch.stack(out.scores)[:, 0].log_softmax(-1)
        return tokens, [float(scores[place, token]) for place, token in enumerate(tokens)]


def train_with_vllm(arguments: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """As in_library.train, with InThisProcess for vLLM."""
    from trl.trainer import grpo_trainer

    def built(model: Any, generation_kwargs: dict[str, Any] | None, **options: Any) -> InThisProcess:
        return InThisProcess(model, generation_kwargs=generation_kwargs or {}, **options)

    grpo_trainer.VLLMGeneration = built
    result: dict[str, Any] = in_library.train({"use_vllm": True, **arguments}, **parts)
    return result


class _Server(BaseHTTPRequestHandler):
    """Answers what TRL's client asks a vLLM server for when it is built, and 404 to everything else."""

    ANSWERS: ClassVar[dict[str, Any]] = {
        "/health": {},
        "/v1/models": {"data": [{"id": "model"}]},
        "/server_info?config_format=json": {"vllm_config": {"weight_transfer_config": {"backend": "nccl"}}},
        "/get_world_size": {"world_size": 1},
    }

    def do_GET(self) -> None:
        """One answer."""
        path = self.requestline.split()[1]  # self.path makes one slash of two
        self.send_response(200 if path in self.ANSWERS else 404)
        self.end_headers()
        self.wfile.write(json.dumps(self.ANSWERS.get(path)).encode())


def ask_server(address: str, key: str = "base_url", device: str | None = None, patience_s: float = 5.0) -> str:
    """What becomes of TRL's client of a server at this address, in which "{port}" stands for its port.

    "answered", or "asks on" when it does so after patience_s. device: hands it the weights from there.
    """
    from pip._vendor import requests, urllib3  # pip brings requests along; nothing else here needs it
    from trl.generation import vllm_client

    vllm_client.is_vllm_available = vllm_client.is_requests_available = lambda: True
    vllm_client.requests, vllm_client.ConnectionError = requests, requests.exceptions.ConnectionError
    vllm_client.HTTPAdapter, vllm_client.Retry = requests.adapters.HTTPAdapter, urllib3.util.retry.Retry
    vllm_client.get_ip = lambda: "127.0.0.1"
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    Thread(target=server.serve_forever, daemon=True).start()
    place: dict[str, Any] = {key: address.format(port=server.server_port)}
    place |= {"server_port": server.server_port} if key == "host" else {}
    with ThreadPoolExecutor(1) as pool:
        client = pool.submit(vllm_client.VLLMClient, **place)
        try:
            built = client.result(timeout=patience_s)
        except TimeoutError:
            _Server.ANSWERS[f"{urlsplit(place[key]).path}/health"] = {}  # lets the thread end
            return "asks on"
    if device is not None:
        built.init_communicator(device)
    return "answered"


def generation_config_keys() -> list[str]:
    """What transformers' GenerationConfig takes and keeps as it is named."""
    from transformers import GenerationConfig

    return sorted(set(vars(GenerationConfig())) - {"transformers_version"})
