"""docker/Dockerfile installs the sets of constraints/ and brings what Triton compiles with; `make lint` lints it."""

import re
from fnmatch import fnmatch
from pathlib import Path

from extras import EXTRAS, PROJECT, PYTHONS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
SETTINGS = dict(re.findall(r"(?m)^ARG (\w+)=(\S+)$", TEXT))


def test_every_version_is_that_of_the_constraints() -> None:
    assert (ROOT / "constraints" / SETTINGS["CONSTRAINTS"]).is_file()
    assert tuple(SETTINGS["EXTRAS"].split(",")) == EXTRAS
    (install,) = re.findall(r"(?m)^.*pip install .*$", TEXT)
    assert '--constraint "/source/constraints/${CONSTRAINTS}" "/source[${EXTRAS}]"' in install
    assert "==" not in TEXT, "a release that stands here would be another one some day"


def test_the_python_is_one_that_the_sets_are_for() -> None:
    (python,) = re.findall(r"(?m)^FROM python:(\d+\.\d+)-slim-\w+$", TEXT)
    assert python in PYTHONS


def test_what_its_head_names_for_older_drivers_is_there() -> None:
    (file, extras) = re.findall(r"--build-arg CONSTRAINTS=(\S+) --build-arg EXTRAS=(\S+)", TEXT)[0]
    assert "vllm==" not in (ROOT / "constraints" / file).read_text(encoding="utf-8")
    assert set(extras.split(",")) == set(EXTRAS) - {"vllm"}


def test_triton_gets_a_compiler_and_the_build_ends_without_headers() -> None:
    assert re.search(r"apt-get install .*\bg\+\+", TEXT), "which depends on gcc and the headers of C"
    assert re.search(r"test -f .*Python\.h", TEXT)


def test_the_build_sees_what_the_package_is_made_of() -> None:
    lines = (ROOT / "docker/Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines
    seen = [line.removeprefix("!") for line in lines if line.startswith("!")]
    needed = [PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "grpo_recipes", "recipes"]
    assert set(needed) <= set(seen)
    assert all(any(ROOT.glob(name)) for name in seen)
    assert any(fnmatch(f"constraints/{SETTINGS['CONSTRAINTS']}", name) for name in seen)
