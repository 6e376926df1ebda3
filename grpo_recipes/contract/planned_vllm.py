"""How vLLM generates, as a plan says it."""

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class VllmServer:
    """The vLLM server that the run starts and stops.

    command: what follows the run's Python; {model}, {host} and {port} stand for what is known at the start, and the
    model's revision is added then. {host} is the address that it listens on: 127.0.0.1 beside its trainer.
    gpus: its GPUs, as places in the list of those that the run may see; none on a CPU.
    port: None takes a free one at each start. startup_timeout: seconds until it must answer.
    max_restarts: how often server and trainer are started again after the server died.
    own_node: it has a machine of its own, the one after those that train; gpus are places on that one.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    gpus: tuple[int, ...]
    port: int | None
    startup_timeout: int
    max_restarts: int
    own_node: bool = False


@dataclass(frozen=True, slots=True)
class Vllm:
    """How vLLM generates.

    dtype: of its weights and its computation. engine: arguments of vLLM's engine that TRL has no field for: keywords
    of LLM in colocate mode, flags of the server otherwise.
    server: None in colocate mode, and for a server that somebody else runs.
    """

    mode: Literal["colocate", "server"]
    dtype: str
    engine: dict[str, object] = field(default_factory=dict)
    server: VllmServer | None = None
