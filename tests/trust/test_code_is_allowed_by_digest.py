"""Foreign code runs only after its digest was allowed."""

import hashlib
import json
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support import small_disks
from support.plans import small_plan

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.findings_text import bare_text
from grpo_recipes.contract.integrity.allowed import CODE, list_file
from grpo_recipes.contract.plan import (
    CODE_OF,
    Arguments,
    Data,
    Model,
    Plan,
    Reward,
)
from grpo_recipes.contract.plan_sections import Package, Vllm, VllmServer
from grpo_recipes.trust.code import CodePart, code_parts, not_allowed, refusal, resolve_allowed
from grpo_recipes.trust.remembered import allow, is_allowed

ONE, TWO = "a" * 64, "a" * 32 + "b" * 32


@pytest.fixture(autouse=True)
def config_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config"


def plan_with(*rewards: Reward, model: Model, **model_init: object) -> Plan:
    data = Data("hub", "some/rows", None, None, "train", None, None, "standard", None, {})
    arguments = Arguments(GRPOConfig={}, model_init_kwargs=dict(model_init))
    return small_plan(name="x", model=model, data=data, rewards=rewards, arguments=arguments)


COMMIT = "0123456789" * 4
HUB = Model("hub", "some/model", "abc123", commit=COMMIT)


def test_a_recipe_of_installed_parts_brings_no_code() -> None:
    shipped = Reward("shipped", "exact_match", "exact_match", 1.0)
    assert code_parts(plan_with(shipped, model=HUB, trust_remote_code=False)) == []


def of_package(target: str, release: str | None = "1.16.0", package: str = "trl", **options: object) -> Reward:
    return Reward("package", "r", target, 1.0, options, package=Package(package, release, None))


def test_rewards_of_trl_are_known_and_nothing_else_of_a_package_is() -> None:
    known = [of_package("trl.rewards:think_format_reward"), of_package("trl.rewards:get_x", max_len=3)]
    assert code_parts(plan_with(*known, model=HUB)) == []
    others = [
        of_package("trl.rewards:__getattr__"),
        of_package("trl.import_utils:version"),
        of_package("trl.rewards:think_format_reward", package="other"),
    ]
    parts = code_parts(plan_with(*others, model=HUB))
    assert [part.kind for part in parts] == ["package reward"] * 3
    assert parts[1].what == "trl.import_utils:version of trl 1.16.0 with {}"


def test_another_release_or_option_of_a_package_is_asked_for_again() -> None:
    first = of_package("scores:strict", "1.0", "scores", at=1)
    allow(part.sha256 for part in code_parts(plan_with(first, model=HUB)))
    assert not not_allowed(code_parts(plan_with(first, model=HUB)), [])
    for other in (
        of_package("scores:strict", "1.1", "scores", at=1),
        of_package("scores:strict", "1.0", "scores", at=2),
        of_package("scores:loose", "1.0", "scores", at=1),
    ):
        assert not_allowed(code_parts(plan_with(other, model=HUB)), [])


def test_a_package_of_no_known_release_is_asked_for_each_time() -> None:
    (part,) = code_parts(plan_with(of_package("scores:strict", None, "scores"), model=HUB))
    assert not part.is_fixed
    assert not_allowed([part], [part.sha256]) == []
    assert not_allowed([part], []) == [part]


def test_each_file_and_the_models_own_code_is_one_part() -> None:
    mine = [Reward("python", name, f"r.py:{name}", 1.0, {}, "/r/r.py", ONE) for name in ("short", "kind")]
    parts = code_parts(plan_with(*mine, model=HUB, trust_remote_code=True))
    assert parts == [
        CodePart("python reward", "/r/r.py", ONE),
        CodePart(
            "remote code",
            f"some/model, revision {COMMIT}",
            hashlib.sha256(f"some/model@{COMMIT}".encode()).hexdigest(),
        ),
    ]


def test_files_that_a_reward_imports_are_parts_of_their_own() -> None:
    mine = Reward("python", "f", "r.py:f", 1.0, {}, "/r/r.py", ONE, {"helper.py": TWO})
    parts = code_parts(plan_with(mine, model=HUB))
    assert parts[1:] == [CodePart("file imported by a reward", "/r/helper.py", TWO)]


def test_a_plan_that_says_no_path_is_asked_for_its_code_all_the_same() -> None:
    """Its run folder may have the file, from which it is loaded."""
    mine = Reward("python", "f", "r.py:f", 1.0, {}, None, ONE)
    (part,) = code_parts(plan_with(mine, model=HUB))
    assert (part.kind, part.sha256) == ("python reward", ONE)


def test_an_attention_kernel_of_the_hub_is_code() -> None:
    (part,) = code_parts(plan_with(model=HUB, attn_implementation="someone/kernel"))
    assert (part.kind, part.what) == ("attention kernel", "someone/kernel of the hub")
    assert code_parts(plan_with(model=HUB, attn_implementation="sdpa")) == []


def test_the_configuration_that_names_remote_code_is_a_part_of_it(tmp_path: Path) -> None:
    plan = plan_with(model=Model("folder", str(tmp_path)), trust_remote_code=True)
    (tmp_path / "config.json").write_text("{}")
    before = code_parts(plan)
    (tmp_path / "config.json").write_text('{"auto_map": {"AutoModel": "someone/else--model.Model"}}')
    assert code_parts(plan) != before


def test_code_of_the_hub_is_known_by_its_commit() -> None:
    (part,) = code_parts(plan_with(model=HUB, trust_remote_code=True))
    assert not_allowed([part], [part.sha256]) == []
    other = replace(HUB, commit="f" * 40)
    (pushed,) = code_parts(plan_with(model=other, trust_remote_code=True))
    assert not_allowed([pushed], []) == [pushed], "another commit is other code"


@pytest.mark.parametrize("revision", [None, "main"])
def test_code_of_a_commit_that_nobody_knows_is_asked_for_each_time(revision: str | None) -> None:
    (part,) = code_parts(plan_with(model=Model("hub", "some/model", revision), trust_remote_code=True))
    assert not_allowed([part], [part.sha256]) == []
    assert not_allowed([part], []) == [part]


AUTO_MAP = {"AutoModel": "someone/else--model.Model", "AutoTokenizer": ["a/b--t.T", None], "AutoConfig": "c.C"}


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "preprocessor_config.json"])
def test_code_of_another_repository_is_named_and_asked_for(file: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(json.dumps({"inner": {"auto_map": AUTO_MAP}}))
    plan = plan_with(model=Model("folder", str(tmp_path)), trust_remote_code=True)
    named = [part for part in code_parts(plan) if "which" in part.what]
    assert sorted(part.what.split(",")[0] for part in named) == ["a/b", "someone/else"]
    assert not any(part.is_fixed for part in named)
    pinned = replace(plan, verified={f"{CODE_OF}a/b": COMMIT, f"{CODE_OF}someone/else": COMMIT})
    assert all(part.is_fixed and COMMIT in part.what for part in code_parts(pinned)[1:])


@pytest.mark.parametrize(
    "name",
    ["x.so", "x.pyd", ".hidden.py", "__pycache__/m.cpython-311.pyc", "notes.md", "sub/data.bin", "model.safetensors"],
)
def test_everything_that_allowed_code_may_load_is_part_of_its_digest(name: str, tmp_path: Path) -> None:
    plan = plan_with(model=Model("folder", str(tmp_path)), trust_remote_code=True)
    (tmp_path / "modeling.py").write_text("x = 1")
    digests = []
    (tmp_path / name).parent.mkdir(exist_ok=True)
    for text in ("1", "2", "1"):
        (tmp_path / name).write_text(text)
        digests += [part.sha256 for part in code_parts(plan)]
    assert digests[0] == digests[2] != digests[1]


def test_what_lies_behind_a_link_is_part_of_the_digest(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "back").symlink_to(tmp_path / "model")
    (tmp_path / "model" / "code").symlink_to("../outside")
    plan = plan_with(model=Model("folder", str(tmp_path / "model")), trust_remote_code=True)
    before = code_parts(plan)
    (tmp_path / "outside" / "m.py").write_text("x")
    assert code_parts(plan) != before


def test_a_plan_that_says_something_else_of_the_folder_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "modeling.py").write_text("x = 1")
    true = hashlib.sha256(b"x = 1").hexdigest()
    right = plan_with(model=Model("folder", str(tmp_path), files={"modeling.py": true}), trust_remote_code=True)
    wrong = plan_with(model=Model("folder", str(tmp_path), files={"modeling.py": ONE}), trust_remote_code=True)
    assert code_parts(right) == code_parts(plan_with(model=Model("folder", str(tmp_path)), trust_remote_code=True))
    assert code_parts(wrong) != code_parts(right)


def test_code_in_a_model_folder_is_known_by_its_content(tmp_path: Path) -> None:
    plan = plan_with(model=Model("folder", str(tmp_path)), trust_remote_code=True)
    digests = []
    for text in ("x = 1", "x = 2", "x = 1"):
        (tmp_path / "modeling.py").write_text(text)
        digests += [part.sha256 for part in code_parts(plan)]
    assert digests[0] == digests[2] != digests[1]


def test_what_is_allowed_is_remembered_for_its_owner_alone() -> None:
    assert not is_allowed(ONE)
    allow([ONE])
    allow([TWO, ONE])
    assert is_allowed(ONE)
    assert is_allowed(TWO)
    assert not is_allowed("c" * 64)
    assert stat.S_IMODE(list_file(CODE).stat().st_mode) == 0o600
    assert json.loads(list_file(CODE).read_text()) == {"allowed": [ONE, TWO]}
    assert sorted(path.name for path in list_file(CODE).parent.iterdir()) == [".allowed.lock", "allowed.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"allowed": 3}', "\0"])
def test_an_unreadable_list_allows_nothing_and_says_where_it_is(text: str) -> None:
    allow([ONE])
    list_file(CODE).write_text(text)
    with pytest.raises(Refusal, match=r"allowed\.json"):
        is_allowed(ONE)


def test_the_list_is_where_the_xdg_specification_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert list_file(CODE) == tmp_path / ".config" / "grpo-run" / "allowed.json"


PARTS = [CodePart("python reward", "/r/one.py", ONE), CodePart("python reward", "/r/two.py", TWO)]


def test_code_is_named_by_its_digest_or_a_prefix_that_is_its_own() -> None:
    assert resolve_allowed([], PARTS) == []
    assert resolve_allowed([ONE, TWO[:40].upper()], PARTS) == [ONE, TWO]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a" * 31, "at least 32 digits"),
        ("a" * 32, "matches 2 pieces of code"),
        ("c" * 64, "no code of this recipe has this sha256"),
        ("", "at least 32 digits"),
    ],
    ids=["short", "of two", "of none", "empty"],
)
def test_a_digest_that_names_nothing_is_refused(given: str, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        resolve_allowed([given], PARTS)


VARIABLES = [CodePart("environment variable", f"{name}=1", name * 64) for name in "ab"]


@pytest.mark.parametrize(
    ("parts", "first", "until"),
    [
        (PARTS, "this recipe contains code that is not allowed to run yet", "until the code changes"),
        (VARIABLES[:1], "this recipe sets a variable that is not allowed yet", "until the value changes"),
        (VARIABLES, "this recipe sets variables that are not allowed yet", "until the value changes"),
        (
            [*PARTS, *VARIABLES],
            "this recipe contains code and variables that are not allowed to run yet",
            "until the code changes",
        ),
    ],
    ids=["code", "a variable", "variables", "both"],
)
def test_the_refusal_calls_things_what_they_are(parts: list[CodePart], first: str, until: str) -> None:
    finding = refusal(parts)
    assert finding.message == first
    assert str(finding.fix).endswith(until)


def test_the_refusal_has_the_line_to_paste() -> None:
    parts = [*PARTS, CodePart("remote code", "m", "b" * 64)]
    text = bare_text([refusal(parts)])
    assert "python reward /r/one.py" in text
    line = f"--allow-code {ONE} --allow-code {TWO} --allow-code {'b' * 64}"
    assert line in text
    assert resolve_allowed(line.split()[1::2], parts) == [ONE, TWO, "b" * 64]


def test_a_list_that_cannot_be_written_is_refused_and_stays(
    small_disk: Callable[[int], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = small_disk(16)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(disk))
    allow(["a" * 64])
    small_disks.fill(disk)
    with pytest.raises(Refusal, match="cannot be written\n  = because: No space left on device\n  = fix: free some"):
        allow([f"{number:064x}" for number in range(100)])
    assert is_allowed("a" * 64)
    assert sorted(path.name for path in list_file(CODE).parent.iterdir()) == [".allowed.lock", "allowed.json"]


def test_a_variable_that_only_tunes_brings_no_code() -> None:
    plan = replace(plan_with(model=HUB), environment={"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "1"})
    assert code_parts(plan) == []


def test_a_variable_that_nobody_knows_is_asked_for_by_name_and_value() -> None:
    plan = replace(plan_with(model=HUB), environment={"NCCL_DEBUG": "INFO", "MY_MODE": "fast"})
    (part,) = code_parts(plan)
    assert (part.kind, part.what) == ("environment variable", "MY_MODE=fast")
    assert not_allowed([part], []) == [part]
    assert not_allowed([part], [part.sha256]) == []
    assert not_allowed(code_parts(plan), []) == [], "it is remembered"
    (other,) = code_parts(replace(plan, environment={"MY_MODE": "slow"}))
    assert not_allowed([other], []) == [other], "another value is another thing"


def test_a_variable_that_names_a_file_is_asked_for_each_time() -> None:
    (part,) = code_parts(replace(plan_with(model=HUB), environment={"MY_FILE": "../x.so"}))
    assert not_allowed([part], [part.sha256]) == []
    assert not_allowed([part], []) == [part]
    assert "needs consent each time, since its content may change: MY_FILE=../x.so" in refusal([part]).notes[0]


def test_the_environment_of_a_server_in_a_strangers_plan_is_asked_for() -> None:
    environment = {"VLLM_SERVER_DEV_MODE": "1", "LD_PRELOAD": "x"}
    vllm = Vllm("server", "auto", server=VllmServer(("-m", "x"), environment, (), None, 1, 0, False))
    assert [part.what for part in code_parts(replace(plan_with(model=HUB), vllm=vllm))] == ["LD_PRELOAD=x"]
