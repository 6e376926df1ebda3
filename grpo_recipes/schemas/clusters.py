"""Where a run goes whose files a person hands to a cluster: Kubernetes, SkyPilot."""

from typing import Any

from grpo_recipes.schemas.section import NonNegativeInt, PositiveInt, Section, Word


class KubernetesSection(Section):
    """The Job's pods; only used with launch.engine: kubernetes. See docs/kubernetes.md."""

    image: Word | None = None
    """Container image with the training stack. Required."""
    namespace: Word | None = None
    """Namespace of the Job. null: that of kubectl's context."""
    volume_claim: Word | None = None
    """PersistentVolumeClaim that has the run folder; for several machines it must be ReadWriteMany. Required."""
    volume_path: Word = "/runs"
    """Where the pods mount it. A run folder below this path keeps its path; any other is expected there by its name."""
    gpu_resource: Word = "nvidia.com/gpu"
    """The resource that requests GPUs; their number is launch.gpus_per_node."""
    resources: dict[str, int | str] = {}
    """Further resources of each pod, such as `{cpu: 16, memory: 128Gi}`. Empty: the namespace's defaults."""
    shared_memory: Word = "16Gi"
    """Size limit of /dev/shm, by which processes exchange data. What is used counts as memory of the pod."""
    secrets: list[Word] = []
    """Names of Secrets in the namespace; each of their keys becomes an environment variable, such as HF_TOKEN."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes to use."""
    pod: dict[str, Any] = {}
    """Further fields of the pod by Kubernetes' names: tolerations, affinity, priorityClassName, imagePullSecrets,
    serviceAccountName, securityContext, runtimeClassName, schedulerName, topologySpreadConstraints.
    """
    grace_seconds: PositiveInt = 600
    """Seconds a pod gets to save when it is evicted or deleted. A run stops where a generation ends, so this has to
    exceed the longest step.
    """
    max_restarts: NonNegativeInt = 10
    """How often an interrupted run is restarted. Disruptions that the cluster reports, such as a drained node, do not
    count.
    """


class SkypilotSection(Section):
    """The task's resources; only used with launch.engine: skypilot. See docs/skypilot.md."""

    image: Word | None = None
    """Container image with the training stack. Required."""
    python: Word = "python"
    """Python of the image that has the stack; an absolute path if SkyPilot's own comes first in PATH."""
    infra: Word | None = None
    """Where to run, as SkyPilot's `infra`: aws, gcp/us-central1, kubernetes. null: where it is cheapest."""
    accelerators: list[Word] = []
    """GPUs to choose from, by SkyPilot's names, such as `[H100, A100-80GB]`; their number is launch.gpus_per_node.
    Empty: those that the run fits into, by the estimate of `grpo-run fit`.
    """
    use_spot: bool = False
    """Whether to use spot instances."""
    storage: Word | None = None
    """Bucket that keeps the run folder over a preemption, such as s3://my-runs. Only for one machine."""
    volume: Word | None = None
    """SkyPilot volume that keeps it instead; several machines need one that all of them can write."""
    secrets: list[Word] = []
    """Environment variables to pass on, such as HF_TOKEN; `sky jobs launch --secret HF_TOKEN` takes their values."""
    resources: dict[str, Any] = {}
    """Further keys of SkyPilot's `resources`, such as `{cpus: 16+, memory: 128+, disk_size: 512}`."""
