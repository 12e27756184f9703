"""The one exception that a user sees: a line that says what was wrong, where, and what to do."""

from __future__ import annotations


class LadderError(Exception):
    """Bad input or a missing tool; its text is one line that names the place, the value and the remedy."""
