"""Which environment variables a recipe may set."""

import re

from grpo_recipes.trust.secret_names import names_a_secret

_NAME = r"[A-Z_][A-Z0-9_]*"

# Every PYTHON* variable that is not named here changes what Python imports or runs.
_HARMLESS_PYTHON = (
    "ASYNCIODEBUG|DEVMODE|DONTWRITEBYTECODE|FAULTHANDLER|HASHSEED|INTMAXSTRDIGITS|IOENCODING|MALLOC"
    "|NOUSERSITE|OPTIMIZE|UNBUFFERED|UTF8"
)
_REFUSED = (
    (
        "it makes programs load other code than the installed one",
        (
            r"(LD|DYLD|GIT|BASH_FUNC)_.*"
            r"|BASHOPTS|BASH_ENV|ENV|IFS|PATH|PROMPT_COMMAND|PS4|SHELLOPTS"
            r"|CC|CUDA_HOME|CUDA_INJECTION64_PATH|CUDA_PATH|CXX|NCCL_NET_PLUGIN|NCCL_TUNER_PLUGIN"
            r"|GCONV_PATH|LOCPATH|OPENSSL_CONF|TORCH_EXTENSIONS_DIR|TRITON_CACHE_DIR"
            r"|GLIBC_TUNABLES|MPLBACKEND|NVTX_INJECTION64_PATH|OMP_TOOL_LIBRARIES|.*PLUGINS?(_.*)?"
            r"|.*(TRUST_REMOTE_CODE|INSECURE|NO_WEIGHTS_ONLY|PICKLE).*|USE_HUB_KERNELS"
            r"|(PERL5?|RUBY)(OPT|LIB|DB)|NODE_OPTIONS|_?(JAVA|JDK_JAVA)_?(TOOL_)?OPTIONS|(PIP|UV|CONDA)_.*|VIRTUAL_ENV"
            r"|CUDAHOSTCXX|HOSTCC|NVCC.*|MAKEFLAGS|CMAKE_.*|[A-Z]*FLAGS|EDITOR|VISUAL|PAGER|BROWSER|BASH.*"
            rf"|PYTHON(?!({_HARMLESS_PYTHON})$).*"
        ),
    ),
    (
        "it sends the tokens of this machine to an address of the recipe's choice",
        (
            r"HF_ENDPOINT|WANDB_BASE_URL|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|SSL_.*"
            r"|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|NETRC|AWS_(CONFIG_FILE|PROFILE)|KRB5_CONFIG|OTEL_.*"
            r"|.*_(PROXY|URLS?|URIS?|ENDPOINTS?|HOST|HOST_IP|ADDR|ADDRESS|DSN|SERVER|OVERRIDE)"
        ),
    ),
    (
        "grpo-run sets it from the world of the plan",
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
        "it names a place of the machine, which belongs to the user",
        r".*_(PATHS?|DIRS?|DIRECTORY|FOLDER|FILES?|HOME|ROOT|CACHE|LIBS?|LIBRARY|LIBRARIES|PREFIX|EXECUTABLE|COMMAND)"
        r"|TORCH_(TRACE|LOGS_OUT)",
    ),
)


def refused(name: str, value: str = "") -> str | None:
    """Why a recipe may not set this environment variable, or None when it may."""
    if not re.fullmatch(_NAME, name):
        return "a name is made of A-Z, 0-9 and _ and does not start with a digit"
    if "\0" in value or "\n" in value or "\r" in value:
        return "a value is one line without NUL"
    if names_a_secret(name):
        return "a recipe holds no secrets: set it in the shell that starts grpo-run"
    return next((reason for reason, names in _REFUSED if re.fullmatch(names, name)), None)
