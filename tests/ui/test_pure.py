"""The parts that draw nothing: charts, wrapping, layout, verdict, journal, themes, series."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from eagle_tui.actions import ACTIONS, OTHER_SCREENS, actions_on
from eagle_tui.protocol import Alert, CommandStatus, Event, PhaseStatus, ServerStatus, Status
from eagle_tui.ui import themes
from eagle_tui.ui.canvas import Pen, changed_span, fit
from eagle_tui.ui.chart import area, bar, nice_top
from eagle_tui.ui.facts import default_phase, facts
from eagle_tui.ui.frame import totals
from eagle_tui.ui.glyphs import GlyphMode, glyph_set
from eagle_tui.ui.journal import command_text, entries
from eagle_tui.ui.keys import key_text
from eagle_tui.ui.layout import plan
from eagle_tui.ui.verdict import verdict
from eagle_tui.ui.widgets.footer import Item, footer_actions, footer_rows, shorten
from eagle_tui.ui.widgets.throughput import server_rows
from eagle_tui.ui.wrap import HEAD_CHARS, TAIL_CHARS, safe, wrap

MODES: tuple[GlyphMode, ...] = ("braille", "block", "ascii")


# Charts


def test_braille_area_is_filled_from_zero() -> None:
    assert area([0, 1, 2, 4], 2, 1, 4, "braille") == ["⢀⣼"]
    top, bottom = area([4, 8, None, 0], 2, 2, 8, "braille")
    assert (top, bottom) == ("⢸⠀", "⣿⠀")


def test_block_and_ascii_have_one_column_per_cell() -> None:
    assert area([0, 4, 8, None], 4, 1, 8, "block") == [" ▄█ "]
    assert area([0, 4, 8, None], 4, 1, 8, "ascii") == [" .# "]


def test_a_little_is_never_drawn_as_nothing_and_too_much_stays_inside() -> None:
    assert area([0.001], 1, 1, 100, "block") == ["▁"]
    assert area([1e9], 1, 2, 100, "block") == ["█", "█"]
    assert area([float("nan"), -5.0], 2, 1, 100, "block") == ["  "]


@given(
    st.lists(st.one_of(st.none(), st.floats(allow_nan=True)), min_size=24, max_size=24),
    st.integers(1, 5),
    st.sampled_from(MODES),
)
def test_area_always_fills_its_box(
    values: list[float | None], height: int, mode: GlyphMode
) -> None:
    rows = area(values, 12, height, 10.0, mode)
    assert len(rows) == height
    assert all(cell_len(row) == 12 for row in rows)


@pytest.mark.parametrize(
    ("highest", "top"),
    [(0, 1), (-3, 1), (1, 1), (862, 1000), (1001, 1200), (1350, 1500), (97, 100)],
)
def test_nice_top(highest: float, top: float) -> None:
    assert nice_top(highest) == pytest.approx(top)


@given(st.one_of(st.none(), st.floats(allow_nan=False)), st.integers(0, 40))
def test_bar_is_exactly_as_wide_as_asked(share: float | None, width: int) -> None:
    for mode in MODES:
        filled, track = bar(share, width, glyph_set(mode))
        assert cell_len(filled + track) == width


# Wrapping and hostile text


@given(st.text(max_size=300), st.integers(8, 60))
def test_wrapped_lines_fit_and_hold_no_control_characters(text: str, width: int) -> None:
    for line in wrap(text, width):
        assert cell_len(line) <= width
        assert not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in line)


@given(st.text(alphabet="abc  \n日", max_size=200), st.integers(5, 40))
def test_wrapping_loses_only_spaces(text: str, width: int) -> None:
    assert "".join("".join(wrap(text, width)).split()) == "".join(text.split())


def test_escape_sequences_become_visible() -> None:
    (line,) = wrap("a\x1b[2Jb\x07", 40)
    assert line == "a␛[2Jb␇"
    assert safe("\u202eabc") == "<202e>abc"
    assert safe("o\u200bk\ufe0f") == "ok"


def test_code_keeps_its_indentation_when_wrapped() -> None:
    assert wrap("    return first_value + second_value", 24) == [
        "    return first_value +",
        "    second_value",
    ]


def test_huge_text_is_bounded_and_says_so() -> None:
    lines = wrap("x" * 1_000_000 + "END", 100)
    assert sum(len(line) for line in lines) < HEAD_CHARS + TAIL_CHARS + 200
    assert any("968,003 characters" in line for line in lines)
    assert lines[-1].endswith("END")


# Lines


def test_pen_takes_no_markup_and_no_escape() -> None:
    pen = Pen().add("[/path] [b + \x1b]52;c;QUJD\x07\nnext")
    assert pen.segments[0].text == "[/path] [b + ␛]52;c;QUJD␇ next"


def test_fit_cuts_wide_characters_at_the_cell() -> None:
    assert fit("日本語", 4) == "日 …"
    assert fit("ab", 4) == "ab  "
    assert fit("abcdef", 4) == "abc…"


def test_a_text_is_cut_by_cells_and_not_filled_up() -> None:
    for text, room, shown in (("日本語", 6, "日本語"), ("日本語", 5, "日本…"), ("ab", -1, "")):
        pen = Pen().upto(text, room)
        assert ("".join(s.text for s in pen.segments), pen.width) == (shown, cell_len(shown))


def test_changed_span_covers_what_changed_and_little_more() -> None:
    red, blue = Style(color="red"), Style(color="blue")
    before = Strip([Segment("abc", red), Segment("def", blue), Segment("ghi", red)])
    after = Strip([Segment("abc", red), Segment("dXf", blue), Segment("ghi", red)])
    assert changed_span(before, before) == []
    assert changed_span(before, after) == [(3, 6)]
    recoloured = Strip([Segment("abc", red), Segment("def", red), Segment("ghi", red)])
    assert changed_span(before, recoloured) == [(3, 6)]


@given(st.lists(st.sampled_from(["ab", "cd", "e", "日"]), min_size=1, max_size=6),
       st.lists(st.sampled_from(["ab", "cd", "e", "日"]), min_size=1, max_size=6))  # fmt: skip
def test_outside_the_changed_span_all_is_equal(one: list[str], other: list[str]) -> None:
    width = max(cell_len("".join(one)), cell_len("".join(other)))
    before = Strip([Segment(text) for text in one]).adjust_cell_length(width)
    after = Strip([Segment(text) for text in other]).adjust_cell_length(width)
    spans = changed_span(before, after)
    start, end = spans[0] if spans else (width, width)
    assert before.crop(0, start).text == after.crop(0, start).text
    assert before.crop(end, width).text == after.crop(end, width).text


# Layout


@given(st.integers(1, 320), st.integers(1, 100), st.integers(0, 72), st.integers(0, 60),
       st.integers(0, 8))  # fmt: skip
def test_no_panel_gets_less_than_a_row(w: int, h: int, gpus: int, datasets: int, rows: int) -> None:
    layout = plan(w, h, gpus, datasets, rows)
    assert layout.gpu_rows >= 1 and layout.throughput_rows >= 1 and layout.event_rows >= 0


def test_essentials_fit_into_80_by_24() -> None:
    layout = plan(80, 24, 8, 10, 0)
    assert not layout.framed and layout.table_rows == 12
    used = 4 + layout.gpu_rows + layout.throughput_rows + layout.table_rows + layout.event_rows
    assert 24 - used >= 4, "the sample pane keeps four rows"


def test_the_large_screen_is_framed_with_a_row_per_gpu() -> None:
    layout = plan(200, 50, 8, 10, 0)
    assert layout.framed and layout.gpu_rows >= 9 and layout.table_rows == 12
    assert not plan(119, 50, 8, 10, 0).framed
    assert plan(60, 20, 8, 10, 0).narrow


# Verdict


def _status(**parts: Any) -> Status:
    base = {"at": 0.0, "run": {"name": "r", "dir": "/r", "target": "t"}, "supervisor": {}}
    return Status.model_validate(base | parts)


GENERATING = {"name": "generate", "state": "running"}


def test_the_worst_alert_comes_first_and_the_others_are_counted() -> None:
    alert = Alert(rule="a", severity="error", sentence="S", remedy="R", since=0)
    said = verdict(_status(alerts=(alert, alert), phases=(GENERATING,)))
    assert (said.severity, said.sentence, said.remedy, said.more) == ("error", "S", "R", 1)


@pytest.mark.parametrize(
    ("parts", "severity", "words"),
    [
        ({"phases": ({"name": "train", "state": "failed", "reason": "no disk"},)},
         "error", "train failed: no disk"),
        ({"phases": ({"name": "generate", "state": "paused"},)}, "warning", "generate is paused"),
        ({"phases": ({"name": "prepare", "state": "done"},)}, None, "All phases are done"),
        ({"phases": ({"name": "bench", "state": "done"},), "result": "a loss"}, None,
         "done: a loss"),
        ({"phases": ({"name": "merge", "state": "blocked", "reason": "waits"},)},
         "info", "merge is blocked: waits"),
        ({"phases": (GENERATING,), "servers": (
            {"name": "s", "state": "starting", "reason": "loads"},)},
         "warning", "Server s is starting: loads"),
        ({"phases": (GENERATING,), "servers": (
            {"name": "s", "state": "ready", "running": 52, "queued": 98, "kv_usage": 0.82},)},
         "info", "The KV cache is the limit: 82% full, 52 of 150 requests run"),
        ({"phases": (GENERATING,), "servers": ({"name": "s", "state": "ready", "queued": 0},),
          "gpus": ({"index": 0, "name": "g", "util": 0.3},)},
         "info", "could take more: GPUs at 30%"),
        ({"phases": (GENERATING,), "gpus": ({"index": 3, "name": "g", "state": "lost"},)},
         "error", "GPU 3 (g): lost"),
        ({"phases": (GENERATING,), "gpus": ({"index": 2, "name": "g", "throttle": "power cap"},)},
         "info", "held down on GPU 2: power cap"),
        ({"phases": (GENERATING,)}, None, "All is well"),
        ({}, "info", "no phases"),
    ],
)  # fmt: skip
def test_verdict(parts: dict[str, Any], severity: str | None, words: str) -> None:
    said = verdict(_status(**parts))
    assert said.severity == severity
    assert words in said.sentence


# Journal, facts, keys


def test_events_and_commands_are_one_list_in_the_order_of_time() -> None:
    event = Event(id=1, at=5.0, severity="info", source="sglang", text="ready")
    orders = [
        CommandStatus(id="a", verb="resume", args={}, state="in_effect", at=9.0),
        CommandStatus(id="b", verb="cap", args={"dataset": "d", "tokens": 10_000_000},
                      state="refused", at=3.0, reason="too low"),
    ]  # fmt: skip
    journal = entries([event], orders)
    assert [entry.text for entry in journal] == ["cap d tokens=10.0M: too low", "ready", "resume"]
    assert journal[0].trail == ("requested", "refused")
    assert journal[2].trail == ("requested", "accepted", "in_effect")


def test_a_command_reads_as_it_is_typed() -> None:
    args = {"dataset": "d", "none": True, "samples": None, "undo": False}
    assert command_text("cap", args) == "cap d none"
    assert command_text("order", {"datasets": ["b", "a"]}) == "order b a"
    assert command_text("concurrency", {"dataset": "d", "value": 48}) == "concurrency d value=48"


def test_facts_say_what_an_order_would_change() -> None:
    flying = {"name": "d", "in_flight": 4, "concurrency": 8, "prompts": 10, "tokens": 5000,
              "complete": 2, "cap_samples": 9}  # fmt: skip
    status = _status(datasets=(flying,), phases=(GENERATING,))
    assert facts("pause", {}, status) == "In flight now: 4 requests of 1 dataset."
    assert "concurrency 8, 4 in flight" in facts("concurrency", {"dataset": "d"}, status)
    assert "cap now 9 responses" in facts("cap", {"dataset": "d"}, status)
    assert facts("advance", {"phase": "generate"}, status) == "generate: running."
    assert facts("down", {}, status) == "Running now: generate."
    assert facts("pause", {}, None) == ""


def test_the_phase_most_likely_meant() -> None:
    phases = tuple(
        PhaseStatus(name=name, state=state)
        for name, state in (("a", "done"), ("b", "failed"), ("c", "running"))
    )
    status = _status(phases=phases)
    assert default_phase("advance", status) == "c"
    assert default_phase("rerun", status) == "b"


def test_key_names_are_printed_as_on_the_keyboard() -> None:
    assert [key_text(key) for key in ("question_mark", "left_square_bracket", "p", "R")] == [
        "?", "[", "p", "R",
    ]  # fmt: skip


# Footer


def _footer(screen: str, width: int, height: int) -> list[list[Item]]:
    screens = [action for action in ACTIONS if action.opens]
    return footer_rows(screens, footer_actions(screen, None, False), width, height)


@pytest.mark.parametrize("width", [30, 60, 80, 120, 160, 200, 300])
@pytest.mark.parametrize("height", [20, 24, 50])
@pytest.mark.parametrize("screen", ["overview", "events"])
def test_the_footer_fits_and_holds_all_screens(screen: str, width: int, height: int) -> None:
    rows = _footer(screen, width, height)
    for row in rows:
        assert sum(item.width for item in row) + len(row) <= max(width, 60)
    ids = [item.action for row in rows for item in row]
    assert ids[-2:] == ["help", "quit" if screen == "overview" else "back"]
    assert {action.id for action in ACTIONS if action.opens} <= set(ids)
    assert len(rows) == 1 or height >= 30


def test_pause_and_resume_take_turns() -> None:
    paused = _status(phases=({"name": "generate", "state": "paused"},))
    for screen in ("overview", "events"):
        assert "resume" in [action.id for action in footer_actions(screen, paused, False)]
        assert "pause" not in [action.id for action in footer_actions(screen, paused, False)]
        assert all(action.verb is None for action in footer_actions(screen, None, readonly=True))


def test_labels_are_cut_at_a_consonant() -> None:
    assert [shorten(word) for word in ("Concurrency", "Advance", "Samples", "Pause", "Cap")] == [
        "Conc", "Adv", "Samp", "Pause", "Cap",
    ]  # fmt: skip


@pytest.mark.parametrize("screen", ["overview", *OTHER_SCREENS])
def test_keys_are_unique_on_every_screen(screen: str) -> None:
    keys = [key for a in actions_on(screen) for key in (a.key, *a.more_keys) if key]
    assert len(keys) == len(set(keys))


# Totals


def test_totals_weigh_means_by_responses() -> None:
    rows = _status(datasets=(
        {"name": "a", "prompts": 10, "complete": 2, "tokens": 20, "tokens_mean": 10.0,
         "reasoning_share": 1.0, "cap_tokens": 100, "rate_per_min": 1.5},
        {"name": "b", "prompts": 10, "complete": 6, "tokens": 120, "tokens_mean": 20.0,
         "reasoning_share": 0.5, "cap_tokens": 100},
        {"name": "c", "kind": "native", "prompts": 5, "complete": 5, "tokens": 50},
    )).datasets  # fmt: skip
    total = totals(rows)
    assert (total.done, total.prompts, total.tokens, total.cap_tokens) == (13, 25, 190, 200)
    assert total.mean == pytest.approx(17.5)
    assert total.reasoning_share == pytest.approx(0.625)
    assert total.rate_per_min == 1.5
    assert totals([]).prompts is None and totals([]).mean is None
    together = rows[0].model_copy(
        update={"name": "total", "cap_tokens": 150, "cap_samples": 9, "eta_s": (1.0, 2.0, 3.0)}
    )
    total = totals(rows, together)
    assert (total.tokens, total.cap_tokens, total.cap_samples) == (190, 150, 9)
    assert total.eta_s == (1.0, 2.0, 3.0)
    assert totals(rows, together.model_copy(update={"cap_tokens": None})).cap_tokens == 200


# Themes


def test_the_packages_themes_are_complete() -> None:
    read = themes.ThemeFiles(Path("/nonexistent")).themes
    found, problems = read.by_name, list(read.broken.values())
    assert problems == []
    assert {"eagle-dark", "eagle-light", "eagle-contrast", "eagle-ansi", "eagle-colorblind"} == set(
        found
    )


GOOD = 'name = "mine"\ndark = true\n[colors]\n' + "\n".join(
    f'{key} = "#101010"' for key in themes.COLORS
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", "not valid TOML"),
        ("dark = true", "`name` is missing"),
        ('name = "x"', "`dark` must be"),
        ('name = "x"\ndark = true', "[colors] is missing"),
        (GOOD + '\nprimery = "#fff"', "no such colour: primery"),
        (GOOD.replace('muted = "#101010"\n', ""), "lacks muted"),
        (GOOD.replace('muted = "#101010"', 'muted = "greyish"'), "is no colour"),
        (GOOD.replace('muted = "#101010"', "muted = 7"), "is no colour"),
    ],
)
def test_a_bad_theme_file_is_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    (tmp_path / "good.toml").write_text(GOOD)
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    read = themes.ThemeFiles(tmp_path).themes
    found, problems = read.by_name, list(read.broken.values())
    assert "mine" in found and "eagle-dark" in found
    assert any(words in problem and "bad.toml" in problem for problem in problems)
    assert any("binary.toml cannot be read" in problem for problem in problems)


def test_server_rows_are_spent_only_where_they_say_something() -> None:
    ready = ServerStatus(name="a", state="ready")
    assert server_rows((ready,)) == 0
    assert server_rows((ready.model_copy(update={"age_s": 60.0}),)) == 1
    assert server_rows((ServerStatus(name="a", state="failed"),)) == 1
    assert server_rows((ready, ready)) == 2
    assert server_rows(()) == 0
