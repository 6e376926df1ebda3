"""The exception that carries findings."""

import json
import pickle

import pytest

from grpo_recipes.contract.findings.finding import Finding, Patch, as_record, mistake, of_record
from grpo_recipes.contract.findings.findings_text import Mistake


def test_one_reason_may_be_a_text_and_several_are_a_row() -> None:
    assert mistake("m", because="one").because == ("one",)
    assert mistake("m", because=["one", "two"]).because == ("one", "two")


def test_the_text_is_made_of_the_findings() -> None:
    with pytest.raises(Mistake, match=r"^port 1 is taken\n  = because: nginx has it\n  = fix: port: 2$"):
        raise Mistake.of("port 1 is taken", because="nginx has it", fix="port: 2")


def test_a_mistake_travels_to_another_process_with_its_findings() -> None:
    sent = Mistake.of("port 1 is taken", fix="port: 2")
    assert pickle.loads(pickle.dumps(sent)).findings == sent.findings


def test_a_finding_is_the_same_after_a_file() -> None:
    path = ("dataset", "columns", 0)
    patch = (Patch(path, 1), Patch(("model",), remove=True))
    finding = Finding(
        "PFL001", "warning", "m", "dataset.columns[0]", None, ("b",), "f", patch, ("s",), ("n",), "log", path
    )
    assert of_record(json.loads(json.dumps(as_record(finding)))) == finding
    assert of_record(json.loads(json.dumps(as_record(mistake("m"))))) == mistake("m")
