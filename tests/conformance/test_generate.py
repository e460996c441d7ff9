"""Plain answers of /generate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

META = {
    "id",
    "finish_reason",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "num_retractions",
    "weight_version",
    "e2e_latency",
}


async def test_ids_and_text_give_the_same_answer(api: Any) -> None:
    from transformers import AutoTokenizer

    model = (await api.get("/model_info")).json()["model_path"]
    if not Path(model).is_dir():
        pytest.skip("the model of this server is not on this machine")
    text = "Once upon a time there was"
    ids = AutoTokenizer.from_pretrained(model).encode(text)
    by_text = await api.generate(12, text=text, input_ids=None)
    by_ids = await api.generate(12, input_ids=ids)
    assert by_text["output_ids"] == by_ids["output_ids"]
    assert by_text["text"] == by_ids["text"]
    assert by_text["meta_info"]["prompt_tokens"] == len(ids)


async def test_input_ids_win_over_text(api: Any) -> None:
    both = await api.generate(6, text="something else entirely")
    assert both["output_ids"] == (await api.generate(6))["output_ids"]
    assert both["meta_info"]["prompt_tokens"] == len(api.PROMPT)


async def test_meta_info_of_a_finished_request(api: Any) -> None:
    answer = await api.generate(9, rid="meta-1;")
    meta = answer["meta_info"]
    assert meta.keys() >= META
    assert meta["id"] == "meta-1;"
    assert meta["finish_reason"] == {"type": "length", "length": 9}
    assert meta["completion_tokens"] == len(answer["output_ids"]) == 9
    assert meta["e2e_latency"] > 0
    assert meta["num_retractions"] == 0


@pytest.mark.parametrize("tokens", [0, 1, 5])
async def test_length_is_exact(api: Any, tokens: int) -> None:
    answer = await api.generate(tokens)
    assert len(answer["output_ids"]) == answer["meta_info"]["completion_tokens"] == tokens
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": tokens}
    assert tokens or answer["text"] == ""


async def test_default_length_is_128(api: Any) -> None:
    body = {"input_ids": api.PROMPT, "sampling_params": {"temperature": 0, "ignore_eos": True}}
    answer = (await api.post("/generate", body)).json()
    assert answer["meta_info"]["finish_reason"] == {"type": "length", "length": 128}


async def test_greedy_is_repeatable_and_a_prefix_of_a_longer_run(api: Any) -> None:
    short, long = await api.generate(10), await api.generate(20)
    assert long["output_ids"][:10] == short["output_ids"]


async def test_stop_token_is_kept_in_the_ids_and_cut_from_the_text(api: Any) -> None:
    free = (await api.generate(30))["output_ids"]
    stop = free[6]
    first = free.index(stop)
    cut = await api.generate(30, sampling_params={"stop_token_ids": [stop], "ignore_eos": False})
    assert cut["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert cut["output_ids"] == free[: first + 1]
    assert cut["meta_info"]["completion_tokens"] == first + 1
    kept = await api.generate(
        30,
        sampling_params={"stop_token_ids": [stop], "ignore_eos": False, "no_stop_trim": True},
    )
    assert kept["output_ids"] == cut["output_ids"]
    assert kept["text"].startswith(cut["text"]) and len(kept["text"]) > len(cut["text"])


async def test_ignore_eos_ignores_stop_token_ids_too(api: Any) -> None:
    free = (await api.generate(12))["output_ids"]
    answer = await api.generate(12, sampling_params={"stop_token_ids": [free[3]]})
    assert answer["output_ids"] == free


async def test_stop_string(api: Any) -> None:
    free = await api.generate(40)
    text = free["text"]
    stop = text[len(text) // 2 :][:3]
    before = text[: text.index(stop)]
    cut = await api.generate(40, sampling_params={"stop": ["never seen ☃", stop]})
    assert cut["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    assert cut["text"] == before
    assert cut["output_ids"] == free["output_ids"][: len(cut["output_ids"])]
    kept = await api.generate(40, sampling_params={"stop": stop, "no_stop_trim": True})
    assert kept["text"] == before + stop


async def test_min_new_tokens_holds_back_the_stop(api: Any) -> None:
    free = (await api.generate(10))["output_ids"]
    params = {"stop_token_ids": [free[0]], "min_new_tokens": 4, "ignore_eos": False}
    answer = await api.generate(10, sampling_params=params)
    assert len(answer["output_ids"]) >= 4
    assert free[0] not in answer["output_ids"][:4]


async def test_batch_keeps_the_order(api: Any) -> None:
    prompts = [[20, 30, 40], [50, 60], [70, 80, 90, 100]]
    rows = await api.generate(6, input_ids=prompts, rid=["b-0;", "b-1;", "b-2;"])
    assert [row["meta_info"]["id"] for row in rows] == ["b-0;", "b-1;", "b-2;"]
    assert [row["meta_info"]["prompt_tokens"] for row in rows] == [3, 2, 4]
    for prompt, row in zip(prompts, rows, strict=True):
        assert row["output_ids"] == (await api.generate(6, input_ids=prompt))["output_ids"]


async def test_batch_rid_is_a_prefix_and_params_may_be_a_list(api: Any) -> None:
    body = {
        "text": ["one", "two"],
        "rid": "pre",
        "sampling_params": [
            {"max_new_tokens": n, "temperature": 0, "ignore_eos": True} for n in (2, 5)
        ],
    }
    rows = (await api.post("/generate", body)).json()
    assert [row["meta_info"]["id"] for row in rows] == ["pre_0", "pre_1"]
    assert [row["meta_info"]["completion_tokens"] for row in rows] == [2, 5]


async def test_batch_of_one_is_a_list(api: Any) -> None:
    rows = await api.generate(2, input_ids=[[20, 30]])
    assert isinstance(rows, list) and len(rows) == 1


async def test_n_answers_lose_the_rid(api: Any) -> None:
    rows = await api.generate(4, rid="n2", sampling_params={"n": 2, "temperature": 0.8})
    assert len(rows) == 2
    assert len({row["meta_info"]["id"] for row in rows} | {"n2"}) == 3


async def test_prompt_ids_on_request(api: Any) -> None:
    answer = await api.generate(2, return_prompt_token_ids=True)
    assert answer["prompt_token_ids"] == list(api.PROMPT)


async def test_sampled_answers_vary_and_a_seed_repeats_them(api: Any) -> None:
    params = {"temperature": 1.0, "top_p": 0.95, "top_k": 50}
    free = [tuple((await api.generate(24, sampling_params=params))["output_ids"]) for _ in range(4)]
    assert len(set(free)) > 1
    if api.differs.seeds:
        seeded = [
            (await api.generate(24, sampling_params=params | {"sampling_seed": 7}))["output_ids"]
            for _ in range(2)
        ]
        assert seeded[0] == seeded[1]


async def test_put_works_and_get_does_not(api: Any) -> None:
    body = {"input_ids": api.PROMPT, "sampling_params": {"max_new_tokens": 1}}
    assert (await api.http.put("/generate", json=body)).status_code == 200
    refused = await api.get("/generate")
    assert refused.status_code == 405
    assert refused.json() == {"detail": "Method Not Allowed"}
