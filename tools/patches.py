"""Unified diffs applied strictly: nothing is searched for, and no program of the system is needed."""

import re

from ladder.system.errors import LadderError

HEAD = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@.*")


def patched(text: str, hunks: str, name: str) -> str:
    """The text after the hunks of a unified diff of it.

    Raises LadderError, with `name` and the head of the hunk, where the text has another line than the hunk expects, or
    where the head is not that of the lines below it.
    """
    old, new, done = text.removesuffix("\n").split("\n"), [], 0  # done: how many of the old lines are dealt with
    for hunk in re.split(r"\n(?=@@)", hunks.removesuffix("\n")):
        head, *lines = hunk.split("\n")
        lines = [line or " " for line in lines]  # editors and git take the blank from an empty line
        numbers = HEAD.fullmatch(head)
        if numbers is None or any(line[0] not in " -+" for line in lines):
            raise LadderError(f"{name}: {head}: is not a hunk of a unified diff")
        expected = [line[1:] for line in lines if line[0] != "+"]
        wanted = [line[1:] for line in lines if line[0] != "-"]
        first, count, new_first, new_count = (int(number or 1) for number in numbers.groups())
        new += old[done : first - 1]
        if (count, new_count) != (len(expected), len(wanted)) or done >= first or len(new) != new_first - 1:
            raise LadderError(f"{name}: {head}: its numbers are not those of its lines")
        for number, line in enumerate(expected, first):
            if old[number - 1 : number] != [line]:
                there = "".join(old[number - 1 : number])
                raise LadderError(f"{name}: {head}: expects `{line}` as line {number}; `{there}` stands there")
        new += wanted
        done = first - 1 + count
    return "\n".join([*new, *old[done:], ""])
