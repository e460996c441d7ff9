"""Stands in for `python -m sglang.launch_server`: the part of its HTTP surface that phases 4 and 6
use, with answers that can be reckoned. The shapes are those of SGLang 0.5.23.

Behaviour by environment: FAKE_STATES names a file with the states of each prompt ({hidden:
[layer][token], next}); FAKE_FAIL=WORDS exits at start when the flags hold them; FAKE_DIFFER=1
gives other tokens while speculating; FAKE_PASS_S is the time of one pass of the model; FAKE_LOG
collects the flags of each start. FAKE_DIE=N dies when N requests are there at a time, FAKE_DIE_ONCE
names a file that is there once it has. FAKE_QUIET=counts tells no passes of verification, =length
only the accept length, =all not even that it speculates. FAKE_NO_LOGPROBS=1 refuses to give them,
FAKE_CONTEXT=N prompts of N tokens and more. FAKE_WRONG=1 gives final states that are not its own.
While a request runs, and once after each, the cache cannot be flushed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FLAGS = sys.argv[1:]
PASS_S = float(os.environ.get("FAKE_PASS_S", "0.001"))


def flag(name: str) -> str | None:
    return FLAGS[FLAGS.index(name) + 1] if name in FLAGS else None


STEPS = int(flag("--speculative-num-steps") or 0)
DRAFTED = flag("--speculative-draft-model-path") is not None
LAST = "--enable-return-hidden-states" in FLAGS
AUX = "--enable-return-aux-hidden-states" in FLAGS
STATES: dict[str, Any] = {}
QUIET = os.environ.get("FAKE_QUIET", "")
DIE_AT = int(os.environ.get("FAKE_DIE", "0"))
CONTEXT = int(os.environ.get("FAKE_CONTEXT", "100000"))
live = 0
busy = False


def next_token(ids: list[int]) -> int:
    return 1 + (sum(ids[-3:]) * 7 + len(ids)) % 40


def generate(body: dict[str, Any]) -> dict[str, Any]:
    ids = list(body["input_ids"])
    count = body["sampling_params"]["max_new_tokens"]
    new: list[int] = []
    for place in range(count):
        token = next_token(ids + new)
        if DRAFTED and os.environ.get("FAKE_DIFFER") and place == 2:
            token += 1
        new.append(token)
    meta: dict[str, Any] = {
        "prompt_tokens": len(ids),
        "completion_tokens": count,
        "cached_tokens": 0,
        "finish_reason": {"type": "length", "length": count},
    }
    passes = count
    if DRAFTED:
        # Every other round accepts all drafts, the rest accept none.
        taken, left, rounds = [0] * (STEPS + 1), count - 1, 0
        while left > 0:
            hits = min(STEPS, left - 1) if rounds % 2 else 0
            taken[hits] += 1
            left -= hits + 1
            rounds += 1
        passes = rounds + 1
        if not QUIET:
            meta |= {"spec_verify_ct": rounds, "spec_correct_drafts_histogram": taken}
        elif QUIET == "length":
            meta["spec_accept_length"] = count / rounds
    time.sleep(PASS_S * passes)
    if body.get("return_logprob"):
        # As SGLang tells them: from a place in the input on, and of that place itself nothing.
        start = body["logprob_start_len"]
        pair = [[-0.1, 1, None], [-0.2, 2, None]]
        meta["input_top_logprobs"] = [None, *(pair for _ in ids[start + 1 :])]
        meta["input_token_logprobs"] = [[None, ids[start], None]] + [
            [-0.1, token, None] for token in ids[start + 1 :]
        ]
    if body.get("return_hidden_states"):
        meta["hidden_states"] = [states(ids)]
        new = [STATES[" ".join(map(str, ids))]["next"]]
    return {"text": "", "output_ids": new, "meta_info": meta}


def states(ids: list[int]) -> Any:
    """Rows of the final state, or of the layers that were asked for."""
    hidden = STATES[" ".join(map(str, ids))]["hidden"]
    if LAST:
        return (
            [row[1:] + row[:1] for row in hidden[-1]]
            if os.environ.get("FAKE_WRONG")
            else hidden[-1]
        )
    at = FLAGS.index("--return-aux-hidden-state-layer-ids")
    layers = sorted(int(word) + 1 for word in FLAGS[at + 1 : at + 4])
    rows = [[x for layer in layers for x in hidden[layer][t]] for t in range(len(ids))]
    if os.environ.get("FAKE_LOSE_ROWS") and len(ids) % 7 == 0:
        rows = rows[1:]
    return rows


def gone_before() -> bool:
    """Has it died already, when it is to die once only?"""
    mark = os.environ.get("FAKE_DIE_ONCE")
    if not mark:
        return False
    there = os.path.exists(mark)  # noqa: PTH110
    open(mark, "a").close()  # noqa: PTH123
    return there


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        info = {"version": "0.5.23"}
        if DRAFTED and QUIET != "all":
            info |= {"speculative_algorithm": "EAGLE3", "speculative_num_steps": STEPS}
        self.reply(info)

    def do_POST(self) -> None:
        global live, busy
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        if self.path == "/flush_cache":
            status, busy = (400 if busy or live else 200), False
            self.reply({}, status)
            return
        if body.get("return_logprob") and os.environ.get("FAKE_NO_LOGPROBS"):
            self.reply({"error": "no logprobs"}, 400)
            return
        if len(body["input_ids"]) >= CONTEXT:
            self.reply({"error": {"message": "The input is longer than the context."}}, 400)
            return
        live, busy = live + 1, True
        if DIE_AT and live >= DIE_AT and not gone_before():
            print("RuntimeError: out of luck", flush=True)
            os._exit(1)
        try:
            self.reply(generate(body))
        finally:
            live -= 1

    def reply(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        return


def main() -> None:
    if log := os.environ.get("FAKE_LOG"):
        with open(log, "a") as out:  # noqa: PTH123
            out.write(json.dumps(FLAGS) + "\n")
    words = os.environ.get("FAKE_FAIL")
    if words and words in " ".join(FLAGS):
        print("ValueError: this setting is beyond me", flush=True)
        sys.exit(1)
    if LAST or AUX:
        with open(os.environ["FAKE_STATES"]) as file:  # noqa: PTH123
            STATES.update(json.load(file))
    server = ThreadingHTTPServer(("127.0.0.1", int(flag("--port") or 0)), Handler)
    server.daemon_threads = True
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    server.serve_forever()


if __name__ == "__main__":
    main()
