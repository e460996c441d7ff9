"""Standard streams that are closed, or speak less than UTF-8."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = "import os, sys; from eagle_tui.cli import streams; streams.settle(); "


def ran(code: str, closed: str = "", **env: str) -> subprocess.CompletedProcess[bytes]:
    argv = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", BEGIN + code]
    return subprocess.run(argv, capture_output=True, env={**os.environ, **env}, check=False)


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_file_does_not_get_the_number_of_a_closed_stream(closed: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    code = (
        f"file = open({str(path)!r}, 'w'); print('out'); print('err', file=sys.stderr); "
        "assert not sys.stdin.isatty(); file.write(str(file.fileno() > 2)); file.close()"
    )
    done = ran(code, closed)
    assert (done.returncode, path.read_text()) == (0, "True"), done.stderr


def test_what_an_encoding_lacks_is_replaced() -> None:
    done = ran("print('5\\u20136 \\u2026')", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, b"5?6 ?\n"), done.stderr


def test_the_screen_needs_a_terminal_also_where_input_is_closed() -> None:
    done = ran("from eagle_tui.cli.screen import need_terminal; need_terminal()", "<&-")
    assert b"Exit: the screen needs a terminal" in done.stderr
