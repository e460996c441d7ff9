"""A server that does what its flags say: it starts in no time, hangs, dies or lies when told to.

The part of SGLang's surface that a supervisor looks at. Run as a program; never imported by tests.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripted")
    parser.add_argument("--model-path")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--max-running-requests", type=int, default=8, help="requests at once")
    parser.add_argument("--max-total-tokens", type=int, default=1000, help="pool")
    parser.add_argument("--enable-metrics", action="store_true", help="metrics")
    parser.add_argument("--say", default="", help="a last line before it dies at its start")
    parser.add_argument("--die-after-s", type=float, default=-1, help="die so long after the start")
    parser.add_argument("--code", type=int, default=1, help="exit code of a death")
    parser.add_argument("--ready-after-s", type=float, default=0.0, help="until /health is 200")
    parser.add_argument("--running", type=int, default=0, help="requests that run all the time")
    parser.add_argument("--tok-s", type=float, default=0.0, help="tokens a second")
    parser.add_argument("--deaf", action="store_true", help="takes no notice of SIGINT")
    parser.add_argument("--mute", action="store_true", help="/v1/loads is refused")
    parser.add_argument("--child", action="store_true", help="leaves a child behind")
    on = argparse.BooleanOptionalAction
    parser.add_argument("--fast", action=on, default=True, help="a switch that is on by itself")
    parser.add_argument("--sizes", type=int, nargs="+", help="several words")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    began = time.monotonic()
    if args.child:
        # As SGLang's children: in our session, and with an environment that says nothing.
        words = ["sglang::scheduler", "600"]
        subprocess.Popen(words, executable=shutil.which("sleep"), env={"PATH": os.defpath})
    if args.say:
        print(args.say, flush=True)
        sys.exit(args.code)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            age = time.monotonic() - began
            body: Any = {}
            status = 200
            path = self.path.partition("?")[0]
            if path == "/health":
                status = 200 if age >= args.ready_after_s else 503
            elif path == "/v1/loads" and args.mute:
                status = 401
            elif path == "/v1/loads":
                generated = int(args.tok_s * age)
                load = {
                    "timestamp": 1.0,
                    "dp_rank": 0,
                    "num_running_reqs": args.running,
                    "num_waiting_reqs": 0,
                    "num_used_tokens": 10,
                    "max_total_num_tokens": args.max_total_tokens,
                    "decode_moments": [1, 1, 1, 1, 1, generated],
                }
                body = {"loads": [load]}
            elif path == "/server_info":
                body = vars(args) | {"max_total_num_tokens": args.max_total_tokens}
            else:
                status = 404
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *words: object) -> None:
            pass

    def stop(number: int, frame: object) -> None:
        if not args.deaf:
            os._exit(0)

    signal.signal(signal.SIGINT, stop)
    server = ThreadingHTTPServer((args.host, args.port), Handler)
    if args.die_after_s >= 0:
        threading.Timer(args.die_after_s, lambda: os._exit(args.code)).start()
    with Path("pids").open("a") as pids:
        pids.write(f"{os.getpid()}\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
