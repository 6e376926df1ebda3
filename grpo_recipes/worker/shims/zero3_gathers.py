"""Makes DeepSpeed's ZeRO-3 wait for every parameter that it gathers.

Defect: deepspeed's Init._allgather_params_coalesced starts an all_gather for each parameter and waits only for the last
one. NCCL runs them in order; gloo has two threads, so an earlier, larger gather may still be running, and its parameter
is read before it is complete.
Seen: in the source of deepspeed 0.15.0 to 0.19.7; with 0.16.3 one of twenty runs on a busy machine trained a different
model.
Remove when: no deepspeed before 0.19.8 is supported.
"""

from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import replace


def before_trainer(value: object, plan: Plan) -> None:
    """Makes all_gather_into_tensor wait until it is done, even if called as asynchronous."""
    import deepspeed.comm

    start = deepspeed.comm.all_gather_into_tensor

    def all_gather_into_tensor(*given: Any, **named: Any) -> Any:
        handle = start(*given, **named)
        if handle is not None:
            handle.wait()
        return handle

    replace(deepspeed.comm, "all_gather_into_tensor", all_gather_into_tensor)
