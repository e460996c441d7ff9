"""The verbs of the action registry as commands: what a key can do, a command can do."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from eagle_tui import fmt
from eagle_tui.actions import ACTIONS, Action, Param
from eagle_tui.cli.common import Exit, ask, interactive, rundir
from eagle_tui.cli.look import ask_files
from eagle_tui.client import SocketClient
from eagle_tui.client_api import ClientError
from eagle_tui.protocol import CommandStatus, Preview
from eagle_tui.reach import is_down, last_status, wait_gone
from eagle_tui.text import visible

FAILED, REFUSED = 1, 3
POLL_S = 0.2
SILENT_S = 20.0
"""How long a supervisor may not answer while its order is waited for: it is started again."""
STATE_WORDS = {"in_effect": "in effect"}


class Count(click.ParamType[int]):
    """A count as people write it: 500, 250k, 10M."""

    name = "count"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return fmt.parse_count(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _parameter(param: Param) -> click.Parameter:
    """The command-line form of a verb's argument."""
    kind: click.ParamType[Any] = click.STRING
    if param.type in ("int", "tokens"):
        kind = Count()
    elif param.type == "choice":
        kind = click.Choice(param.choices)
    if param.type == "settings":
        return click.Argument(
            [param.name],
            required=param.required,
            nargs=-1,
            metavar="[SERVER] KEY=VALUE...",
            callback=_settings,
        )
    if param.positional:
        many = -1 if param.type == "datasets" else 1
        return click.Argument(
            [param.name], type=kind, required=param.required, nargs=many, metavar=param.name.upper()
        )
    if param.type == "bool":
        return click.Option([f"--{param.name}"], is_flag=True, help=param.help)
    return click.Option(
        [f"--{param.name.replace('_', '-')}"],
        type=kind,
        default=param.default,
        show_default=param.default is not None,
        help=param.help,
    )


def _settings(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> dict[str, str]:
    """`KEY=VALUE …` as an object. A first word without `=` is the server's name."""
    if words and "=" not in words[0]:
        ctx.params["server"], words = words[0], words[1:]
    found: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{word!r} is not KEY=VALUE", ctx, param)
        if key in found:
            raise click.BadParameter(f"{key} is named twice", ctx, param)
        found[key] = value
    if not found:
        raise click.BadParameter("say what to change, as KEY=VALUE", ctx, param)
    return found


def _command(action: Action) -> click.Command:
    def run(**given: Any) -> None:
        path, yes, wait = given.pop("run"), given.pop("yes"), given.pop("wait")
        args = {k: list(v) if isinstance(v, tuple) else v for k, v in given.items()}
        args = {k: v for k, v in args.items() if v not in (None, False)}
        assert action.verb is not None
        send(path, action.verb, args, confirm=action.confirm, yes=yes, wait=wait)

    params: list[click.Parameter] = [click.Argument(["run"], metavar="RUN")]
    params += [_parameter(p) for p in action.params]
    params += [
        click.Option(["--yes", "-y"], is_flag=True, help="Do not ask."),
        click.Option(
            ["--wait"],
            type=click.FloatRange(min=0),
            default=action.wait_s,
            show_default=True,
            help="Seconds to wait until it is in effect; 0: do not wait.",
        ),
    ]
    return click.Command(action.verb, callback=run, params=params, help=action.help)


def send(
    path: Any, verb: str, args: dict[str, Any], *, confirm: bool, yes: bool, wait: float
) -> None:
    """Preview, ask, order, and follow the order until it is in effect. Ends with code 3 when it is
    refused."""
    run = rundir(path)
    if verb == "down" and is_down(run):
        click.echo(f"{run.root}: the run is down already")
        return

    if verb == "flag" and not args.get("undo"):
        # The supervisor reads no responses; a name mistyped would only be found on the screen.
        ask_files(run, lambda files: files.sample(args["dataset"], args["id"]))

    async def look(client: SocketClient) -> Preview:
        return await client.preview(verb, args)

    preview = ask(run, look)
    if not preview.allowed:
        raise Exit(REFUSED, f"{verb} refused: {visible(preview.sentence)}")
    click.echo(f"{verb}: {visible(preview.sentence)}")
    if (confirm or preview.drops_work) and not yes:
        if not interactive():
            raise Exit(REFUSED, f"{verb} needs a yes: give --yes when nobody can be asked")
        click.confirm("Go on?", abort=True)

    async def order(client: SocketClient) -> CommandStatus:
        command = await client.command(verb, args)
        shown = ""
        answered = time.monotonic()
        deadline = answered + wait
        while True:
            words = STATE_WORDS.get(command.state, command.state)
            if command.state == "accepted" and command.reason:
                words = f"{words} ({visible(command.reason)})"
            if words != shown:
                shown = words
                click.echo(f"  {words}")
            ended = command.state in ("in_effect", "refused")
            if ended or time.monotonic() >= deadline:
                return command
            await asyncio.sleep(POLL_S)
            try:
                command = await client.command_status(command.id)
                answered = time.monotonic()
            except ClientError:
                # After `down` nobody is left to say so but the snapshot.
                before = last_status(run)
                if verb == "down" and before is not None and before.supervisor.state == "stopped":
                    command = command.model_copy(update={"state": "in_effect"})
                elif verb == "down" or time.monotonic() - answered > SILENT_S:
                    raise

    command = ask(run, order)
    if verb == "down" and command.state == "in_effect" and not wait_gone(run):
        raise Exit(FAILED, f"{run.root}: the run is down, but its supervisor does not end")
    if command.state == "refused":
        raise Exit(REFUSED, f"{verb} refused: {visible(command.reason)}")
    if command.state != "in_effect" and wait:
        click.echo(f"  not in effect after {wait:.0f} s; it will be; `eagle-tui events` shows it")


COMMANDS = [_command(action) for action in ACTIONS if action.verb]
