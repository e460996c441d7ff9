"""A server's log, followed: stages, load, whatever bytes it holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.clock import ManualClock
from eagle_tui.loglines import shown
from eagle_tui.telemetry.diagnosis import diagnose
from eagle_tui.telemetry.log_file import MAX_LINE, LogFile
from eagle_tui.telemetry.server_log import ServerLog

LOGS = Path(__file__).parents[1] / "fixtures" / "server_logs"


def followed(path: Path, data: bytes, steps: list[int]) -> ServerLog:
    """A log that is written in pieces and looked at after each."""
    log = ServerLog(path, ManualClock())
    path.write_bytes(b"")
    at = 0
    for size in [*steps, len(data)]:
        with path.open("ab") as file:
            file.write(data[at : at + size])
        at += size
        log.poll()
    return log


@pytest.mark.parametrize("name", ["start-0.5.17", "start-0.5.23", "start_gpu-0.5.17"])
def test_a_start_goes_through_its_stages_in_order(name: str, tmp_path: Path) -> None:
    data = (LOGS / f"{name}.log").read_bytes()
    path = tmp_path / "log"
    log = ServerLog(path, ManualClock())
    seen: list[str] = []
    shares: dict[str, list[float]] = {}
    with path.open("wb") as file:
        for start in range(0, len(data), 97):
            file.write(data[start : start + 97])
            file.flush()
            log.poll()
            if log.stage and (not seen or seen[-1] != log.stage.name):
                seen.append(log.stage.name)
            if log.stage and log.stage.progress is not None:
                shares.setdefault(log.stage.name, []).append(log.stage.progress)
    graphs = ["graphs"] if "gpu" in name else []
    assert seen == ["imports", "weights", "kv_pool", *graphs, "warmup", "ready"]
    assert all(list(s) == sorted(s) for s in shares.values()), "progress never goes back"
    assert log.kv_tokens == (1930503 if "gpu" in name else 16384)
    assert log.dying == ""
    if graphs:
        assert len(set(shares["graphs"])) == 20, "the bar moves on by two, mostly"


def test_one_rank_is_followed_and_may_load_a_second_model(tmp_path: Path) -> None:
    lines = [
        ("TP1", "Load weight begin. avail mem=90 GB", "weights"),
        ("TP0", "Load weight begin. avail mem=90 GB", "weights"),
        ("TP1", "Load weight end. elapsed=9 s", "kv_pool"),
        ("TP0", "Load weight end. elapsed=9 s", "kv_pool"),
        ("TP1", "Load weight begin. avail mem=60 GB", "weights"),
        ("TP0", "KV Cache is allocated. dtype: x, #tokens: 7", "weights"),
        ("TP1", "KV Cache is allocated. dtype: x, #tokens: 7", "kv_pool"),
        ("TP1", "Capture target decode CUDA graph begin. bs=[1]", "graphs"),
        ("TP0", "Load weight begin. avail mem=60 GB", "graphs"),
        ("TP1", "max_total_num_tokens=7, chunked_prefill_size=8192", "warmup"),
    ]
    path = tmp_path / "log"
    log = ServerLog(path, ManualClock())
    with path.open("w") as file:
        for rank, text, stage in lines:
            file.write(f"[2026-11-30 08:47:15 {rank}] {text}\n")
            file.flush()
            log.poll()
            assert log.stage is not None and log.stage.name == stage, text


def test_the_bar_in_hand_counts_although_its_line_has_no_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = ServerLog(path, ManualClock())
    path.write_bytes(
        b"[2026-11-30 08:47:15] Load weight begin. avail mem=18.92 GB\n"
        b"\rMulti-thread loading shards:   3% Completed | 2/64 [00:00<?, ?it/s]"
        b"\rMulti-thread loading shards:  25% Completed | 16/64 [00:09<00:27,  1.7it/s]"
    )
    log.poll()
    assert log.stage is not None
    assert (log.stage.name, log.stage.progress) == ("weights", 0.25)
    assert log.stage.sentence == "loading weights, 16 of 64 files"


def test_load_is_of_the_newest_lines_and_idle_time_is_left_out(tmp_path: Path) -> None:
    """The first decode line after nothing ran divides by the idle time as well (94.99 tok/s)."""
    data = (LOGS / "start_gpu-0.5.17.log").read_bytes()
    cut = data.index(b"gen throughput (token/s): 94.99")
    cut = data.index(b"\n", cut) + 1
    log = followed(tmp_path / "log", data[:cut], [])
    assert log.load is not None
    assert (log.load.tok_s, log.load.running, log.load.queued) == (None, 75, 0)
    rest = data[cut : data.index(b"\n", data.index(b"Decode batch", cut)) + 1]
    log = followed(tmp_path / "log", data[:cut] + rest, [])
    assert log.load is not None and log.load.tok_s is not None and log.load.tok_s > 5000


def test_ranks_are_summed_and_an_idle_one_is_forgotten(tmp_path: Path) -> None:
    path, clock = tmp_path / "log", ManualClock()
    log = ServerLog(path, clock)
    line = (
        "[2020-01-01 08:00:00 DP{} TP0] Decode batch, #running-req: {}, #token: 9, token usage: "
        "{}, accept len: 2.10, cuda graph: True, gen throughput (token/s): {}, #queue-req: 2\n"
    )
    path.write_text("\n" + line.format(0, 3, 0.5, 100.5) + line.format(1, 5, 0.7, 50))
    log.poll()
    load = log.load
    assert load is not None
    assert (load.tok_s, load.running, load.queued) == (150.5, 8, 4)
    assert load.kv_usage == pytest.approx(0.6) and load.accept_length == pytest.approx(2.1)
    clock.advance(31.0)
    with path.open("a") as file:
        file.write(line.format(0, 4, 0.5, 90))
    log.poll()
    assert log.load is not None and (log.load.tok_s, log.load.running) == (90.0, 4)
    assert log.load.at_mono == clock.monotonic()


def test_lines_of_a_log_that_is_old_are_old(tmp_path: Path) -> None:
    from datetime import datetime

    path, clock = tmp_path / "log", ManualClock()
    stamp = datetime.fromtimestamp(clock.wall() - 500).strftime("%Y-%m-%d %H:%M:%S")
    path.write_text(f"[{stamp}] Decode batch, #running-req: 3, gen throughput (token/s): 9.5\n")
    log = ServerLog(path, clock)
    log.poll()
    assert log.load is not None
    assert clock.monotonic() - log.load.at_mono == pytest.approx(500, abs=1)


def test_retractions_are_counted(tmp_path: Path) -> None:
    data = (LOGS / "retract-0.5.17.log").read_bytes()
    log = followed(tmp_path / "log", data, [])
    assert log.load is not None and log.load.retractions == 1
    assert log.load.kv_usage == pytest.approx(0.42)


def test_death_is_seen_before_the_process_ends(tmp_path: Path) -> None:
    data = (LOGS / "scheduler_sigkill-0.5.23.log").read_bytes()
    assert followed(tmp_path / "log", data, []).dying.count("crashed with exit code -9") == 1
    data = (LOGS / "reproduced" / "watchdog-0.5.23.log").read_bytes()
    assert "watchdog timeout" in followed(tmp_path / "log", data, []).dying
    data = (LOGS / "port_in_use_by_http_server-0.5.23.log").read_bytes()
    assert "address already in use" in followed(tmp_path / "log", data, []).dying


@pytest.mark.parametrize(
    "line",
    [
        "[2026-12-01 05:00:00] Receive: obj=GenerateReqInput(rid='x', text='{}')",
        "[2026-12-01 05:00:00 TP0] Finish: obj=GenerateReqInput(rid='x'), out={{'text': '{}'}}",
        "[2026-12-01 05:00:00] Receive OpenAI: obj=ChatCompletionRequest(messages=['{}'])",
        '{{"timestamp": "2026-12-01T05:00:00", "event": "request.finished", "out": "{}"}}',
        "Somebody wrote: {}",
    ],
)
def test_what_a_request_says_is_not_said_of_the_server(line: str, tmp_path: Path) -> None:
    said = (
        "bind: address already in use",
        "[2026-12-01 05:00:00] SIGQUIT received. signum=None",
        "Scheduler hit an exception: Traceback",
        "Subprocess scheduler_0 (pid=7) crashed with exit code -9",
        "max_total_num_tokens=7, #retracted_reqs: 5",
    )
    data = "".join(line.format(text) + "\n" for text in said).encode()
    log = followed(tmp_path / "log", data, [])
    assert log.dying == ""
    if "Somebody" not in line:
        assert (log.kv_tokens, log.load, log.tail) == (None, None, ())
        assert diagnose(data.decode().splitlines(), "exit code 1") is None


def test_no_file_is_no_trouble(tmp_path: Path) -> None:
    log = ServerLog(tmp_path / "nowhere", ManualClock())
    log.poll()
    assert (log.stage, log.load, log.tail) == (None, None, ())


def test_a_truncated_and_a_new_file_are_read_from_the_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path)
    path.write_text("one\ntwo\n")
    assert file.read() == (["one", "two"], "")
    path.write_text("3\n")
    assert file.read() == (["3"], "")
    new = tmp_path / "new"
    new.write_text("four\nfive\nsi")
    new.rename(path)
    assert file.read() == (["four", "five"], "si")


def test_a_huge_line_is_cut_and_the_next_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LogFile(path)
    path.write_bytes(b"x" * (3 * MAX_LINE))
    lines, rest = file.read()
    assert [len(line) for line in lines] == [MAX_LINE] and rest == ""
    with path.open("ab") as out:
        out.write(b"y" * MAX_LINE)
    assert file.read() == ([], "")
    with path.open("ab") as out:
        out.write(b"z\nnext\n")
    assert file.read() == (["next"], "")


def test_a_log_of_gigabytes_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eagle_tui.telemetry.log_file.READ_MOST", 1000)
    path = tmp_path / "log"
    path.write_text("".join(f"line {n:04}\n" for n in range(1000)))
    log = ServerLog(path, ManualClock())
    log.poll()
    assert log.stage is None, "its beginning was not seen"
    assert log.tail[-1] == "line 0999" and 90 <= len(log.tail) <= 100
    assert all(len(line) == 9 for line in log.tail), "no piece of a line"


@given(
    st.lists(st.binary(max_size=40) | st.just(b"\r") | st.just(b"\n"), max_size=30),
    st.lists(st.integers(1, 60), max_size=20),
)
def test_any_bytes_in_any_pieces_give_the_same_lines(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], steps: list[int]
) -> None:
    data = b"".join(parts)
    path = tmp_path_factory.getbasetemp() / "pieces"
    path.write_bytes(b"")
    file = LogFile(path)
    found: list[str] = []
    at = 0
    for size in [*steps, len(data) + 1]:
        with path.open("ab") as out:
            out.write(data[at : at + size])
        at += size
        found += file.read()[0]
    whole = data.replace(b"\r", b"\n").split(b"\n")[:-1]
    assert found == [line.decode("utf-8", "replace") for line in whole if line.strip()]


@given(st.text(max_size=200))
def test_no_line_breaks_the_reader(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    stamp = "[2026-11-30 08:13:53] "
    heads = ("Decode batch, ", "Prefill batch, ", "Capture cuda graph begin ", "|", "#tokens: ")
    path.write_text("".join(f"{stamp}{head}{text}\n" for head in heads), errors="replace")
    log = ServerLog(path, ManualClock())
    log.poll()
    assert log.load is None or log.load.at_mono


def test_the_keys_in_a_recorded_log_are_not_shown() -> None:
    head = "[2026-11-30 09:02:11] server_args="
    for line in (
        f"{head}ServerArgs(port=1, api_key='s3cret', admin_api_key=None, x='y')",
        f"{head}{{'api_key': 's3cret', 'admin_api_key': 's3cret', 'x': 'y'}}",
        "launch --api-key s3cret --admin-api-key=s3cret --port 1",
    ):
        row = shown(line.encode())
        assert "s3cret" not in row.text and "***" in row.text
