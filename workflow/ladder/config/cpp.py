"""C++ as its compiler sees it: the tokens of a text, without comments and white space that mean nothing."""

from __future__ import annotations

import re
from functools import cache

_SPLICED = (
    "\0"  # stands for a backslash and the end of its line, of which the compiler sees nothing outside raw strings
)

_TOKEN = re.compile(
    r"""
    (?P<space>(?:[ \t\r\f\v]|//[^\n]*|/\*.*?\*/)+)
    |(?P<end>\n)
    |(?P<nothing>\0)
    |(?P<raw>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"\w*)
    |(?P<text>(?:u8|[uUL])?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')\w*)
    |(?P<word>[^\W\d][\w\0]*)
    |(?P<number>\.?\d(?:[eEpP]\0?[+-]|'?\w|[.\0])*)
    |(?P<operator><<=|>>=|<=>|->\*|\.\.\.|::|\+\+|--|<<|>>|->|&&|\|\||\#\#|[-+*/%&|^!=<>]=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens(text: str) -> list[tuple[str, str]]:
    """The tokens of a C++ text, white space and comments among them: the kind of each (a group of _TOKEN) and its text.

    Put together the texts are the whole text.
    """
    found = _TOKEN.finditer(text.replace("\\\n", _SPLICED))
    return [(match.lastgroup or "", match[0].replace(_SPLICED, "\\\n")) for match in found]


@cache
def canonical(text: str) -> str:
    """The tokens of a C++ text: a line for each directive, and one for all that stands between two directives.

    Texts that differ in comments, in indentation or in where lines end are equal here; those that a compiler may tell
    apart are not, but for `__LINE__` and the white space inside an argument that a macro makes a string of. In a
    directive white space counts as one space, because `#define F(x)` and `#define F (x)` differ in nothing else.
    """
    lines = [""]
    directive = begun = spaced = False  # begun: a token stands on this line of the text
    for match in _TOKEN.finditer(text.replace("\\\n", _SPLICED)):
        kind, token = match.lastgroup, match[0]
        if kind in ("end", "space", "nothing"):
            spaced = spaced or kind != "nothing"
            if kind == "end":
                lines += [""] if directive else []
                directive = begun = False
            continue
        if token == "#" and not begun:
            lines.append("")
            directive = True
        elif lines[-1] not in ("", "#") and (spaced or not directive):
            lines[-1] += " "
        lines[-1] += token.replace(_SPLICED, "\\\n" if kind == "raw" else "")
        begun, spaced = True, False
    return "\n".join(filter(None, lines))
