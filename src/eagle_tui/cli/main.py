"""`eagle-tui`: one command for each thing that a key can do, and a few more.

Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 refused (with the reason), 4 not found,
130 interrupted.
"""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

import click

from eagle_tui import __version__, troubles
from eagle_tui.cli import streams, welcome
from eagle_tui.cli.common import Exit, again, root
from eagle_tui.cli.lazy import Commands
from eagle_tui.client_api import ClientError, NotFound
from eagle_tui.config import ConfigError
from eagle_tui.reach import Down, NotARun, StartFailed
from eagle_tui.rundir.nearby import is_run
from eagle_tui.text import visible

FAILED, USAGE, REFUSED, NOT_FOUND, INTERRUPTED = 1, 2, 3, 4, 130


class Group(click.Group):
    """Says what was most likely meant by a word that is no command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            ctx.fail(visible(_meant(word, self.list_commands(ctx))))
        return super().resolve_command(ctx, args)


def _meant(word: str, known: list[str]) -> str:
    run = root(word)
    if is_run(run.root):
        verb = "attach" if run.state.exists() else "up"
        return f"{word!r} is no command, but a run: {again(verb, run)}"
    near = difflib.get_close_matches(word, known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no command {word[:80]!r}{hint}"


@click.group(
    cls=Group,
    commands=Commands(),
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
