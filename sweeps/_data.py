"""Where the measured data lie that some studies need. They are not part of the package."""

import os
from pathlib import Path

from jaxcontact.errors import InputError

VARIABLE = "JAXCONTACT_DATA"
_BESIDE = Path("shared", "data")  # beside the project's folder


def data_file(name: str) -> Path:
    """Return the path of a measured file, looked for in the folder that JAXCONTACT_DATA names.

    Where it is not set, in shared/data beside the project or beside the working directory.
    """
    named = os.environ.get(VARIABLE)
    project = Path(__file__).resolve().parents[1]
    folders = [Path(named)] if named else list(dict.fromkeys(each.parent / _BESIDE for each in (project, Path.cwd())))
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    looked = "\n".join(f"  {folder}" for folder in folders)
    raise InputError(
        f"this study needs the measured data {name}, which are not part of the package; not found in\n{looked}\n"
        f"Put the file there, or say in which folder it is: {VARIABLE}=FOLDER"
    )
