"""Extraction through a server: two passes that give what transformers gives."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from eagle_tui.pipeline.extraction.served import prompt_states
from eagle_tui.pipeline.hidden import find_hidden, open_hidden
from eagle_tui.rundir import jsonl

from .test_extract import reference, stored, worst
from .world import World, make_rows, make_world

FAKE = Path(__file__).parent.parent / "bench" / "fake_sglang.py"
SERVE = Path(__file__).parent.parent.parent / "tools" / "sglang-cpu" / "serve.sh"
VERSION = os.environ.get("EAGLE_TUI_SGLANG_VERSION", "0.5.23")


def through(world: World, command: list[str], flags: str = "") -> None:
    """Give the run a server that is started by `command`."""
    text = world.run.config.read_text().replace(
        'url = "http://localhost:1"',
        f"engine = 'sglang'\ncommand = {command}\nstop_timeout_s = 30.0\n{flags}",
    )
    world.run.config.write_text(text)


def stand_in(world: World) -> None:
    """Its server is the stand-in, which knows the states of every row."""
    model = AutoModelForCausalLM.from_pretrained(world.model, dtype=torch.float32).eval()
    known = {}
    for row in world.rows.values():
        with torch.inference_mode():
            out = model(torch.from_numpy(row.ids).long()[None], output_hidden_states=True)
        known[" ".join(map(str, row.ids.tolist()))] = {
            "hidden": [state[0].tolist() for state in out.hidden_states],
            "next": int(out.logits[0, -1].argmax()),
        }
    path = world.run.root / "states.json"
    path.write_text(json.dumps(known))
    through(world, [sys.executable, str(FAKE)], f"[server.env]\nFAKE_STATES = '{path}'\n")


@pytest.mark.parametrize("dtype", ["float32", "float8"])
def test_two_passes_give_the_states_of_transformers(tmp_path: Path, dtype: str) -> None:
    world = make_world(tmp_path / "run", 20, backend="sglang", dtype=dtype)
    stand_in(world)
    assert world.extract() == 0, world.end()
    rows = stored(world)
    assert set(rows) == set(world.rows)
    limit = 1e-5 if dtype == "float32" else 0.04
    for name, (aux, last, _) in reference(world, (2, 4, 5)).items():
        assert rows[name].ids.tolist() == world.rows[name].ids.tolist()
        assert worst(rows[name].aux, aux) < limit
        assert worst(rows[name].last, last) < limit
    assert "differ from transformers' by" in world.notes()
    assert "server's own next token for 100.00% of 20 rows" in world.notes()
    assert not list(world.run.phase("extract").glob("shards-*/parts"))


def test_rows_that_a_server_leaves_out_are_put_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_LOSE_ROWS", "1")
    rows = make_rows(20)
    world = make_world(
        tmp_path / "run", rows=rows, backend="sglang", dtype="float32", max_bad_fraction=0.5
    )
    stand_in(world)
    short = {name for name, row in rows.items() if len(row.ids) % 7 == 0}
    assert 0 < len(short) < 10
    assert world.extract() == 0, world.end()
    put_away = {r["id"]: r for r in jsonl.rows(world.run.phase("extract") / "quarantine.jsonl")}
    assert set(put_away) == short and set(stored(world)) == set(rows) - short
    assert all("states for" in row["reason"] for row in put_away.values())


def test_a_row_that_the_server_refuses_is_put_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows(20)
    world = make_world(
        tmp_path / "run", rows=rows, backend="sglang", dtype="float32", max_bad_fraction=0.5
    )
    stand_in(world)
    lengths = sorted(len(row.ids) for row in rows.values())
    monkeypatch.setenv("FAKE_CONTEXT", str(lengths[-2]))
    long = {name for name, row in rows.items() if len(row.ids) >= lengths[-2]}
    assert world.extract() == 0, world.end()
    put_away = {
        r["id"]: r["reason"] for r in jsonl.rows(world.run.phase("extract") / "quarantine.jsonl")
    }
    assert set(put_away) == long and set(stored(world)) == set(rows) - long
    assert all("longer than the context" in reason for reason in put_away.values())


def test_a_server_that_refuses_everything_is_not_the_rows_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 10, backend="sglang", dtype="float32")
    stand_in(world)
    monkeypatch.setenv("FAKE_CONTEXT", "1")
    assert world.extract() == 1
    assert "answered 400" in world.end()[1]
    assert not (world.run.phase("extract") / "quarantine.jsonl").exists()
    monkeypatch.delenv("FAKE_CONTEXT")
    assert world.extract() == 0 and set(stored(world)) == set(world.rows)


def test_final_states_that_do_not_enter_the_head_are_never_taken_for_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 10, backend="sglang", dtype="float32")
    stand_in(world)
    monkeypatch.setenv("FAKE_WRONG", "1")
    for _ in range(2):
        assert world.extract() == 1
        assert "not the states that enter the head" in world.end()[1]
    monkeypatch.delenv("FAKE_WRONG")
    assert world.extract() == 0 and set(stored(world)) == set(world.rows)


def test_other_layers_than_asked_for_fail_the_phase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eagle_tui.pipeline.extraction.served import Passes

    world = make_world(tmp_path / "run", 10, backend="sglang", dtype="float32")
    stand_in(world)
    real = Passes._layer_flags
    monkeypatch.setattr(
        Passes,
        "_layer_flags",
        lambda self: {**real(self), "return-aux-hidden-state-layer-ids": [2, 4, 5]},
    )
    assert world.extract() == 1
    assert "These are other layers" in world.end()[1]


def test_it_goes_on_between_and_within_the_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eagle_tui.pipeline.extraction import served
    from eagle_tui.pipeline.worker import Stopped

    world = make_world(tmp_path / "run", 24, backend="sglang", dtype="float32")
    stand_in(world)
    monkeypatch.setattr(served, "_GROUP_TOKENS", 150)
    monkeypatch.setattr(served, "_PART_BYTES", 150 * 64 * 3 * 4)
    real, asked = served.Passes._ask, []

    def stops_after(count: int, width: int):  # type: ignore[no-untyped-def]
        def ask(self, server, refs, wide):  # type: ignore[no-untyped-def]
            if wide == width:
                asked.append([ref.id for ref in refs])
                if len(asked) > count:
                    raise Stopped
            return real(self, server, refs, wide)

        return ask

    monkeypatch.setattr(served.Passes, "_ask", stops_after(2, 3 * 64))
    assert world.extract() == 0 and world.end()[0] == "stopped"
    parts = world.run.phase("extract") / "shards-0001" / "parts"
    assert len(list(parts.glob("*.safetensors"))) == 2
    first = [name for group in asked[:2] for name in group]

    asked.clear()
    monkeypatch.setattr(served.Passes, "_ask", stops_after(2, 64))
    assert world.extract() == 0 and world.end()[0] == "stopped"
    done = sum(len(open_hidden(p)) for p in parts.parent.glob("*.safetensors"))
    assert 0 < done < 24

    asked.clear()
    monkeypatch.setattr(served.Passes, "_ask", stops_after(10**9, 3 * 64))
    assert world.extract() == 0 and world.end()[0] == "done"
    assert asked == []  # the layers' states of every row were there
    assert set(stored(world)) == set(world.rows) and set(first) <= set(world.rows)


def test_blocks_of_a_prompt_are_joined_and_counted() -> None:
    meta = {"hidden_states": [[[1.0, 2.0], [3.0, None]], [[5.0, 6.0]], [7.0, 8.0]]}
    found = prompt_states({"meta_info": meta}, 3, 2)
    assert found.shape == (3, 2) and torch.isnan(found[1, 1])
    with pytest.raises(ValueError, match="3 states for 4 tokens"):
        prompt_states({"meta_info": meta}, 4, 2)
    with pytest.raises(ValueError, match=r"states are \[2\] wide where 6"):
        prompt_states({"meta_info": meta}, 3, 6)
    with pytest.raises(ValueError, match="0 states"):
        prompt_states({"meta_info": {}}, 3, 6)


@pytest.mark.sglang
@pytest.mark.parametrize(("dtype", "limit"), [("float32", 1e-3), ("bfloat16", 0.03)])
def test_real_sglang_gives_the_states_of_transformers(
    tmp_path: Path, dtype: str, limit: float
) -> None:
    from eagle_tui.config.target import model_location

    world = make_world(tmp_path / "run", 12, backend="sglang", dtype="float32")
    tiny = Path(model_location("builtin:tiny", tmp_path))
    text = world.run.config.read_text().replace(str(world.model), "builtin:tiny")
    world.run.config.write_text(text)
    world.model = tiny
    command = [str(SERVE), "--version", VERSION, "--model", "{model}", "--port", "{port}"]
    through(world, command, f"start_timeout_s = 400.0\n[server.flags]\ndtype = '{dtype}'\n")
    if VERSION == "0.5.17":
        assert world.extract() != 0
        kind, reason = world.end()
        assert kind == "refused" and "does not know --enable-return-aux-hidden-states" in reason
        return
    assert world.extract() == 0, world.end()
    print(world.notes())
    rows = stored(world)
    assert set(rows) == set(world.rows)
    for name, (aux, last, _) in reference(world, (2, 4, 5)).items():
        for third in range(3):
            part = slice(192 * third, 192 * third + 192)
            error = (rows[name].aux[:, part] - aux[:, part]).norm(dim=1) / aux[:, part].norm(dim=1)
            assert float(error.median()) < limit
        error = (rows[name].last - last).norm(dim=1) / last.norm(dim=1)
        assert float(error.median()) < limit
    shard = open_hidden(find_hidden(world.run, "train")[0])
    model = AutoModelForCausalLM.from_pretrained(tiny, dtype=torch.float32)
    logits = model.lm_head(shard[0].last.clone())
    assert logits.shape[1] == 1024
