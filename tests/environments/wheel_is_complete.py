"""The wheel has all of the package and of the shipped recipes and nothing else, with licence and README.

`python wheel_is_complete.py CHECKOUT WHEEL`; the standard library is enough.
"""

import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

LICENCES = ("LICENSE", "NOTICE")
# They made the small models once, and need the checkout.
LEFT_OUT = {
    "recipes/small_model.py",
    "recipes/quickstart/make_model.py",
    "recipes/calculator/make_model.py",
    "recipes/guess/make_model.py",
    "recipes/colours/make_model.py",
}


def main(checkout: Path, wheel: Path) -> None:
    """Says how many files were compared. Raises SystemExit with those that differ."""
    with zipfile.ZipFile(wheel) as archive:
        there = {name: archive.read(name) for name in archive.namelist() if not name.endswith("/")}
    package = "-".join(wheel.name.split("-")[:2])
    wanted = {path: path for path in _files(checkout, "grpo_recipes")}
    wanted |= {path: f"{package}.data/data/share/grpo-recipes/{path}" for path in _files(checkout, "recipes")}
    wanted |= {name: f"{package}.dist-info/licenses/{name}" for name in LICENCES}
    lost = [path for path, name in wanted.items() if there.get(name) != (checkout / path).read_bytes()]
    strange = {name for name in there if ".dist-info/" not in name} - set(wanted.values())
    if lost or strange:
        sys.exit(f"the wheel lacks or has otherwise {sorted(lost)}, and has beside them {sorted(strange)}")
    _judge_metadata(there[f"{package}.dist-info/METADATA"], (checkout / "README.md").read_text(encoding="utf-8"))
    print(f"environments: {len(wanted)} files of the checkout are in the wheel, and no others")


def _files(checkout: Path, folder: str) -> list[str]:
    found = (path for path in sorted((checkout / folder).rglob("*")) if path.is_file())
    return sorted({str(path.relative_to(checkout)) for path in found if "__pycache__" not in path.parts} - LEFT_OUT)


def _judge_metadata(text: bytes, readme: str) -> None:
    metadata = message_from_bytes(text)
    said = metadata["License-Expression"], metadata.get_all("License-File")
    if said != ("Apache-2.0", list(LICENCES)):
        sys.exit(f"the licence of the metadata is {said}")
    payload = metadata.get_payload(decode=True)
    if not isinstance(payload, bytes) or payload.decode("utf-8").strip() != readme.strip():
        sys.exit("the description of the metadata is not README.md")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
