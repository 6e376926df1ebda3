"""What a data folder's card has the library read is part of the folder's digest, wherever it lies."""

from pathlib import Path

import pytest

from grpo_recipes.user_files.digests import data_folder_content, folder_content, front_matter

pytestmark = pytest.mark.hostile
ROW = '{"question": "1+1", "answer": "2"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data" / "sub" / ".hidden").mkdir(parents=True)
    (tmp_path / "outside" / "more").mkdir(parents=True)
    for name in (
        "data/a.jsonl",
        "data/b.jsonl",
        "data/sub/c.jsonl",
        "data/.hidden.jsonl",
        "data/sub/.hidden/d.jsonl",
        "outside/x.jsonl",
        "outside/more/y.jsonl",
    ):
        (tmp_path / name).write_text(ROW)
    (tmp_path / "data" / "linked").symlink_to("../outside")
    return tmp_path / "data"


def card(folder: Path, configs: str) -> None:
    (folder / "README.md").write_text(f"---\nlicense: mit\n{configs}\n---\n# The data\n")


def digest(folder: Path) -> str:
    content = data_folder_content(str(folder))
    assert content is not None
    return content.sha256


def test_a_folder_without_a_card_has_the_digest_that_it_had(folder: Path) -> None:
    assert data_folder_content(str(folder)) == folder_content(str(folder))


@pytest.mark.parametrize(
    "text",
    ["# words", "---\nlicense: mit\n---\n", "---\nconfigs: []\n", "", "---\n---\n", "\ufeff---\nlicense: x\n---\n"],
    ids=["words", "a license", "without end", "empty", "nothing between", "a byte order mark"],
)
def test_a_card_that_says_nothing_of_data_changes_nothing(text: str, folder: Path) -> None:
    before = digest(folder)
    (folder / "README.md").write_text(text)
    assert digest(folder) == before


def test_words_of_a_card_are_not_its_data(folder: Path) -> None:
    card(folder, "configs:\n- config_name: default\n  data_files: a.jsonl")
    before = digest(folder)
    text = (folder / "README.md").read_text()
    (folder / "README.md").write_text(text + "more words\n")
    assert digest(folder) == before


def test_another_choice_of_files_is_another_digest(folder: Path) -> None:
    seen = {digest(folder)}
    for files in ("a.jsonl", "b.jsonl", "'*.jsonl'"):
        card(folder, f"configs:\n- config_name: default\n  data_files: {files}")
        seen.add(digest(folder))
    card(folder, "dataset_info:\n  features: []")
    assert len(seen | {digest(folder)}) == 5


NAMED = {
    "beside the folder": ("../outside/x.jsonl", "outside/x.jsonl"),
    "an absolute path": ("ROOT/outside/x.jsonl", "outside/x.jsonl"),
    "a pattern outside": ("'../outside/**/*.jsonl'", "outside/more/y.jsonl"),
    "through a link": ("linked/x.jsonl", "outside/x.jsonl"),
    "a pattern through a link": ("'linked/**'", "outside/more/y.jsonl"),
    "a hidden file": (".hidden.jsonl", "data/.hidden.jsonl"),
    "in a hidden folder": ("sub/.hidden/d.jsonl", "data/sub/.hidden/d.jsonl"),
    "hidden by a pattern": ("'sub/**/*.jsonl'", "data/sub/.hidden/d.jsonl"),
    "in and out again": ("sub/../../outside/x.jsonl", "outside/x.jsonl"),
    "a list": ("[a.jsonl, ../outside/x.jsonl]", "outside/x.jsonl"),
    "by split": ("{train: a.jsonl, test: [../outside/x.jsonl]}", "outside/x.jsonl"),
    "split and path": ("[{split: train, path: ../outside/x.jsonl}]", "outside/x.jsonl"),
    "split and paths": ("[{split: train, path: [a.jsonl, ../outside/more/y.jsonl]}]", "outside/more/y.jsonl"),
}


@pytest.mark.parametrize("named", NAMED)
def test_a_file_that_the_card_names_counts_wherever_it_lies(named: str, folder: Path) -> None:
    files, changed = NAMED[named]
    plain = folder_content(str(folder))
    card(folder, f"configs:\n- config_name: default\n  data_files: {files.replace('ROOT', str(folder.parent))}")
    before = digest(folder)
    (folder.parent / changed).write_text(ROW.replace("2", "3"))
    assert digest(folder) != before
    assert folder_content(str(folder)) == plain, "the folder alone does not show it"


def test_a_data_dir_outside_counts(folder: Path) -> None:
    card(folder, "configs:\n- config_name: default\n  data_dir: ../outside")
    before = digest(folder)
    (folder.parent / "outside" / "more" / "y.jsonl").write_text("x")
    assert digest(folder) != before


@pytest.mark.parametrize(
    "configs",
    [
        "configs: 3",
        "configs: [1, null, x]",
        "configs:\n- data_files: {a: {b: [1, {c: null}]}}",
        "configs: &a [*a]",
        "configs: !!python/object/apply:os.system ['touch canary']",
        "configs:\n- data_files: https://example.org/x.jsonl",
        "configs:\n- data_files: hf://datasets/a/b/x.jsonl",
        "configs: {" + "[" * 3000,
        "configs:\n- data_files: nowhere/*",
    ],
    ids=["number", "list", "deep", "itself", "object", "address", "hub", "unending", "nothing there"],
)
def test_a_strange_card_is_hashed_and_nothing_more(configs: str, folder: Path) -> None:
    before = digest(folder)
    card(folder, configs)
    assert digest(folder) != before
    assert front_matter(str(folder)).strip().endswith(configs.splitlines()[-1].strip())
    assert not (folder / "canary").exists()


def test_a_card_that_names_a_disk_is_not_read_for_a_plan(folder: Path) -> None:
    card(folder, "configs:\n- data_files: ../outside/huge")
    (folder.parent / "outside" / "huge").touch()
    with (folder.parent / "outside" / "huge").open("r+b") as file:
        file.truncate(1 << 40)
    assert data_folder_content(str(folder), most_bytes=1 << 20) is None
