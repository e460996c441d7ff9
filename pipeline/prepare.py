"""Phase 1: read the datasets, normalise conversations, render and tokenise them.

`python -m eagle_tui.pipeline.prepare RUN`

Writes RUN/prompts/<dataset>.jsonl, one row a line:

- kind `prompts`: id, dataset, ordinal, conversation, tools?, prompt_ids, opened (the prompt ends
  inside a thought), n_turns
- kind `native`: id, dataset, ordinal, conversation, tools?, token_ids, spans ([start, end) of the
  answers, end-of-turn tokens included), prompt_tokens (tokens outside the spans)

and <dataset>.rejected.jsonl: row, offset, reason, detail, excerpt. A dataset is written as a whole
or not at all; one that is done and whose inputs have not changed is not read again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from eagle_tui.config.model import DatasetSection
from eagle_tui.rundir import manifest

from . import targets
from .families import UnknownFamilyError
from .preparation import DatasetJob, Progress, Tools, finished
from .reasoning import make_splitter
from .sources import Source, open_source
from .template import Renderer
from .tokenizing import without_torch
from .worker import Refused, Worker, main

VERSION = 2
"""Of how rows are made: a change here makes finished datasets be read again."""


def body(worker: Worker) -> None:
    """Prepare every dataset of the run, and write the manifest."""
    config, run = worker.config, worker.run
    inputs = manifest.inputs_of(config, run, "prepare")
    sources = {d.name: open_source(run, d) for d in config.dataset}
    tokenizer = targets.load_tokenizer(config, run)
    eos = targets.eos_ids(config, run, tokenizer)
    context = targets.context_length(config, run)
    limit = config.prepare.max_prompt_tokens or context - config.prepare.min_response_tokens
    if limit < 1:
        raise Refused(
            f"The context of {context} tokens leaves no room for a prompt: lower "
            "prepare.min_response_tokens or raise target.context_length."
        )
    try:
        splitter = make_splitter(config.target.reasoning, tokenizer, eos)
    except UnknownFamilyError as error:
        raise Refused(str(error)) from error
    renderer = Renderer(tokenizer, eos, config.target.chat_template_kwargs, splitter.family)
    if (lost := renderer.left_out()) is not None:
        raise Refused(
            f"The chat template of target.model {config.target.model!r} leaves out what a user "
            f"says: every prompt becomes {lost[:100]!r}. Name one that takes content as text as "
            "target.chat_template in run.toml."
        )
    tools = Tools(
        renderer, splitter, context, min(limit, context - 1), config.prepare.system_prompt
    )
    _say_what_is_known(worker, tools)
    template = manifest.fingerprint([tokenizer.chat_template, len(tokenizer), sorted(eos), context])
    progress = Progress(worker, _total(config.dataset, sources))
    counts: dict[str, Any] = {}
    outputs: list[Path] = []
    run.phase("prepare").mkdir(parents=True, exist_ok=True)
    for dataset in config.dataset:
        worker.check_stop()
        made_from = manifest.fingerprint(
            [
                VERSION,
                template,
                inputs["target"],
                inputs["[prepare]"],
                inputs[f"dataset {dataset.name}"],
            ]
        )
        meta = finished(worker, dataset, made_from)
        if meta is None:
            run.manifest("prepare").unlink(missing_ok=True)
            job = DatasetJob(worker, dataset, sources[dataset.name], tools, progress)
            meta = job.run(made_from)
        else:
            progress.add(dataset.name, meta["counts"]["rows"])
        counts[dataset.name] = meta["counts"]
        outputs += [run.prompts(dataset.name), run.rejected(dataset.name)]
        worker.log.emit(
            "dataset",
            name=dataset.name,
            prompts=meta["counts"]["kept"],
            states={},
            tokens=0,
            lengths={},
            reasoned=0,
        )
    progress.finish()
    worker.finish(counts=counts, outputs=outputs, versions=_versions(), inputs=inputs)


def _total(datasets: list[DatasetSection], sources: dict[str, Source]) -> int | None:
    """Rows that will be read, if every source knows."""
    total = 0
    for dataset in datasets:
        rows = sources[dataset.name].total
        if rows is None:
            return None
        total += rows if dataset.samples is None else min(rows, dataset.samples)
    return total


def _say_what_is_known(worker: Worker, tools: Tools) -> None:
    family = tools.splitter.family
    worker.log.note(
        f"reasoning family: {family.name if family else 'none'}; context {tools.context:,} tokens; "
        f"prompts up to {tools.prompt_limit:,} tokens"
    )


def _versions() -> dict[str, str]:
    import tokenizers
    import transformers

    return {"transformers": transformers.__version__, "tokenizers": tokenizers.__version__}


if __name__ == "__main__":
    sys.exit(main("prepare", without_torch(body)))
