"""`eagle-tui`: one command for each thing that a key can do, and a few more.

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused (with the reason), 4 not found,
130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from eagle_tui import __version__, troubles
from eagle_tui.cli import (
    datasets,
    doctor,
    events,
    follow,
    history,
    launches,
    logs,
    make,
    notify,
    phases,
    samples,
    screen,
    streams,
    verbs,
    welcome,
)
from eagle_tui.cli.common import Exit
from eagle_tui.client import Down, NotARun, StartFailed
from eagle_tui.client_api import ClientError, NotFound
from eagle_tui.config import ConfigError
from eagle_tui.text import visible

FAILED, USAGE, REFUSED, NOT_FOUND, INTERRUPTED = 1, 2, 3, 4, 130


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
)
@click.version_option(__version__, prog_name="eagle-tui")
@click.pass_context
def cli(context: click.Context) -> None:
    """Monitor and control the training of an EAGLE-3 drafter.

    `eagle-tui demo` shows all of it on any laptop. A run lives in a directory (RUN).
    """
    if context.invoked_subcommand is None:
        for line in welcome.lines(Path.cwd()):
            click.echo(visible(line))


for part in (
    make,
    screen,
    follow,
    datasets,
    samples,
    logs,
    events,
    phases,
    history,
    launches,
    notify,
    doctor,
    verbs,
):
    for command in part.COMMANDS:
        cli.add_command(command)


def main(argv: list[str] | None = None) -> int:
    """Entry point; ends the process with the exit code."""
    code: Any
    streams.settle()
    try:
        code = cli.main(args=argv, prog_name="eagle-tui", standalone_mode=False)
    except click.exceptions.Abort:
        code = INTERRUPTED
    except KeyboardInterrupt:
        code = INTERRUPTED
    except click.UsageError as error:
        error.show()
        code = USAGE
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except Exit as error:
        code = _say(error, error.code) if str(error) else error.code
    except ConfigError as error:
        code = _say(error, USAGE)
    except (NotARun, NotFound) as error:
        code = _say(error, NOT_FOUND)
    except Down as error:
        code = _say(error, REFUSED)
    except StartFailed as error:
        code = _say(error, error.code if error.code in (USAGE, REFUSED) else FAILED)
    except ClientError as error:
        code = _say(error, FAILED)
    except OSError as error:
        code = _say(troubles.of(error).sentence, FAILED)
    sys.exit(code if isinstance(code, int) else 0)


def _say(error: Exception | str, code: int) -> int:
    click.echo(f"eagle-tui: {visible(str(error))}", err=True)
    return code


if __name__ == "__main__":
    main()
