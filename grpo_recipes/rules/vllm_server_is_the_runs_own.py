"""The section vllm_server describes a server that the run starts.

The run starts one if `generation.use_vllm` is true, `generation.vllm_mode` is server, and the recipe has no address
under `trl:` (vllm_server_base_url, vllm_server_host or vllm_server_port). A server at an address belongs to someone
else: the run checks that it serves the recipe's model, but does not start, watch or stop it, and the section would have
no effect.

With several machines the server has the last one to itself. If it dies there, the run does not restart it beside the
training: the run ends as interrupted, exit code 75, and resumes with a new server, under Slurm by slurm.max_requeues.
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
        said = "the run starts no vLLM server"
        fix = f"remove {SECTION}, or write use_vllm: true and vllm_mode: server"
        yield context.wrong(said, SECTION, f"the recipe has {mode}", fix=fix, severity="warning")
        return
    written = address(context)
    if written is not None:
        names = [key.partition(".")[2] for key in ADDRESS if context.given(key)]
        said = "the recipe both names the address of a server and describes one to start"
        because = f"trl.{names[0]} ({context.origin(written)}) is a server that this run does not start"
        fix = f"remove {SECTION}, or {' and '.join(f'trl.{name}' for name in names)}"
        yield context.wrong(said, SECTION, because, fix=fix)
    elif has_server_node(context) and context.given(RESTARTS):
        yield context.wrong(
            "max_restarts has no effect on a server on its own machine",
            RESTARTS,
            f"launch.num_nodes ({context.origin('launch.num_nodes')}) gives the server the last of several machines",
            severity="warning",
            fix="remove max_restarts; use slurm.max_requeues with several machines",
        )
