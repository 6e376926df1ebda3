"""A file that keeps room on the disk for what must be written at the end."""

import errno
import os
from pathlib import Path

from grpo_recipes.contract.files.folder_files import open_in_place, rename


def write_over(folder: Path, spare: str, name: str, content: str) -> None:
    """Replaces a file by another one of the folder, written over and renamed: on a full disk its room is there.

    To remove the spare file and write anew would leave its room to whoever fills the disk. Raises OSError, also for
    content that is larger than the spare file, and for one with other names, which would be written over too.
    """
    with open(open_in_place(folder, spare, make=False), "r+b") as file:
        found = os.fstat(file.fileno())
        if found.st_nlink > 1 or found.st_size < len(encoded := content.encode()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), spare)
        file.write(encoded)
        file.truncate()
        file.flush()
        os.fsync(file.fileno())
    rename(folder, spare, name)
