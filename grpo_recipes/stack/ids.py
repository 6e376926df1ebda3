"""The ids of what is said about a declared stack, with what each means."""

MEANINGS: dict[str, str] = {
    "STK001": "A --target cannot be read: it is name==version items separated by commas, or a doctor file.",
    "STK002": "A --target names a package that grpo-run does not know.",
    "STK003": "A --target gives a version that is no version.",
    "STK005": "A --target gives GPUs in no known form: gpus=8xH100-80GB, gpus=0.",
    "STK004": "The file of a --target cannot be read, or is not what `grpo-run doctor --json` prints.",
}
