"""What a server said to `/generate`: an answer, or a trouble with a kind. Pure."""

from __future__ import annotations

import json
import re
from array import array
from dataclasses import dataclass
from typing import Any, Literal

from eagle_tui.text import parse_json

from .fastjson import loads

Finish = Literal["stop", "length", "abort"]
TroubleKind = Literal[
    "refused",
    "dropped",
    "lost",
    "over_context",
    "rejected",
    "unauthorised",
    "wrong_server",
    "busy",
    "unavailable",
    "server_error",
    "garbled",
]
"""refused: no connection. dropped: closed without a status line. lost: broke off in the body.
over_context, rejected: 400. unauthorised: 401, 403. wrong_server: 404, 405. busy: 503, its queue is
full. unavailable: 502, 503, 504. server_error: other 5xx. garbled: 200 with something else."""

EXCERPT = 400
"""Characters of a server's message that are kept."""

_OVER_CONTEXT = re.compile(
    r"longer than the model's context length"
    r"|exceeds the maximum allowed length"
    r"|exceeds the model's maximum context length"
)


@dataclass(frozen=True, slots=True)
class Answer:
    """HTTP 200 with a finish reason of the allow-list; whether it is a success is judged later."""

    output_ids: array[int]
    """New tokens (unsigned 32 bit), the stop token included."""
    finish: Finish | None
    """None: an event of a stream that goes on."""
    length: int | None
    """For `length`: tokens at which the server stopped."""
    prompt_tokens: int | None
    completion_tokens: int
    plain_abort: bool = False
    """For `abort`: asked for by somebody, so that the tokens so far are sound."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """No answer, and why."""

    kind: TroubleKind
    message: str
    status: int | None = None
    plain: bool = False
    """The body was plain text, as SGLang 0.5.17 sends for a wrong sampling setting."""


Outcome = Answer | Trouble


def error_message(body: bytes) -> tuple[str, bool]:
    """The message in an error body, and whether that was plain text."""
    try:
        parsed = parse_json(body)
    except ValueError:
        return body.decode("utf-8", "replace").strip()[:EXCERPT], True
    return message_of(parsed), False


def message_of(parsed: Any) -> str:
    """The message in any of the error bodies that servers send.

    `{"error": {"message": …}}`, `{"error": "…"}`, `{"object": "error", "message": …}`,
    `{"detail": …}` and plain text occur.
    """
    found: Any = parsed
    if isinstance(parsed, dict):
        error = parsed.get("error")
        if isinstance(error, dict):
            found = error.get("message", error)
        else:
            found = next((parsed[k] for k in ("error", "message", "detail") if parsed.get(k)), "")
    text = found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)
    return text.strip()[:EXCERPT]


def read_outcome(status: int, body: bytes) -> Outcome:
    """What a complete HTTP response means."""
    if status == 200:
        try:
            return answer_of(loads(body))
        except ValueError as error:
            return Trouble("garbled", f"answer is not JSON ({error})", 200)
    message, plain = error_message(body)
    return trouble_of(status, message, plain=plain)


def trouble_of(status: int, message: str, *, plain: bool) -> Outcome:
    """What an HTTP status other than 200 means, also where a stream tells it."""
    if status == 499:
        # 0.5.17 says so for a request that it held back in a pause and then dropped.
        return Answer(array("I"), "abort", None, None, 0, True, message)
    text = message or f"HTTP {status}"
    if status == 400:
        kind: TroubleKind = "over_context" if _OVER_CONTEXT.search(text) else "rejected"
    elif status in (401, 403):
        kind = "unauthorised"
    elif status in (404, 405):
        kind = "wrong_server"
    elif status == 503 and "queue is full" in text:
        kind = "busy"
    elif status in (429, 502, 503, 504):
        kind = "unavailable"
    elif status >= 500:
        kind = "server_error"
    else:
        kind = "rejected"
    return Trouble(kind, text, status, plain)


def error_of(event: dict[str, Any]) -> tuple[int, str]:
    """Status and message of an error that a stream tells after HTTP 200."""
    error = event["error"]
    code = error.get("code") if isinstance(error, dict) else None
    return number(code) or 500, message_of(event)


def answer_of(parsed: Any, *, streamed: bool = False) -> Outcome:
    """What parsed JSON of a 200 means; only an event of a stream may be unfinished."""
    if not isinstance(parsed, dict):
        return Trouble("garbled", "answer is not a JSON object", 200)
    meta = parsed.get("meta_info")
    if not isinstance(meta, dict):
        return Trouble("garbled", f"answer has no meta_info: {message_of(parsed)}", 200)
    try:
        ids = array("I", parsed.get("output_ids") or ())
    except (TypeError, OverflowError):
        return Trouble("garbled", "output_ids are not token ids", 200)
    reason = meta.get("finish_reason")
    kind = reason.get("type") if isinstance(reason, dict) else None
    if streamed and reason is None:
        reason = {}
    elif not isinstance(reason, dict) or kind not in ("stop", "length", "abort"):
        return Trouble("garbled", f"unknown finish reason {str(reason)[:EXCERPT]}", 200)
    return Answer(
        output_ids=ids,
        finish=kind,
        length=number(reason.get("length")) if kind == "length" else None,
        prompt_tokens=number(meta.get("prompt_tokens")),
        completion_tokens=number(meta.get("completion_tokens")) or len(ids),
        plain_abort=kind == "abort" and not reason.get("status_code"),
        message=str(reason.get("message") or "")[:EXCERPT],
    )


def number(value: Any) -> int | None:
    """A count; None when it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
