"""TRL can call the vLLM server and send it the weights.

TRL requests the server's /health when it builds the trainer, after loading the model. If the address cannot be reached,
TRL assumes that the server is still starting, waits for vllm_server_timeout (240 s) and raises ConnectionError. If a
server answers with anything but 200, TRL retries forever. That happens with a URL that ends with a slash (TRL requests
//health) or with /v1, as used for clients of OpenAI's API. The weights go through NCCL, which needs a GPU on the
trainer's side, too: for a trainer on the CPU, TRL 1.11 and newer raise NotImplementedError, and older releases raise
NCCL's error.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import command_for

ID = "GEN008"
APPLIES_TO = {"trl": ">=0.16"}
URL, HOST = "GRPOConfig.vllm_server_base_url", "GRPOConfig.vllm_server_host"
PORTS = {"GRPOConfig.vllm_server_port": 8000, "GRPOConfig.vllm_group_port": 51216}
WAITS = "TRL assumes that the server is still starting, waits for vllm_server_timeout and raises ConnectionError"


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is not True or context.value("GRPOConfig.vllm_mode") != "server":
        return
    if context.value("world.device") == "cpu" and context.value("shims.adapter_sync") is None:
        why = "TRL sends the weights through NCCL and raises on the CPU, NotImplementedError since 1.11"
        patch = Patch(("generation", "use_vllm"), False)
        yield _finding(context, "GRPOConfig.vllm_mode", "a vLLM server needs a trainer on GPUs", why, patch)
    if context.stack.is_absent("requests"):
        why = "without it, TRL's client raises ImportError after loading the model"
        message = "a vLLM server needs requests, which is not installed"
        yield context.finding(message, "generation.vllm_mode", why, fix=command_for(context.stack, ["requests"]))
    url = context.value(URL)
    yield from _of_url(context, url) if isinstance(url, str) else _of_host(context)
    for key, usual in PORTS.items():
        port = context.value(key)
        if isinstance(port, int) and not 0 < port < 65536 and (url is None or key != next(iter(PORTS))):
            patch = Patch(("trl", key.partition(".")[2]), usual)
            yield _finding(context, key, f"{patch.path[-1]} {port} is not a port", "ports are 1 to 65535", patch)


def _of_url(context: Context, url: str) -> Iterator[Finding]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if parts.scheme not in ("", "http", "https"):
        patch = Patch(("trl", "vllm_server_base_url"), f"http://{url.partition('://')[2] or url}".rstrip("/"))
        why = f"requests reads the text before the colon, {parts.scheme}, as the protocol"
        yield _finding(context, URL, "vllm_server_base_url lacks http://", f"{why}; {WAITS}", patch)
    elif parts.path.rstrip("/") == "/v1":
        patch = Patch(("trl", "vllm_server_base_url"), url.rstrip("/").removesuffix("/v1").rstrip("/"))
        why = "TRL requests /v1/health, which the server does not have; only clients of OpenAI's API use /v1"
        why += "; TRL retries forever"
        yield _finding(context, URL, "vllm_server_base_url ends with /v1", why, patch, is_error=False)
    elif url.endswith("/"):
        patch = Patch(("trl", "vllm_server_base_url"), url.rstrip("/"))
        why = "TRL requests //health, which a vLLM server does not know, and retries forever"
        yield _finding(context, URL, "vllm_server_base_url ends with a slash", why, patch, is_error=False)


def _of_host(context: Context) -> Iterator[Finding]:
    host = context.value(HOST)
    if isinstance(host, str) and ("/" in host or host.count(":") == 1):
        url = host if "://" in host else f"http://{host}"
        patch = Patch(("trl", "vllm_server_base_url"), url.rstrip("/"))
        why = f"TRL turns it into http://{host}:{context.value('GRPOConfig.vllm_server_port') or 8000}; {WAITS}"
        yield _finding(context, HOST, "vllm_server_host is not a plain host name", why, patch, moved=True)


def _finding(
    context: Context, key: str, what: str, why: str, patch: Patch, *, is_error: bool = True, moved: bool = False
) -> Finding:
    value = str(patch.value).lower() if isinstance(patch.value, bool) else patch.value
    return context.finding(
        what,
        key,
        why,
        fix=f"{patch.path[-1]}: {value}",
        patch=[patch, Patch(("trl", "vllm_server_host"), remove=True)] if moved else [patch],
        severity="error" if is_error else "warning",
    )
