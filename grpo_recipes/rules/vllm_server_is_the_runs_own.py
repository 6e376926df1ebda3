"""The section vllm_server describes a server that the run starts.

The run starts one if `generation.use_vllm` is true, `generation.vllm_mode` is server, and the recipe has no address
under `trl:` (vllm_server_base_url, vllm_server_host or vllm_server_port). If the recipe has an address, the run checks
that this server serves the recipe's model, but does not start, watch or stop it, and the section would have no effect.

With several machines the server has the last one to itself. If it dies there, the run does not restart it. The run ends
as interrupted, with exit code 75, and resumes with a new server; under Slurm slurm.max_requeues does this.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import has_server_node
from grpo_recipes.rules._shared.vllms_gpu import ADDRESS, USE_VLLM, VLLM_MODE, address, is_server_mode

ID = "SRV002"
SECTION, RESTARTS = "vllm_server", "vllm_server.max_restarts"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section(SECTION):
        return
    if not is_server_mode(context):
        mode = f"use_vllm: {str(context.value(USE_VLLM)).lower()}, vllm_mode: {context.value(VLLM_MODE)}"
        message = f"{SECTION} has no effect: the run starts no vLLM server"
        fix = f"remove {SECTION}, or write use_vllm: true and vllm_mode: server"
        yield context.wrong(message, SECTION, f"the recipe has {mode}", fix=fix, severity="warning")
        return
    written = address(context)
    if written is not None:
        names = [key.partition(".")[2] for key in ADDRESS if context.is_given(key)]
        message = f"the recipe has both the address of a vLLM server and {SECTION}"
        because = f"trl.{names[0]} ({context.origin(written)}) names a server that this run does not start"
        fix = f"remove {SECTION}, or {' and '.join(f'trl.{name}' for name in names)}"
        yield context.wrong(message, SECTION, because, fix=fix)
    elif has_server_node(context) and context.is_given(RESTARTS):
        yield context.wrong(
            "max_restarts has no effect: the vLLM server has its own machine",
            RESTARTS,
            f"launch.num_nodes ({context.origin('launch.num_nodes')}) gives the server the last of several machines",
            severity="warning",
            fix="remove max_restarts; use slurm.max_requeues with several machines",
        )
