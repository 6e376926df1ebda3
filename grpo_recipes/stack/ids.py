"""The ids of what is said about a declared stack, with what each means."""

MEANINGS: dict[str, str] = {
    "STK001": "A --target cannot be read: it is name==version items separated by commas, or a doctor file.",
    "STK002": "A --target names a package that grpo-run does not know.",
    "STK003": "A --target gives a version that is no version.",
    "STK005": "A --target gives GPUs in no known form: gpus=8xH100-80GB, gpus=1xMI300X:192GB, gpus=0.",
    "STK004": "The file of a --target cannot be read, or is not what `grpo-run doctor --json` prints.",
    "STK012": "A package of the stack declares a window that the stack's other package is outside of: pip refuses the"
    " two together (an error), or would if the extra had been asked for (a warning).",
    "STK013": "pip allows this combination, and it cannot be imported or trained. The table of such combinations was"
    " made by running them.",
}
