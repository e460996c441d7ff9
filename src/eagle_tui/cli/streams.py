"""Standard input and output as whoever started us left them, made fit for use."""

from __future__ import annotations

import io
import os
import sys


def settle() -> None:
    """Stand-ins for streams that are closed, and no error for a character that an encoding lacks.

    A file that is opened while a standard stream is closed would get its number, and whatever is
    printed would be written into that file.
    """
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(fd)
    # Standard output in Latin-1 or ASCII (a locale, PYTHONIOENCODING) has no `–` and no `…`.
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
