"""Every argument under generation.vllm_engine reaches the vLLM server.

Since TRL 1.11, a run starts vLLM's own server, which takes any argument of the engine. Up to 1.10 it starts TRL's own
server, which has flags for only some arguments, and for trust_remote_code only since 0.19. If the recipe gives the
address of a running server, nothing reads the arguments.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.vllm_server import server_program
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.vllms_gpu import address, is_server_mode

ID = "SRV003"
HOME = ("generation", "vllm_engine")
KEY = "generation.vllm_engine"
TRUST = "GRPOConfig.trust_remote_code"


def check(context: Context) -> Iterator[Finding]:
    if not is_server_mode(context):
        return
    written, program = context.mapping(KEY), server_program(context.facts.versions)
    if (other := address(context)) is not None:
        if written:
            why = f"trl.{other.partition('.')[2]} ({context.origin(other)}) names a server that this run does not start"
            yield context.wrong("vllm_engine has no effect", KEY, why, severity="warning")
        return
    if program is None or program.takes is None:
        return
    trl = f"trl {context.stack.version('trl')}"
    why = f"up to trl 1.10 the server is TRL's own; its flags are {', '.join(sorted(program.takes))}"
    for name in sorted(set(written) - program.takes):
        yield context.wrong(f"the server of {trl} has no flag for {name}", KEY, why, at=(*HOME, name))
    if context.value(TRUST) is True and "trust_remote_code" not in program.takes:
        what = f"the server of {trl} has no flag for trust_remote_code"
        yield context.wrong(what, TRUST, why)
