"""Which environment variables a recipe may set."""

import pytest

from grpo_recipes.trust.environment import refused


@pytest.mark.parametrize(
    "name",
    [
        "OMP_NUM_THREADS",
        "NCCL_DEBUG",
        "NCCL_SOCKET_IFNAME",
        "TOKENIZERS_PARALLELISM",
        "CUDA_VISIBLE_DEVICES",
        "PYTORCH_CUDA_ALLOC_CONF",
        "HF_HUB_OFFLINE",
        "WANDB_PROJECT",
        "DS_ACCELERATOR",
        "PYTHONHASHSEED",
        "PYTHONUNBUFFERED",
        "VLLM_LOGGING_LEVEL",
        "VLLM_ATTENTION_BACKEND",
        "NCCL_P2P_DISABLE",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        "TORCHINDUCTOR_COMPILE_THREADS",
        "TRITON_INTERPRET",
        "MY_REWARD_MODE",
    ],
)
def test_harmless_variables_may_be_set(name: str) -> None:
    assert refused(name, "some value") is None


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (
            "LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT DYLD_INSERT_LIBRARIES GCONV_PATH PATH ENV BASH_ENV IFS "
            "PYTHONPATH PYTHONSTARTUP PYTHONHOME PYTHONINSPECT PYTHONHASHSEEDS GIT_SSH_COMMAND PYTHON "
            "GLIBC_TUNABLES PERL5OPT PERL5LIB RUBYOPT NODE_OPTIONS JAVA_TOOL_OPTIONS _JAVA_OPTIONS MPLBACKEND "
            "VLLM_PLUGINS NCCL_NET_PLUGIN NCCL_PROFILER_PLUGIN VLLM_ALLOW_INSECURE_SERIALIZATION NVCC_APPEND_FLAGS "
            "HF_DATASETS_TRUST_REMOTE_CODE TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD PIP_INDEX_URL LDFLAGS OMP_TOOL_LIBRARIES "
            "BASH_XTRACEFD",
            "load other code",
        ),
        (
            "HF_ENDPOINT HTTPS_PROXY WANDB_BASE_URL SSL_CERT_FILE MLFLOW_TRACKING_URI CLEARML_API_HOST "
            "COMET_URL_OVERRIDE AWS_ENDPOINT_URL AWS_CONFIG_FILE OTEL_EXPORTER_OTLP_ENDPOINT HOSTALIASES NO_PROXY",
            "sends the tokens",
        ),
        (
            "HF_HOME HF_HUB_CACHE HF_MODULES_CACHE TORCHINDUCTOR_CACHE_DIR TRITON_PTXAS_PATH TRITON_DUMP_DIR "
            "NCCL_DEBUG_FILE NCCL_TOPO_DUMP_FILE WANDB_DIR TORCH_TRACE VLLM_LOGGING_CONFIG_PATH ROCM_PATH",
            "a place of the machine",
        ),
        ("HF_TOKEN WANDB_API_KEY SENTRY_DSN DB_PASSWORD AWS_SECRET_ACCESS_KEY MY_SECRET OPENAI_API_KEY", "no secrets"),
        ("RANK LOCAL_RANK WORLD_SIZE MASTER_PORT ACCELERATE_USE_FSDP PET_NNODES", "grpo-run sets it"),
        ("HOME XDG_CONFIG_HOME", "belongs to the user"),
        ("omp_num_threads A-B 1A A=B A;B Ä", "a name is made of"),
    ],
    ids=["code", "diverts", "place", "secret", "owned", "user", "name"],
)
def test_other_variables_are_refused_with_the_reason(names: str, reason: str) -> None:
    for name in names.split():
        assert reason in (refused(name) or "accepted"), name


def test_an_empty_name_is_refused() -> None:
    assert refused("") is not None


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "a\rb"], ids=["line", "NUL", "return"])
def test_a_value_is_one_line(value: str) -> None:
    assert refused("NCCL_DEBUG", value) == "a value is one line without NUL"
