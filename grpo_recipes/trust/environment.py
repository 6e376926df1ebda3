"""Decides which environment variables a recipe may set: harmless ones freely, unknown ones with consent.

harmless_variables.json lists the harmless ones: their values are numbers, switches and words of a known shape, and none
of them loads code, or names a file to read or write or an address to send something to.
"""

import json
import re
from functools import cache
from pathlib import Path

from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.contract.secrets.known_secrets import names_a_secret

_NAME = r"[A-Z_][A-Z0-9_]*"
_LONGEST_VALUE = 4096
_NEAR = 0.85
_LIST = Path(__file__).with_name("harmless_variables.json")

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
        "it names a path of the machine, which is up to the user",
        (
            r".*_(PATHS?|DIRS?|DIRECTORY|FOLDER|FILES?|HOME|ROOT|CACHE|LIBS?|LIBRARY|LIBRARIES|PREFIX|EXECUTABLE|COMMAND)"
            r"|TORCH_(TRACE|LOGS_OUT)|KINETO_CONFIG|MATPLOTLIBRC|MPLCONFIGDIR|JITDUMPDIR|TZDIR|TERMINFO|HF_XET_LOG_DEST"
            r"|(DEPENDENCIES|SUNPRO)_.*|MALLOC_(TRACE|CONF)|[A-Z]*SAN_OPTIONS|(CPU|HEAP)PROFILE"
        ),
    ),
)


@cache
def _shapes() -> dict[str, re.Pattern[str]]:
    """The pattern for the value of each harmless variable."""
    content = json.loads(_LIST.read_text(encoding="utf-8"))
    found = {}
    for group in content["groups"]:
        for shape, lines in group["names"].items():
            pattern = re.compile(content["shapes"].get(shape, shape), re.ASCII)
            found.update(dict.fromkeys(" ".join(lines).split(), pattern))
    return found


def is_harmless(name: str, value: str) -> bool:
    """Whether a variable is a mere tuning option, and its value has the known shape."""
    shape = _shapes().get(name)
    return shape is not None and len(value) <= _LONGEST_VALUE and shape.fullmatch(value) is not None


def refused(name: str, value: str = "") -> str | None:
    """Why a recipe may never set this variable; None if it may, perhaps with consent.

    A listed variable is never refused for its value: one of a different shape needs consent.
    """
    if not re.fullmatch(_NAME, name):
        in_capitals = name.upper()  # http_proxy is read as well as HTTP_PROXY
        reason = refused(in_capitals, value) if re.fullmatch(_NAME, in_capitals) else None
        return reason or "a name is made of A-Z, 0-9 and _ and does not start with a digit"
    if not value.isprintable() and re.search(r"[\0\n\r]", value):
        return "a value is one line without NUL"
    if names_a_secret(name):
        return "a recipe holds no secrets: set it in the shell that starts grpo-run"
    if name in _shapes():
        return None
    return next((reason for reason, names in _REFUSED if re.fullmatch(names, name)), None)


def why_asked(name: str) -> str:
    """Why a variable needs consent; mentions a listed variable with a similar name."""
    if name in _shapes():
        return "it is a known tuning variable, but its value has an unexpected form"
    near = nearest_words(name, _shapes(), cutoff=_NEAR)
    return "it is not a known tuning variable" + (f"; the nearest is {near[0]}" if near else "")


def needs_consent(name: str, value: str) -> bool:
    """Whether a recipe may set this variable only after its user has allowed it, as with code."""
    return refused(name, value) is None and not is_harmless(name, value)


def names_a_place(value: str) -> bool:
    """Whether a value may name a file, whose content the value does not show."""
    return bool(re.search(r"[/\\~$]|^\.|\.[A-Za-z][A-Za-z0-9]{0,5}($|[\s,:;=])", value))
