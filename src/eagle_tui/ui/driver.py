"""Textual's driver, made fit for a terminal that stalls, vanishes or sends rubbish.

Textual's own writes block the event loop when the terminal is not read, and its input thread takes
the whole app down when a key is no valid UTF-8 or when reading fails.
"""

from __future__ import annotations

import os
import select
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from eagle_tui.ui.outlet import Outlet
from eagle_tui.ui.terminal import can_suspend
from eagle_tui.ui.thin import Thinner

POLL_MS = 100
"""How long a read waits before it looks whether the app ends, or an escape stands for itself."""
READ_BYTES = 4096


class ScreenDriver(LinuxDriver):
    """Output never waits; input survives what cannot be read. For a `TerminalApp`."""

    class CaughtUp(Message):
        """Frames were left out, and the terminal reads again: everything must be drawn anew."""

    class Gone(Message):
        """The terminal is gone."""

    def __init__(self, app: Any, **options: Any) -> None:
        options["mouse"] = options.get("mouse", True) and app.wants_mouse
        super().__init__(app, **options)
        self._outlet: Outlet | None = None
        self._thinner = Thinner()
        self._setting_modes = False

    @property
    def behind(self) -> bool:
        """Whether frames are being left out because the terminal does not read."""
        return self._outlet is not None and self._outlet.behind

    def write(self, data: str) -> None:
        """Queue output, as far as it changes what the terminal shows; never blocks."""
        if self._outlet is None:
            return
        if self._setting_modes:
            self._thinner.forget()
            self._outlet.write(data, must=True)
            return
        less = self._thinner.feed(data)
        if less and not self._outlet.write(less):
            self._thinner.forget()

    def forget(self) -> None:
        """The terminal may show something else than was written, as after another size."""
        self._thinner.forget()

    def start_application_mode(self) -> None:
        assert self._file is not None
        self._outlet = Outlet(self._file.fileno(), self._caught_up, self._gone)
        self._outlet.start()
        with self._modes():
            super().start_application_mode()  # type: ignore[no-untyped-call]

    def stop_application_mode(self) -> None:
        with self._modes():
            super().stop_application_mode()

    def close(self) -> None:
        if self._outlet is not None:
            self._outlet.stop()
            self._outlet = None
        super().close()

    def _get_terminal_size(self) -> tuple[int, int]:
        # Textual believes COLUMNS and LINES more than the terminal; a shell may have exported those
        # of another one.
        if self._file is not None:
            with suppress(OSError, ValueError):
                columns, lines = os.get_terminal_size(self._file.fileno())
                if columns and lines:
                    return columns, lines
        return super()._get_terminal_size()

    def _sigtstp_application(self, *_: Any) -> None:
        # Also from the terminal itself, before it is told to send ctrl+z as a key.
        if can_suspend():
            super()._sigtstp_application()

    def run_input_thread(self) -> None:
        """Read keys until the end; what cannot be understood is lost, and nothing else.

        Textual's own loop reads a terminal that is gone again and again, at a whole core.
        """
        ready = select.poll()
        ready.register(self.fileno, select.POLLIN)
        parser, decode = self._new_parser(), getincrementaldecoder("utf-8")("ignore").decode
        while not self.exit_event.is_set():
            data = None
            if ready.poll(POLL_MS):
                try:
                    data = os.read(self.fileno, READ_BYTES)
                except (BlockingIOError, InterruptedError):
                    continue
                except OSError:
                    self._gone()
                    return
                if not data:
                    self._gone()
                    return
            try:
                for event in parser.feed(decode(data)) if data else ():
                    self.process_message(event)
                for event in parser.tick():
                    self.process_message(event)
            except (ValueError, OverflowError):
                parser = self._new_parser()  # a sequence with an impossible number in it

    def _new_parser(self) -> XTermParser:
        return XTermParser(self._debug)

    @contextmanager
    def _modes(self) -> Iterator[None]:
        """Within it, what is written is never left out."""
        self._setting_modes = True
        try:
            yield
        finally:
            self._setting_modes = False

    def _caught_up(self) -> None:
        self.send_message(self.CaughtUp())

    def _gone(self) -> None:
        self.send_message(self.Gone())
