"""Builds the wheel and the sources of a folder, with the same bytes in every folder, at every time and for every user.

`SOURCE_DATE_EPOCH=SECONDS python dist.py SOURCE OUT`, with the packages of constraints/dist.txt installed.
SOURCE: a copy of the repository in which nothing was built yet; its files get the permissions 644 or 755.
"""

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path


def main(source: Path, out: Path) -> None:
    """Raises CalledProcessError if the package cannot be built, and KeyError without SOURCE_DATE_EPOCH."""
    seconds = int(os.environ["SOURCE_DATE_EPOCH"])
    os.umask(0o022)
    for path in (source, *source.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(build, check=True)
    (archive,) = out.glob("*.tar.gz")
    archive.write_bytes(without_traces(archive.read_bytes(), seconds))


def without_traces(archive: bytes, seconds: int) -> bytes:
    """The same .tar.gz with sorted members, without users and with one time; setuptools keeps those of the machine."""
    content, packed = io.BytesIO(), io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = seconds, 0, 0, "", ""
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=seconds) as zipped:
        zipped.write(content.getvalue())
    return packed.getvalue()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
