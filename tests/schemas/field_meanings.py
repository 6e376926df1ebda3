"""Reads again what TRL and transformers say of the fields under `trl:`; `make facts` runs it."""

import ast
import json
import re
from pathlib import Path

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.released.shipped import DATA
from grpo_recipes.facts.source.package_facts import MODULES, package_folder
from grpo_recipes.facts.source.package_source import PackageSource

TABLE = DATA / "field_help.json"
CLASSES = (("transformers", "TrainingArguments"), ("trl", "GRPOConfig"))
_ENTRY = re.compile(r"^    (\w+) ?\(.*\):\n((?:        .*\n|\n)+)", re.MULTILINE)
_LINK = re.compile(r"\[`~?([^`]+)`\](?:\([^)]*\))?|\[([^]`]+)\]\([^)]*\)")
_SENTENCE = re.compile(r"(.+?(?<!i\.e)(?<!e\.g)[.:])(?:\s|$)")


def documented(docstring: str) -> dict[str, str]:
    """The first sentence of each parameter that a docstring of the libraries describes, without its links."""
    found = {}
    for name, text in _ENTRY.findall(f"{docstring}\n"):
        plain = _LINK.sub(
            lambda link: f"`{link[1].rpartition('.')[2]}`" if link[1] else link[2], " ".join(text.split())
        )
        sentence = _SENTENCE.match(plain)
        found[name] = (sentence[1] if sentence else plain).rstrip(":.") + "."
    return found


def read_installed() -> dict[str, str]:
    """The texts of the fields without a key of their own, from the packages that are installed here."""
    found: dict[str, str] = {}
    for package, name in CLASSES:
        folder = package_folder(package)
        source = PackageSource(package, folder or Path("/none"))
        of_class = source.find_class(MODULES[package][name][0], name)
        found |= documented((of_class and ast.get_docstring(of_class.node)) or "")
    return {
        name: found[name]
        for name, field in classified_fields().items()
        if not (field.home or field.owner) and name in found
    }


if __name__ == "__main__":
    TABLE.write_text(json.dumps(read_installed(), indent=0, ensure_ascii=False) + "\n", encoding="utf-8")
