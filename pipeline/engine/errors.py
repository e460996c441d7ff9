"""Refusals, in the body shapes that SGLang uses."""

from __future__ import annotations

import enum
from typing import Any


class Shape(enum.Enum):
    """The body shapes of an error answer (SGLang has no single one)."""

    MESSAGE = "message"  # {"error": {"message": ...}}: a value that cannot be used
    SCHEMA = "schema"  # {"error": "..."}: sampling_params do not fit their schema
    OBJECT = "object"  # {"object": "error", ...}: the body has the wrong types; queue full


class Refusal(Exception):
    """A request that is answered with an HTTP error and never reaches the scheduler.

    ``status`` is the HTTP status of a plain answer; inside a stream the same refusal becomes an
    error event (SGLang has sent its 200 by then), except for a ``SCHEMA`` or ``OBJECT`` refusal,
    which is found before the stream opens.
    """

    def __init__(self, message: str, *, status: int = 400, shape: Shape = Shape.MESSAGE) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.shape = shape

    def body(self) -> dict[str, Any]:
        """The JSON body of the plain answer."""
        if self.shape is Shape.MESSAGE:
            return {"error": {"message": self.message}}
        if self.shape is Shape.SCHEMA:
            return {"error": self.message}
        kind = "Bad Request" if self.status == 400 else str(self.status)
        return {
            "object": "error",
            "message": self.message,
            "type": kind,
            "param": None,
            "code": self.status,
        }

    def event(self) -> dict[str, Any]:
        """The JSON of the one event that a refused stream consists of."""
        return {
            "error": {
                "message": self.message,
                "type": "invalid_request_error",
                "code": self.status,
                "retryable": False,
            }
        }
