"""GRP010: jinja2 leaves a word in single braces as it stands, and the rewritten template asks for the column."""

from pathlib import Path

from support.releases import pinned

from grpo_recipes.resolve.resolve import resolve
from grpo_recipes.stack.target import parse_target

RECIPE = """\
recipe: 1
name: braces
model: {model_name_or_path: owner/model}
dataset: {path: owner/data, prompt: "Q: {question}"}
rewards: [{name: completion_length}]
training: {prompts_per_step: 4, max_steps: 1}
"""


def test_single_braces_are_text_to_jinja2(tmp_path: Path) -> None:
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def rendered(template: str) -> str:
        return ImmutableSandboxedEnvironment().from_string(template).render(question="1+1=")

    (tmp_path / "r.yaml").write_text(RECIPE)
    stack, _ = parse_target(f"{pinned('trl transformers torch')},gpus=0")
    assert stack is not None
    found = [one for one in resolve(str(tmp_path / "r.yaml"), stack).findings if one.rule == "GRP010"]
    assert rendered("Q: {question}") == "Q: {question}"
    assert [rendered(str(patch.value)) for one in found for patch in one.patch] == ["Q: 1+1="]
