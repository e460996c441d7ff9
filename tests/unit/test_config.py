"""run.toml: every problem at once, each with place, allowed values and the nearest known key."""

from __future__ import annotations

from pathlib import Path

import pytest

from eagle_tui.config import ConfigError, load_config, parse_config
from eagle_tui.config.load import override
from eagle_tui.config.presets import PRESETS, preset_text

MINIMAL = """
[target]
model = "m"
[[server]]
engine = "embedded"
[[dataset]]
name = "a"
source = "a.jsonl"
"""


def problems(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return caught.value.problems


def test_minimal_is_fine_and_frozen() -> None:
    config = parse_config(MINIMAL)
    assert config.generate.concurrency == 150
    with pytest.raises(ValueError, match="frozen"):
        config.run.name = "x"  # type: ignore[misc]


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_valid_and_named_after_the_directory(preset: str) -> None:
    config = parse_config(preset_text(preset, "My Run!"))
    assert config.run.name == "my-run"


def test_the_kimi_preset_is_the_run_of_the_mission() -> None:
    config = parse_config(preset_text("kimi-k2.5-8gpu", "k"))
    native = [d for d in config.dataset if d.kind == "native"]
    prompts = [d for d in config.dataset if d.kind == "prompts"]
    assert (len(native), len(prompts)) == (2, 8)
    assert sum(d.samples or 0 for d in native) == 4_800
    assert sum(d.samples or 0 for d in prompts) == 83_288
    by_name = {d.name: d for d in config.dataset}
    assert config.concurrency_of(by_name["b8-sweagent"]) == 32
    assert config.max_new_tokens_of(by_name["b8-sweagent"]) == 16_384
    assert config.concurrency_of(by_name["b1-glaive"]) == 150
    assert config.cap_tokens_of(by_name["b1-glaive"]) == 10_000_000
    assert config.server[0].flags["mem-fraction-static"] == 0.88
    assert config.server[0].flags["hicache-size"] == 48


def test_all_problems_at_once_each_with_its_line() -> None:
    found = problems(
        '[run]\nnam = "x"\n[target]\nmodel = 3\n[[server]]\nengine = "embedded"\n'
        '[[dataset]]\nname = "A b"\nsource = "x"\ncap_tokens = 0\n'
        '[generate]\nconcurency = 3\nconcurrency = "64"\ntop_p = 2\n'
    )
    text = "\n".join(found)
    assert len(found) == 7
    assert "line 2: unknown key 'nam' in run; did you mean 'name'?" in text
    assert "line 4: target.model: expected a string, not empty; found 3" in text
    assert "line 8: dataset[0].name" in text
    assert "line 10: dataset[0].cap_tokens: expected a whole number, at least 1; found 0" in text
    assert "line 12: unknown key 'concurency' in generate; did you mean 'concurrency'?" in text
    assert "line 13: generate.concurrency: expected a whole number" in text
    assert "line 14: generate.top_p: expected a number, more than 0 and at most 1" in text


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("[nonsense]\na = 1\n", "unknown key 'nonsense' in the top level"),
        ('[[dataset]]\nname = "a"\nsource = "b"\n', "two datasets are named 'a'"),
        ('[[server]]\nname = "s2"\n', "needs url (attach) or command (launch)"),
        ('[[server]]\nname = "s2"\nurl = "localhost:1"\n', "such as http://HOST:PORT"),
        ("[generate]\ntop_k = 0\n", "use -1"),
        ('[[dataset]]\nname = "b"\nsource = "x"\nkind = "foo"\n', "one of 'prompts', 'native'"),
        ("[supervisor]\nrestarts = true\n", "expected a whole number"),
        ("[supervisor]\nstall_s = inf\n", "expected a finite number, more than 0; found inf"),
        ("[generate]\ntemperature = nan\n", "generate.temperature: expected a"),
        ('[run]\nname = "My Run"\n', "of lower-case letters, digits, `.`, `_` and `-`"),
        ("[merge]\nseed = 99999999999999999999\n", "line 10: merge.seed: 99999999999999999999 is"),
        ('[prepare]\nsystem_prompt = "a\\u0000"\n', "system_prompt: holds a NUL character"),
        ("[extract]\nlayers = [2, -1, 3]\n", "layers[1]: expected a whole number, at least 1"),
        (
            '[[server]]\nname = "s2"\nurl = "http://x:99999"\n',
            "server[1].url: 'http://x:99999': Port",
        ),
        ("[server.env]\nA = 1\n", "server[0].env.A: expected a string; found 1"),
        ("x = " + "[" * 5000 + "]" * 5000 + "\n", "nested too deeply"),
    ],
)
def test_neighbouring_mistakes(extra: str, said: str) -> None:
    assert said in "\n".join(problems(MINIMAL + extra))


def test_a_value_of_no_allowed_type_is_told_once() -> None:
    found = problems(MINIMAL + "[server.flags]\na = { b = 1 }\n")
    assert len(found) == 1
    assert found[0].startswith("line 10: server[0].flags.a: expected true or false or a whole")


def test_one_table_where_there_may_be_several_is_told_how() -> None:
    text = MINIMAL.replace("[[server]]", "[server]").replace("[[dataset]]", "[dataset]")
    found = "\n".join(problems(text))
    assert "line 4: server: write [[server]], in two brackets" in found
    assert "line 6: dataset: write [[dataset]]" in found


def test_phases_must_be_in_order() -> None:
    text = '[run]\nphases = ["merge", "prepare"]\n' + MINIMAL
    assert "in the order prepare" in "\n".join(problems(text))


def test_list_elements_and_doubled_names_come_with_the_rest() -> None:
    found = problems(
        '[run]\nphases = ["prepare", "generat"]\n'
        + MINIMAL
        + '[[dataset]]\nname = "a"\nsource = "b"\n[generate]\ntop_p = 2\n'
    )
    assert found[0].startswith("line 2: run.phases[1]: expected one of 'prepare', 'generate'")
    assert "generate.top_p" in found[1]
    assert found[2] == "two datasets are named 'a'; names must differ"


def test_missing_sections_are_named() -> None:
    found = "\n".join(problems(""))
    for key in ("target", "server", "dataset"):
        assert f"{key}: missing" in found


def test_not_toml_and_missing_file(tmp_path: Path) -> None:
    assert "not valid TOML" in problems("a = [")[0]
    with pytest.raises(ConfigError, match="eagle-tui init"):
        load_config(tmp_path / "run.toml")
    (tmp_path / "latin.toml").write_bytes(MINIMAL.encode() + b"# caf\xe9\n")
    with pytest.raises(ConfigError, match="line 9: byte 0xe9 is not UTF-8"):
        load_config(tmp_path / "latin.toml")
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert load_config(tmp_path / "bom.toml").target.model == "m"


def test_override_keeps_comments_and_adds_tables() -> None:
    text = override(
        "# mine\n" + MINIMAL,
        ["generate.concurrency=64", "dataset[a].cap_tokens=5_000", "target.reasoning=none"],
    )
    config = parse_config(text)
    assert text.startswith("# mine\n")
    assert config.generate.concurrency == 64
    assert config.dataset[0].cap_tokens == 5_000
    assert config.target.reasoning == "none"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("generate.concurrency", "KEY=VALUE"),
        ("dataset[b].x=1", "none is named 'b'"),
        ("dataset[7].x=1", "only 1 of them"),
        ("target.model.x=1", "is not a table"),
        ("=1", "KEY=VALUE"),
        ("a b=1", "is not a key"),
    ],
)
def test_override_refuses(setting: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said.replace("[", r"\[")):
        override(MINIMAL, [setting])


def test_problems_in_tables_below_tables_have_their_own_line() -> None:
    text = (
        MINIMAL + '[server.flags]\ntp = { }\n[[server]]\nname = "b"\nengine = "embedded"\n'
        "[server.flags]\n"
        '# key = """ in a comment\n'
        "tp = { }\n"
        '[prepare]\nsystem_prompt = """\n[generate]\ntop_p = 3\n"""\n'
        "[ generate . 'policy' ]\n"
        'truncated = "sometimes"\nnonsense = 1\n'
    )
    said = problems(text)
    rows = text.split("\n")
    where = {int(p.split(":")[0].removeprefix("line ")) for p in said}
    assert {rows[n - 1] for n in where} == {
        "tp = { }",
        'truncated = "sometimes"',
        "nonsense = 1",
    }
    assert len(where) == 4  # both servers', each in its own line


def test_dotted_keys_and_inline_tables_have_the_line_of_their_key() -> None:
    text = MINIMAL + "[generate]\npolicy.loop = 'kep'\n"
    assert problems(text)[0].startswith(f"line {text.count(chr(10))}: generate.policy.loop")
    text = MINIMAL + "[generate]\npolicy = { loop = 'keep', fail = 'x' }\n"
    assert problems(text)[0].startswith(f"line {text.count(chr(10))}: unknown key 'fail'")
