"""How an error becomes text that every database takes: recording a failure can never fail."""

from __future__ import annotations

import traceback

LONGEST = 4000


def clean(text: str, longest: int = LONGEST) -> str:
    """Return text without NUL and lone surrogates, cut to ``longest`` characters."""
    text = text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= longest else text[: longest - 1] + "…"


def describe(error: BaseException) -> str:
    """Return the type, the message and the last lines of code of an error, cleaned."""
    try:
        message = str(error)
    except Exception:
        message = "(its message cannot be shown)"
    try:
        frames = traceback.extract_tb(error.__traceback__)[-5:]
        places = "".join(f"\n  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames)
    except Exception:
        places = ""
    return clean(f"{type(error).__name__}: {message}{places}")
