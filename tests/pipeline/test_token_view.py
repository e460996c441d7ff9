"""Tokens as training would see them: the mask is merge's own, the pieces are the text."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from eagle_tui.config import load_config
from eagle_tui.config.target import model_location
from eagle_tui.pipeline.token_view import Viewer, pieces
from eagle_tui.reader.tokens import TokenDecoder
from eagle_tui.rundir.paths import RunDir

TINY = Tokenizer.from_file(model_location("builtin:tiny", Path()) + "/tokenizer.json")


def decode(ids: Any) -> str:
    return str(TINY.decode(list(ids), skip_special_tokens=False))


@given(st.text(max_size=60))
def test_pieces_are_the_text(text: str) -> None:
    ids = TINY.encode(text).ids
    found = pieces(ids, decode)
    assert len(found) == len(ids)
    assert "".join(found) == decode(ids)


@given(st.lists(st.integers(0, TINY.get_vocab_size() - 1), max_size=60))
def test_any_ids_have_a_piece_each(ids: list[int]) -> None:
    assert len(pieces(ids, decode)) == len(ids)


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    (tmp_path / "run.toml").write_text(
        '[target]\nmodel = "builtin:tiny"\n[[server]]\nengine = "embedded"\n'
        '[[dataset]]\nname = "d"\nsource = "d.jsonl"\n[merge]\nmax_tokens = 9\n'
    )
    return RunDir(tmp_path)


def view(run: RunDir, **row: Any) -> dict[str, Any]:
    return Viewer(load_config(run.config), run).view({"id": "i", **row})


EOS = 2


def test_the_answer_is_predicted_and_the_prompt_is_not(run: RunDir) -> None:
    found = view(run, state="complete", prompt_ids=[5, 6], output_ids=[7, 8, EOS])
    assert (found["ids"], found["mask"]) == ([5, 6, 7, 8, EOS], [0, 0, 1, 1, 1])
    assert (found["prompt"], found["dropped"], found["note"]) == (2, "", "")
    assert "".join(found["pieces"]) == decode(found["ids"])


def test_an_end_that_the_server_kept_back_is_put_in(run: RunDir) -> None:
    found = view(run, state="complete", prompt_ids=[5, 6], output_ids=[7, 8])
    assert found["ids"][-1] == EOS and found["mask"] == [0, 0, 1, 1, 1]
    cut = view(run, state="truncated", prompt_ids=[5, 6], output_ids=[7, 8])
    assert cut["ids"] == [5, 6, 7, 8]


def test_what_merge_leaves_out_says_why(run: RunDir) -> None:
    found = view(run, state="loop", prompt_ids=[5], output_ids=[7])
    assert (found["dropped"], found["mask"]) == ("state loop", [0, 0])
    found = view(run, state="complete", prompt_ids=[5], output_ids=[7] * 20)
    assert found["dropped"] == "longer than max_tokens" and len(found["ids"]) == 21
    native = view(run, token_ids=[5, 6, 7, 8], spans=[[2, 4]], prompt_tokens=2)
    assert (native["mask"], native["prompt"]) == ([0, 0, 1, 1], 2)


def test_without_a_tokenizer_there_are_ids_and_a_sentence(run: RunDir) -> None:
    run.config.write_text(run.config.read_text().replace("builtin:tiny", "/none"))
    found = view(run, state="complete", prompt_ids=[5], output_ids=[7])
    assert found["pieces"] is None and "no directory /none" in found["note"]
    assert found["mask"] == [0, 1]


def test_as_a_process_it_answers_line_by_line_and_loads_no_torch(run: RunDir) -> None:
    """And it goes by the settings that were accepted."""
    run.config.rename(run.accepted)
    run.config.write_text("[half")
    rows = [
        {"row": {"id": "i", "state": "complete", "prompt_ids": [5], "output_ids": [7, EOS]}},
        {"row": {"id": "i", "state": "complete", "prompt_ids": "x", "output_ids": [[]]}},
        {"nothing": 1},
    ]
    code = (
        "import sys; from eagle_tui.pipeline import token_view as t; t.main(sys.argv[1:]);"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run.root)],
        input="".join(json.dumps(row) + "\n" for row in rows),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    *answers, torch = done.stdout.splitlines()
    first, second, third = map(json.loads, answers)
    assert first["mask"] == [0, 1, 1] and torch == "False"
    assert "error" in second or second["dropped"]
    assert "error" in third


async def test_an_answer_is_never_taken_for_that_of_another_request(run: RunDir) -> None:
    """A view that is cancelled, as by a move of the cursor, is answered nevertheless."""
    started = asyncio.Event()

    class Told(TokenDecoder):
        async def _started(self) -> asyncio.subprocess.Process:
            process = await super()._started()
            started.set()
            return process

    decoder = Told(run)

    def row(*output: int) -> dict[str, Any]:
        return {"id": "i", "state": "complete", "prompt_ids": [5], "output_ids": list(output)}

    try:
        first = asyncio.create_task(decoder.view(row(7, 8, EOS)))
        await started.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await decoder.view(row(9, EOS))).ids == (5, 9, EOS)
        assert (await decoder.view(row(10, 11, EOS))).ids == (5, 10, 11, EOS)
    finally:
        await decoder.close()
