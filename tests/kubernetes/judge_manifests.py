"""Judges manifests as strictly as is possible without a cluster, in the environment that has the schemas.

python judge_manifests.py FILE ...   prints the faults of each file as JSON. A typing error in a field's name is one.
"""

import json
import sys
import typing
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml
from kubeflow_trainer_api import models
from pydantic import BaseModel

VERSIONS = ("1.31", "1.34", "1.37")
MODELS = {"Job": models.IoK8sApiBatchV1Job}


def faults(file: str) -> list[str]:
    """What is wrong with a file, by Kubernetes' own schemas of several releases and by Kubeflow's models."""
    found = []
    for document in yaml.safe_load_all(Path(file).read_text(encoding="utf-8")):
        for version in VERSIONS:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as problem:
                found.append(f"{version}: {problem.message}")
        model = MODELS.get(document["kind"])
        if model is not None:
            found += [f"unknown field {name}" for name in unknown(model, document, document["kind"])]
            try:
                model.from_dict(document)
            except Exception as problem:
                found.append(str(problem))
    return found


def unknown(model: type[BaseModel], value: dict[str, Any], path: str) -> list[str]:
    """Fields that the model does not have, which from_dict ignores."""
    names = {field.alias or name: field for name, field in model.model_fields.items()}
    found = [f"{path}.{key}" for key in value if key not in names]
    for key in value.keys() & names.keys():
        found += _inside(names[key].annotation, value[key], f"{path}.{key}")
    return found


def _inside(kind: Any, value: Any, path: str) -> list[str]:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return unknown(kind, value, path) if isinstance(value, dict) else []
    if origin is list:
        return [one for item in value or [] for one in _inside(arguments[0], item, f"{path}[]")]
    if origin is dict:
        return [one for key, item in (value or {}).items() for one in _inside(arguments[1], item, f"{path}.{key}")]
    return [one for argument in arguments for one in _inside(argument, value, path)]


if __name__ == "__main__":
    print(json.dumps({file: faults(file) for file in sys.argv[1:]}))
