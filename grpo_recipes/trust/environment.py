"""Decides which environment variables a recipe may set: harmless ones freely, unknown ones with consent.

A harmless variable tunes or names something with a plain value; none loads code, or names a file to read or write or an
address to send something to.
"""

import re

from grpo_recipes.contract.secrets.known_secrets import names_a_secret

_NAME = r"[A-Z_][A-Z0-9_]*"
_PLAIN = r"([A-Za-z0-9_,;:+^=@|{}()<>\[\]*-]|\.(?=[0-9])){0,300}|[A-Za-z_]{1,20}\.(UTF-8|utf8)"
"""Numbers, switches and words: no path, address, program or module."""
_TEXT = r"[^\x00-\x1f\x7f]{0,2000}"

_NAMES_OF_RUNS = (
    r"WANDB_(NAME|PROJECT|NOTES|TAGS|RUN_GROUP|JOB_TYPE)|MLFLOW_EXPERIMENT_NAME|SWANLAB_(PROJECT|EXP_NAME)"
    r"|COMET_(PROJECT|EXPERIMENT)_NAME|CLEARML_(PROJECT|TASK)"
)
_HARMLESS = (
    r"(CUDA|HIP|ROCR|ASCEND_RT)_VISIBLE_DEVICES|CUDA_(DEVICE_(ORDER|MAX_CONNECTIONS)|LAUNCH_BLOCKING|MODULE_LOADING)"
    r"|CUDA_CACHE_(DISABLE|MAXSIZE)|CUBLAS(LT)?_WORKSPACE_(CONFIG|SIZE)|NVIDIA_TF32_OVERRIDE|HSA_OVERRIDE_GFX_VERSION"
    r"|(GLOO|NCCL)_SOCKET_IFNAME|FI_PROVIDER|UCX_(TLS|NET_DEVICES)|DEEPSPEED_TIMEOUT|DS_(ACCELERATOR|SKIP_CUDA_CHECK)"
    r"|(OPENBLAS|BLIS|NUMEXPR|RAYON|ARROW)_NUM_THREADS|(NUMEXPR|POLARS)_MAX_THREADS|GOMP_(CPU_AFFINITY|STACKSIZE)"
    r"|MKL_(NUM_THREADS|DYNAMIC|THREADING_LAYER|SERVICE_FORCE_INTEL|CBWR)|MALLOC_(ARENA_MAX|TRIM_THRESHOLD_)|MAX_JOBS"
    r"|(ONE)?DNNL?_(MAX_CPU_ISA|DEFAULT_FPMATH_MODE|VERBOSE)|ATEN_CPU_CAPABILITY|FLASH_ATTENTION_DETERMINISTIC"
    r"|PYTORCH_((CUDA|HIP)_)?ALLOC_CONF|PYTORCH_(JIT|NO_CUDA_MEMORY_CACHING|NVML_BASED_CUDA_CHECK)"
    r"|TORCH_(DISTRIBUTED_DEBUG|CPP_LOG_LEVEL|LOGS|SHOW_CPP_STACKTRACES|COMPILE_DISABLE|CUDA_ARCH_LIST)"
    r"|TORCH_(ALLOW_TF32_CUBLAS_OVERRIDE|FORCE_WEIGHTS_ONLY_LOAD|CUDNN_V8_API_DISABLED)|TRITON_INTERPRET"
    r"|TORCHDYNAMO_(DISABLE|VERBOSE|SUPPRESS_ERRORS)|TORCHINDUCTOR_(COMPILE_THREADS|(FX_GRAPH|AUTOGRAD)_CACHE)"
    r"|TORCHINDUCTOR_(FORCE_DISABLE_CACHES|MAX_AUTOTUNE(_GEMM|_POINTWISE)?|CUDAGRAPHS)|TF_CPP_MIN_LOG_LEVEL"
    r"|TOKENIZERS_PARALLELISM|(HF_HUB|HF_DATASETS|HF_EVALUATE|TRANSFORMERS)_OFFLINE|USE_(TF|JAX|FLAX|TORCH)"
    r"|(TRANSFORMERS|DATASETS|HF_HUB)_VERBOSITY|TRANSFORMERS_NO_ADVISORY_WARNINGS|HF_XET_HIGH_PERFORMANCE"
    r"|HF_HUB_(DISABLE_[A-Z_]+|ENABLE_HF_TRANSFER|DOWNLOAD_TIMEOUT|ETAG_TIMEOUT)|TQDM_(DISABLE|MININTERVAL|NCOLS)"
    r"|WANDB_(MODE|DISABLED|SILENT|QUIET|CONSOLE|LOG_MODEL|WATCH|RESUME|RUN_ID|INIT_TIMEOUT|_SERVICE_WAIT)"
    r"|(SWANLAB|COMET)_MODE|DISABLE_(TELEMETRY|MLFLOW_INTEGRATION)|DO_NOT_TRACK|HYDRA_FULL_ERROR|NO_COLOR|LOGLEVEL"
    r"|VLLM_(LOGGING_LEVEL|CONFIGURE_LOGGING|ATTENTION_BACKEND|FLASH_ATTN_VERSION|WORKER_MULTIPROC_METHOD|USE_V1)"
    r"|VLLM_(CPU_(KVCACHE_SPACE|OMP_THREADS_BIND)|BATCH_INVARIANT|ALLOW_LONG_MAX_MODEL_LEN|NO_USAGE_STATS|DO_NOT_TRACK)"
    r"|VLLM_(RPC_TIMEOUT|ENGINE_(ITERATION|READY)_TIMEOUT_S|USE_(DEEP_GEMM|FLASHINFER_[A-Z0-9_]+)|DISABLE_COMPILE_CACHE)"
    r"|PYTHON(HASHSEED|UNBUFFERED|FAULTHANDLER|DONTWRITEBYTECODE|WARNINGS|IOENCODING|UTF8)|RUST_(LOG|BACKTRACE)"
    r"|PYTHON((TRACE)?MALLOC|OPTIMIZE|DEVMODE|ASYNCIODEBUG)|TORCH_NCCL_(RANKS_PER_ROOT|CUDA_EVENT_CACHE)"
    r"|LANG|LC_ALL|TZ"
)
_HARMLESS_UNLESS_REFUSED = r"(NCCL|RCCL|TORCH_NCCL|OMP|KMP|FI_EFA)_.*"
# These give an address, another identity, or a file of any name.
_ASKED_FOR = r"NCCL_(COMM_ID|HOSTID)|OMP_TOOL.*"

_REFUSED = (
    (
        "it makes programs load code that is not installed",
        (
            r"(LD|DYLD|GIT|BASH_FUNC|COVERAGE|CCACHE|CARGO|NPM_CONFIG|PIP|UV|CONDA|HIPCC)_.*"
            r"|INTEL_(LIBITTNOTIFY|JIT_PROFILER).*|(COMPILER|GCC|LIB(GL|VA)|VK|VDPAU|GBM|UR_ADAPTERS|OCL_ICD|LUA)_.*"
            r"|BASH.*|ENV|IFS|PATH|PROMPT_COMMAND|PS4|SHELLOPTS|CLASSPATH"
            r"|CC|CPP|CXX|FC|F77|F90|AR|AS|LD|NM|RANLIB|(LD|LDCXX|CC)SHARED|CPATH"
            r"|CUDA_HOME|CUDACXX|CUDA_INJECTION.*|CUDA_PATH|CUDAHOSTCXX|HOSTCC|HIPCXX|(PYTORCH_)?NVCC.*|NVTX_INJECTION.*"
            r"|NCCL_(NET|TUNER|PROFILER|ENV|GIN|RMA)_PLUGIN|GCONV_PATH|LOCPATH|GLIBC_TUNABLES|LANGUAGE|OMP_TOOL_LIBRARIES"
            r"|OPENSSL_(CONF|ENGINES|MODULES).*|TORCH_EXTENSIONS_DIR|TORCH_INDUCTOR_INSTALL_GXX|TORCHINDUCTOR_.*HOOK.*"
            r"|TRITON_(CACHE_DIR|CACHE_MANAGER|REMOTE_CACHE_BACKEND)|.*PLUGINS?(_.*)?|.*_PRELOAD|RAY_.*HOOK.*"
            r"|(IBV|RDMAV)_DRIVERS|_*(EGL|GLX)_.*|ZE_ENABLE_ALT_DRIVERS|RUSTC.*|TCLLIBPATH|MPLBACKEND"
            r"|(GIO|GTK\d?|GDK|QT|QML\d?|ALSA|SASL|P11_KIT)_.*|LADSPA.*"
            r"|.*(TRUST_REMOTE_CODE|INSECURE|NO_WEIGHTS_ONLY|PICKLE).*|USE_HUB_KERNELS|LOCAL_KERNELS"
            r"|(PERL5?|RUBY)(OPT|LIB|DB)|NODE_OPTIONS|_?(JAVA|JDK_JAVA)_?(TOOL_)?OPTIONS|VIRTUAL_ENV|PYTEST_ADDOPTS"
            r"|MAKEFLAGS|CMAKE_.*|[A-Z]*FLAGS|EDITOR|VISUAL|[A-Z]*PAGER|BROWSER|LESS(OPEN|CLOSE)|[A-Z]+_(ASKPASS|RSH|SSH)"
            r"|PYTHON.*"
        ),
    ),
    (
        "it sends the tokens of this machine to an address of the recipe's choice",
        (
            r"HF_ENDPOINT|WANDB_BASE_URL|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|AWS_CA_BUNDLE|SSL_.*|SSLKEYLOGFILE"
            r"|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_.*|NETRC|AWS_(CONFIG_FILE|PROFILE)|KRB5.*|OTEL_.*"
            r"|.*_(PROXY|URLS?|URIS?|ENDPOINTS?|HOST|HOST_IP|ADDR|ADDRESS|DSN|SERVER|OVERRIDE)"
        ),
    ),
    (
        "grpo-run sets it from the plan",
        (
            r"(ACCELERATE|FSDP|PARALLELISM_CONFIG|PET|TORCHELASTIC|GRPO_RUN)_.*"
            r"|MASTER_(ADDR|PORT)|((GROUP|LOCAL)_)?RANK|(LOCAL_)?WORLD_SIZE"
        ),
    ),
    (
        "it belongs to the user who runs the recipe, not to the recipe",
        r"HOME|SHELL|TMPDIR|TMP|TEMP|USER|LOGNAME|PWD|OLDPWD|XDG_.*",
    ),
    (
        "it names a path on the machine, which only the user should choose",
        (
            r".*_(PATHS?|DIRS?|DIRECTORY|FOLDER|FILES?|HOME|ROOT|CACHE|LIBS?|LIBRARY|LIBRARIES|PREFIX|EXECUTABLE|COMMAND)"
            r"|TORCH_(TRACE|LOGS_OUT)|KINETO_CONFIG|MATPLOTLIBRC|MPLCONFIGDIR|JITDUMPDIR|TZDIR|TERMINFO|HF_XET_LOG_DEST"
            r"|(DEPENDENCIES|SUNPRO)_.*|MALLOC_(TRACE|CONF)|[A-Z]*SAN_OPTIONS|(CPU|HEAP)PROFILE"
        ),
    ),
)


def is_harmless(name: str, value: str) -> bool:
    """Whether a variable is known to be harmless, and its value is as plain as expected."""
    if re.fullmatch(_NAMES_OF_RUNS, name):
        return re.fullmatch(_TEXT, value) is not None
    return _is_known(name) and re.fullmatch(_PLAIN, value, re.ASCII) is not None


def _is_known(name: str) -> bool:
    """Whether a variable is known to tune or to name something."""
    if re.fullmatch(f"{_HARMLESS}|{_NAMES_OF_RUNS}", name):
        return True
    is_tuning = re.fullmatch(_HARMLESS_UNLESS_REFUSED, name) is not None and not re.fullmatch(_ASKED_FOR, name)
    return is_tuning and _why_refused(name) is None


def _why_refused(name: str) -> str | None:
    return next((reason for reason, names in _REFUSED if re.fullmatch(names, name)), None)


def why_refused(name: str, value: str = "") -> str | None:
    """Why a recipe may never set this variable; None if it may, perhaps with consent.

    A known variable is never refused for its value: one that is not plain needs consent.
    """
    if not re.fullmatch(_NAME, name):
        in_capitals = name.upper()  # http_proxy is read as well as HTTP_PROXY
        reason = why_refused(in_capitals, value) if re.fullmatch(_NAME, in_capitals) else None
        return reason or "a name consists of A-Z, 0-9 and _, and does not start with a digit"
    if not value.isprintable() and re.search(r"[\0\n\r]", value):
        return "a value is one line without NUL"
    if names_a_secret(name):
        return "a recipe holds no secrets: set it in the shell that starts grpo-run"
    return None if _is_known(name) else _why_refused(name)


def why_asked(name: str) -> str:
    """Why a variable needs consent."""
    if _is_known(name):
        return "it is a known tuning variable, but its value has an unexpected form"
    return "it is not a known tuning variable"


def needs_consent(name: str, value: str) -> bool:
    """Whether a recipe may set this variable only after its user has allowed it, as with code."""
    return why_refused(name, value) is None and not is_harmless(name, value)


def names_a_place(value: str) -> bool:
    """Whether a value may name a file, whose content the value does not show."""
    return bool(re.search(r"[/\\~$]|^\.|\.[A-Za-z][A-Za-z0-9]{0,5}($|[\s,:;=])", value))
