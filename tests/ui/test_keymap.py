"""The user's own keys: what is taken, what is refused with which sentence, what then acts."""

from __future__ import annotations

import string
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.actions import ACTIONS, BY_ID
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.keymap import RESERVED, Keymap, default_keys, load_keymap, parse_keymap
from eagle_tui.ui.keys import key_name, key_text

MakeApp = Callable[..., EagleApp]


def parsed(text: str) -> tuple[Keymap, list[str]]:
    return parse_keymap(text, "keys.toml")


def test_keys_are_taken_as_people_write_them() -> None:
    keymap, problems = parsed('pause = "F5"\nresume = ["ctrl+R", "?x"]\nhelp = ["F1", "shift+h"]')
    assert keymap.changed == {"pause": ("f5",), "help": ("f1", "H")}
    assert keymap.of(BY_ID["pause"]).key == "f5"
    assert keymap.of(BY_ID["help"]).more_keys == ("H",)
    assert len(problems) == 1 and "there is no key '?x'" in problems[0]


def test_actions_can_swap_keys_and_be_without_one() -> None:
    keymap, problems = parsed('pause = "r"\nresume = "p"\ndown = false')
    assert problems == []
    assert keymap.changed == {"pause": ("r",), "resume": ("p",), "down": ()}
    assert keymap.of(BY_ID["down"]).key is None
    assert keymap.bindings()["down"] not in ("", "X")


def test_keys_of_different_screens_do_not_clash() -> None:
    quit_, back = BY_ID["quit"], BY_ID["back"]
    assert set(default_keys(quit_)) & set(default_keys(back)), "they share a key by default"
    assert parsed('quit = "Q"\nback = "Q"')[1] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('cpa = "x"', ["no action 'cpa'", "did you mean 'cap'"]),
        ('pause = "ctlr+x"', ["pause", "no key 'ctlr+x'", "did you mean 'ctrl+x'"]),
        ('pause = "r"', ["pause cannot have r", "key of resume"]),
        ('pause = "f5"\nresume = "f5"', ["resume cannot have f5", "key of pause"]),
        ('pause = "j"', ["j is needed to move"]),
        ("pause = 5", ["pause = 5 is no key"]),
        ("pause = []", ["is no key"]),
        ("pause = true", ["is no key"]),
        ('pause = "ctrl+b"', ["inside tmux, ctrl+b does not reach us"]),
        ("pause = ", ["not valid TOML", "the usual keys act"]),
    ],
)
def test_what_cannot_be_meant_is_a_sentence(text: str, words: list[str]) -> None:
    _, problems = parsed(text)
    assert len(problems) == 1
    for word in (*words, "keys.toml"):
        assert word in problems[0]


def test_a_refused_entry_gives_its_place_back() -> None:
    # resume may not have `c` (cap has it), so pause may not have resume's `r` either.
    keymap, problems = parsed('pause = "r"\nresume = "c"')
    assert keymap.changed == {} and len(problems) == 2


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    assert load_keymap(tmp_path / "none.toml") == (Keymap(), [])
    (tmp_path / "bad.toml").write_bytes(b"pause = \xff")
    keymap, problems = load_keymap(tmp_path / "bad.toml")
    assert keymap == Keymap() and "cannot be read" in problems[0]


entries = st.dictionaries(
    st.sampled_from([action.id for action in ACTIONS]),
    st.one_of(
        st.just(False),
        st.lists(st.sampled_from([*string.ascii_letters, "f5", "f6", "ctrl+x"]), min_size=1),
    ),
)


@given(entries)
def test_no_two_actions_of_a_screen_ever_have_the_same_key(body: dict[str, Any]) -> None:
    lines = [
        f"{name} = {'false' if value is False else value!r}".replace("'", '"')
        for name, value in body.items()
    ]
    keymap, problems = parsed("\n".join(lines))
    assert len(keymap.changed) + len(problems) >= len(body)
    unchanged = {a.id for a in ACTIONS} - set(keymap.changed)
    for one in ACTIONS:
        for other in ACTIONS:
            meet = not one.screens or not other.screens or set(one.screens) & set(other.screens)
            if one.id < other.id and meet and not {one.id, other.id} <= unchanged:
                assert not set(keymap.keys(one)) & set(keymap.keys(other)), (one.id, other.id)
    for name in keymap.changed:
        assert not set(keymap.changed[name]) & set(RESERVED)


@given(st.sampled_from([c for c in string.printable if c.isprintable() and c != " "]))
def test_every_printable_key_has_a_name_that_prints_as_it(character: str) -> None:
    assert key_text(key_name(character)) == character


def test_names_are_never_printed_as_control_characters() -> None:
    for name in ("escape", "backspace", "delete", "tab", "enter", "space", "ctrl+c", "f5"):
        assert key_text(name) == name
    assert key_text("ctrl+question_mark") == "ctrl+?"


async def test_footer_help_palette_and_keys_follow_the_file(
    tmp_path: Path, client: Any, make_app: MakeApp, ui: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = tmp_path / "keys.toml"
    keys.write_text('pause = "f5"\nhelp = "H"\nadvance = false\nfoo = "x"')
    app = make_app(client, keys_file=keys)
    told: list[str] = []
    notify = app.notify

    def listen(message: str, **options: Any) -> None:
        told.append(message)
        notify(message, **options)

    monkeypatch.setattr(app, "notify", listen)
    async with ui.run(app, (120, 40)) as pilot:
        await ui.ready(pilot)
        text = ui.text(app)
        assert "f5 Pause" in text and "p Pause" not in text and "Advance" not in text
        assert "there is no action 'foo'" in "\n".join(told)
        await pilot.press("p", "a", "question_mark")
        await pilot.pause(0.1)
        assert app.screen is app.main, "the old keys do nothing"
        await pilot.press("H")
        await ui.until(pilot, lambda: "Orders to the run" in ui.text(app))
        line = next(row for row in ui.text(app).splitlines() if "Pause" in row)
        assert line.split()[0] == "f5"
        await pilot.press("H")
        await ui.until(pilot, lambda: app.screen is app.main)
        await pilot.press("f5")
        await ui.until(pilot, lambda: type(app.screen).__name__ == "ActionDialog")
        await pilot.press("escape", "ctrl+p")
        await pilot.pause(0.1)
        await pilot.press(*"advance")
        await pilot.press("enter", "enter")
        await ui.until(pilot, lambda: type(app.screen).__name__ == "ActionDialog")
