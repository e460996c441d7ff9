"""Start and stop of the engine process."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator

import torch
import uvicorn

from .app import build_app
from .config import EngineConfig
from .engine import Engine
from .runner import ModelRunner
from .service import Service

log = logging.getLogger(__name__)

#: Idle connections are kept for so long (SGLang: 5 s). A client must expect either.
KEEP_ALIVE_S = 75
#: Exit code when the address is taken; SGLang's.
PORT_TAKEN = 3
#: After SIGTERM open requests are dropped, not finished; their connections get this long.
GRACE_S = 1
#: Up to so many parameters one thread is the fastest (measured: two threads, 3.5 M parameters, 0.6
#: to 0.9 of the speed of one).
SMALL_MODEL = 30_000_000
#: The other threads' turn comes after at most this long. With Python's 5 ms default the model
#: thread, which gives up the interpreter in every torch call, would wait for a busy event loop.
SWITCH_INTERVAL_S = 0.0005


class _Server(uvicorn.Server):
    """uvicorn, but SIGTERM and SIGINT end the process with exit code 0 instead of the signal."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, number)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            log.info("The server is fired up and ready to roll!")

    def _stop(self, number: int) -> None:
        log.info("%s received. Shutting down; open requests are dropped.", signal.strsignal(number))
        if self.should_exit:
            self.force_exit = True
        self.should_exit = True


def _choose_threads(runner: ModelRunner) -> None:
    """One thread for a small model on a CPU, unless the user set a number: its matrices are too
    small to share, and threads that spin for work take the cores from the event loop."""
    small = runner.facts.parameters < SMALL_MODEL
    if runner.device.type == "cpu" and small and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def load_engine(config: EngineConfig) -> Engine:
    """Load the model and warm it up; logs the phases with SGLang's markers."""
    shown = dataclasses.replace(config, api_key=None if config.api_key is None else "***")
    log.info("server_args=%s", shown)
    began = time.perf_counter()
    log.info("Load weight begin.")
    runner = ModelRunner(
        config.model,
        device=config.device,
        dtype=config.dtype,
        context_length=config.context_length,
    )
    facts = runner.facts
    log.info(
        "Load weight end. elapsed=%.2f s, type=%s, mem usage=%.2f GB.",
        time.perf_counter() - began,
        facts.architectures[0] if facts.architectures else facts.model_type,
        facts.weight_bytes / 2**30,
    )
    _choose_threads(runner)
    engine = Engine(runner, config)
    pool = engine.limits.max_total_num_tokens
    half = pool * facts.kv_bytes_per_token / 2 / 2**30
    log.info(
        "KV Cache is allocated. dtype: torch.%s, #tokens: %d, K size: %.2f GB, V size: %.2f GB",
        facts.dtype,
        pool,
        half,
        half,
    )
    runner.prefill(0, [[0, 0]])
    runner.decode([0], [2])
    log.info(
        "max_total_num_tokens=%d, max_running_requests=%d, context_len=%d",
        pool,
        config.max_running_requests,
        facts.context_len,
    )
    return engine


async def _serve(engine: Engine, config: EngineConfig) -> int:
    service = Service(engine, asyncio.get_running_loop())
    server = _Server(
        uvicorn.Config(
            build_app(service, config),
            host=config.host,
            port=config.port,
            log_config=None,
            access_log=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=GRACE_S,
            lifespan="off",
        )
    )
    crashes: list[BaseException] = []

    def crashed(error: BaseException) -> None:
        crashes.append(error)
        server.should_exit = server.force_exit = True

    engine.crashed = crashed
    engine.start()
    try:
        await server.serve()
    finally:
        engine.close()
    return 1 if crashes or not server.started else 0


def _check_port(config: EngineConfig) -> None:
    """Raise OSError when the address is taken: SGLang notices only after the model is loaded."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((config.host, config.port))


def serve(config: EngineConfig) -> int:
    """Load and serve until a signal; returns the exit code."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    try:
        _check_port(config)
    except OSError as error:
        log.error("%s while attempting to bind on %s:%d", error, config.host, config.port)
        return PORT_TAKEN
    return asyncio.run(_serve(load_engine(config), config))
