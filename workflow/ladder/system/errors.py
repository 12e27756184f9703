"""The one exception that a user sees, and any other exception in one line: what was wrong, where, and what to do."""

from __future__ import annotations

import errno
import os
import re
import subprocess
import traceback
from types import FrameType

WIDEST_WORD, KEPT = 400, 60  # characters of a word that a message holds, and of a wider one that are left


class LadderError(Exception):
    """Bad input or a missing tool; its text is one line that names the place, the value and the remedy.

    Of a word that fills a screen, such as a value pasted by mistake, the beginning and its length are told.
    """

    def __init__(self, text: str) -> None:
        """`text` is the line."""
        super().__init__(
            re.sub(rf"\S{{{WIDEST_WORD + 1},}}", lambda word: f"{word[0][:KEPT]}... ({len(word[0])} characters)", text)
        )


_REMEDIES = {
    errno.ENOSPC: "make room on that disk, and run again",
    errno.EDQUOT: "make room within your quota, and run again",
    errno.EACCES: "give this user the right to it, and run again",
    errno.EPERM: "give this user the right to it, and run again",
    errno.EROFS: "work in a folder that can be written to",
    errno.ENOENT: "install or restore it, and run again",
    errno.ENOMEM: "free memory, raise the limit (ulimit -v), or run with fewer --cores",
    errno.EMFILE: "raise the limit (ulimit -n), and run again",
}


def remedy_of(message: str) -> str:
    """What to do about an error of the system that a message of others tells; to run again where it tells none."""
    return next((remedy for number, remedy in _REMEDIES.items() if os.strerror(number) in message), "run again")


def one_line(error: Exception) -> str:
    """What an exception says to a user, in one line; empty where it is a fault of this program and not of its place."""
    if isinstance(error, LadderError):
        return str(error)
    if isinstance(error, OSError) and error.errno:
        named = " to ".join(os.fsdecode(name) for name in (error.filename, error.filename2) if name is not None)
        remedy = _REMEDIES.get(error.errno, "mend that, and run again")
        return f"{named + ': ' if named else ''}{os.strerror(error.errno)}; {remedy}"
    if isinstance(error, MemoryError):
        return f"out of memory; {_REMEDIES[errno.ENOMEM]}"
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object[:80]!a}: cannot be said in {error.encoding}; set LC_ALL=C.UTF-8, or give it another name"
    if isinstance(error, UnicodeDecodeError) and error.encoding != "utf-8":  # by the locale, not by one of our readers
        return f"{error.object[:40]!a}: cannot be read in {error.encoding}; set LC_ALL=C.UTF-8, for all text is UTF-8"
    if package := _broken_package(error):
        said = " ".join(str(error).split())
        return f"{package}: Python cannot import it ({said}); make the environment anew: rm -rf .venv; make env"
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}: line {error.lineno}: {error.msg}; mend that line, or restore the file"
    if isinstance(error, subprocess.CalledProcessError):
        said = str(error.stderr or error.stdout or "").strip().splitlines()
        program = error.cmd if isinstance(error.cmd, str) else os.fsdecode(error.cmd[0])
        return f"{program}: ended with exit status {error.returncode}: {said[-1] if said else 'it says nothing'}"
    return ""


def _broken_package(error: Exception) -> str:
    """The package of others whose import raised this: what an ImportError names, or whose module was being run."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    names = [str(frame.f_globals["__name__"]) for frame in frames if _runs_a_module(frame)]
    if isinstance(error, ImportError) and error.name:
        names.append(error.name)
    if isinstance(error, SyntaxError) and "/site-packages/" in (error.filename or ""):
        names.append(error.filename.rpartition("/site-packages/")[2].replace("/", "."))
    packages = (name.partition(".")[0] for name in names)
    return next((package for package in packages if package not in ("__main__", "ladder")), "")


def _runs_a_module(frame: FrameType) -> bool:
    code = frame.f_code
    return code.co_name == "<module>" and frame.f_globals.get("__file__") == code.co_filename
