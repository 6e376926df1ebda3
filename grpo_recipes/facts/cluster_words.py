"""The names, quantities and labels that Kubernetes accepts, and the pod fields that a recipe may set.

Source: apimachinery's validation of v1.34 (k8s.io/apimachinery/pkg/util/validation, pkg/api/resource).
"""

import re
from collections.abc import Iterator, Mapping

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*"
_WORD = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED = rf"({_LABEL}(\.{_LABEL})*/)?{_WORD}"
_NUMBER = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_BYTES = rf"(?=.*[1-9]){_NUMBER}([KMGTPE]i|[kMGTPE])"
_COUNT = r"[1-9][0-9]*"
_CORES = rf"(?=.*[1-9]){_NUMBER}m?"
_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
IMAGE = rf"([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/)?{_PART}(/{_PART})*{_TAG}"
# Folders of the image's system, and where the Job mounts something else.
_TAKEN = ("cache", "dev", "etc", "proc", "sys", "usr")
# For each key: the pattern of a whole value, and its description.
_FORMS = {
    "image": (IMAGE, "a reference to an image, such as registry.example.com/team/grpo-run:1"),
    "namespace": (_LABEL, "lower-case letters, digits and dashes, at most 63"),
    "volume_claim": (_SUBDOMAIN, "lower-case letters, digits, dashes and dots"),
    "volume_path": (
        rf"(?!/({'|'.join(_TAKEN)})(/|$))(/(?!\.\.?(/|$))[A-Za-z0-9._-]+)+",
        f"an absolute path without .. and special characters, not in /{', /'.join(_TAKEN)}",
    ),
    "gpu_resource": (rf"(?=[^/]+/){_QUALIFIED}", "domain/name, such as nvidia.com/gpu or amd.com/gpu"),
    "shared_memory": (_BYTES, "a number with Ki, Mi, Gi or Ti, such as 16Gi"),
}
POD_FIELDS: Mapping[str, type] = {
    "affinity": dict,
    "imagePullSecrets": list,
    "priorityClassName": str,
    "runtimeClassName": str,
    "schedulerName": str,
    "securityContext": dict,
    "serviceAccountName": str,
    "tolerations": list,
    "topologySpreadConstraints": list,
}
"""Fields that choose the pod's machine and rights; what it runs and mounts is up to grpo-run."""
_OWN_LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/instance")
_CAPABILITIES = {"drop": re.compile(r"[A-Z_]+"), "add": re.compile("IPC_LOCK")}


def faults(section: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each key of a recipe's kubernetes section whose value the API server would refuse, and the values that it
    accepts.
    """
    for key, (form, words) in _FORMS.items():
        value = section.get(key)
        if value is not None and not re.fullmatch(form, str(value)):
            yield key, words
    yield from _resource_faults(section)
    secrets = section.get("secrets")
    if isinstance(secrets, list | tuple) and not all(re.fullmatch(_SUBDOMAIN, str(name)) for name in secrets):
        yield "secrets", "names of Secrets: lower-case letters, digits, dashes and dots"
    for key in ("node_selector", "labels"):
        for name, value in _mapped(section, key).items():
            if not re.fullmatch(_QUALIFIED, name) or not re.fullmatch(rf"({_WORD})?", str(value)):
                yield f"{key}.{name}", "a label and its value, such as pool: gpu, 63 characters at most"
            elif key == "labels" and name in _OWN_LABELS:
                yield f"{key}.{name}", "absent: grpo-run finds its pods by this label"
    for name in _mapped(section, "annotations"):
        if not re.fullmatch(_QUALIFIED, name):
            yield f"annotations.{name}", "named like a label, such as k8s.v1.cni.cncf.io/networks"
    for name, value in _mapped(section, "security_context").items():
        if not (isinstance(value, bool) if name == "allowPrivilegeEscalation" else _are_capabilities(name, value)):
            yield f"security_context.{name}", "allowPrivilegeEscalation, or capabilities with drop, or add: [IPC_LOCK]"
    for name, value in _mapped(section, "pod").items():
        kind = POD_FIELDS.get(name)
        if kind is None:
            yield f"pod.{name}", f"one of {', '.join(POD_FIELDS)}"
        elif not isinstance(value, kind):
            yield f"pod.{name}", "a string" if kind is str else "a list" if kind is list else "a mapping"


def _are_capabilities(name: str, value: object) -> bool:
    return (
        name == "capabilities"
        and isinstance(value, Mapping)
        and all(isinstance(some, list) and key in _CAPABILITIES for key, some in value.items())
        and all(_CAPABILITIES[key].fullmatch(str(one)) for key, some in value.items() for one in some)
    )


def _resource_faults(section: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in _mapped(section, "resources").items():
        key = f"resources.{name}"
        if name == section.get("gpu_resource"):
            yield key, "absent: launch.gpus_per_node sets it"
        elif name == "cpu":
            if not re.fullmatch(_CORES, str(value)):
                yield key, "a number of cores, such as 16 or 500m"
        elif name in ("memory", "ephemeral-storage") or name.startswith("hugepages-"):
            if not re.fullmatch(_BYTES, str(value)):
                yield key, "a number with Ki, Mi, Gi or Ti, such as 64Gi"
        elif "/" not in name or not re.fullmatch(_QUALIFIED, name):
            yield key, "cpu, memory, ephemeral-storage, hugepages-SIZE, or a device as domain/name"
        elif not re.fullmatch(_COUNT, str(value)):
            yield key, "a whole number of devices"


def _mapped(section: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = section.get(key)
    return value if isinstance(value, Mapping) else {}


# The names that SkyPilot accepts in a task. Source of variable names: sky/utils/schemas.py of 0.14.1.


GPUS = ("L4", "A10G", "L40S", "A100", "A100-80GB", "H100", "H200", "B200")
"""The GPUs that support bfloat16, by SkyPilot's names."""
_IMAGE_WORDS = "a reference to an image, such as registry.example.com/team/grpo-run:1"
_BUCKET = r"[a-z][a-z0-9]*://[A-Za-z0-9][A-Za-z0-9._/-]*"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


def skypilot_faults(section: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Each key of a recipe's skypilot section whose value is not such a name, and the values that it accepts."""
    image, storage, secrets = (section.get(key) for key in ("image", "storage", "secrets"))
    if image is not None and not re.fullmatch(IMAGE, str(image)):
        yield "image", _IMAGE_WORDS
    if storage is not None and not re.fullmatch(_BUCKET, str(storage)):
        yield "storage", "the address of a bucket, such as s3://my-runs"
    if isinstance(secrets, list | tuple) and not all(re.fullmatch(_VARIABLE, str(name)) for name in secrets):
        yield "secrets", "names of environment variables, such as HF_TOKEN, without their values"
