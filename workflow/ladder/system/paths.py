"""Where the project stands, and how the files that a user writes are read."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from ladder.system.errors import LadderError

ROOT = Path(__file__).resolve().parents[3]
GPU_FILES = ROOT / "config" / "gpus"


def shown(path: Path) -> str:
    """The path as messages print it: relative to the project where it lies inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def read_text(path: Path) -> str:
    """The text of a file that the user writes; raises LadderError where it cannot be read or is not UTF-8."""
    try:
        _require_contents(path)
        content = path.read_bytes()
    except OSError as error:
        raise LadderError(f"{shown(path)}: {_unreadable(path, error)}") from None
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise LadderError(f"{shown(path)}: line {line}: is not UTF-8 text; save it as such") from None


def require_temporary_folder() -> None:
    """Let compilers put their temporary files where Python does: not in TMPDIR if no file can be written there.

    Raises LadderError, which names the folders that were tried, where none can be written to.
    """
    try:
        os.environ["TMPDIR"] = tempfile.gettempdir()
    except FileNotFoundError as error:
        raise LadderError(f"TMPDIR: {error.strerror}; make room in one, or set TMPDIR to a folder with room") from None


ROOM = 64 << 10  # bytes: any file that a run writes before its first job has fewer


def require_room(folder: Path) -> None:
    """Raise OSError, which names the folder, where no file can be written to it: it is full, or not this user's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(bytes(ROOM))
    except OSError as error:
        error.filename = str(folder)
        raise


def require_file(path: Path) -> None:
    """Raise LadderError where a file that the user names cannot be read."""
    try:
        _require_contents(path)
        path.open("rb").close()
    except OSError as error:
        raise LadderError(f"{shown(path)}: {_unreadable(path, error)}") from None


def resolved(path: Path, place: str) -> Path:
    """A path that the user gave, absolute and without links; a relative one begins at the project.

    Raises LadderError, which begins with `place`, where it leads nowhere: `~` of nobody, links in a circle, a name that
    no file can have.
    """
    try:
        whole = ROOT / path.expanduser()
        whole.exists()
        return whole.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error).rstrip(".")
        raise LadderError(f"{place}: {str(path)!r} leads nowhere ({problem}); mend the path") from None


def _require_contents(path: Path) -> None:
    """Raise LadderError for a pipe or a device, which may be read for ever."""
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise LadderError(f"{shown(path)}: is a pipe or a device; save its content as a file, and name that")


def _unreadable(path: Path, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        link = f"is a link to {path.readlink()}, which is not there; mend it" if path.is_symlink() else ""
        return link or "there is no such file; make it, or mend the name"
    if isinstance(error, IsADirectoryError):
        return "is a folder; a file must stand here"
    if isinstance(error, PermissionError):
        return "you may not read it; chmod a+r gives that right, and a+x of each folder above it"
    return f"cannot be read ({error.strerror}); mend that, or name another file"
