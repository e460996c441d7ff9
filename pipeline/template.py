"""Conversations through the target's chat template: text, token ids, spans of the answers."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from .conversations import Message
from .families import Family
from .formats import Rejected
from .thoughts import as_written, thought_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Span = tuple[int, int]
# Templates are programs: besides their own refusals (TemplateError) they fail on what they did not
# expect, with what Python raises for that.
_TEMPLATE_ERRORS = (
    *(TemplateError, TypeError, ValueError, LookupError, AttributeError),
    *(ArithmeticError, RecursionError),
)
_GENERATION = re.compile(r"\{%-?\s*generation\b")
_CHARS_PER_TOKEN = 8
"""More than text of any language has on average, so few texts that fit are tokenised twice."""
_BORDER = 64
"""Tokens by which a text that is cut may differ from the same characters within the whole."""
_TOGETHER = 1 << 20
"""Characters that are tokenised at a time: the beginnings of a long conversation, one for each
answer, are together a hundred times as long as it is."""


@dataclass(frozen=True)
class Native:
    """A whole conversation as tokens."""

    ids: list[int]
    spans: list[Span]
    """[start, end) of each answer whose place is certain, its end-of-turn token included."""


class Renderer:
    """Renders and tokenises with one tokenizer and one set of template variables."""

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        eos_ids: Collection[int],
        kwargs: dict[str, Any] | None = None,
        family: Family | None = None,
    ) -> None:
        """`kwargs`: variables of the template; `family`: how the target thinks, if it does."""
        self._tokenizer = tokenizer
        self._eos = frozenset(eos_ids)
        self._kwargs = dict(kwargs or {})
        self._family = family
        self._ending: tuple[int | None] | None = None
        template = tokenizer.chat_template
        self._marks_answers = isinstance(template, str) and bool(_GENERATION.search(template))

    def text(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] = (),
        *,
        generation_prompt: bool,
    ) -> str:
        """The conversation as the target sees it. Rejected when the template refuses it."""
        return str(self._apply(messages, tools, generation_prompt, tokenize=False))

    def left_out(self) -> str | None:
        """What a prompt becomes whose text the template leaves out; None when it keeps it, as it
        must: a template that takes only a list of parts makes all prompts equal."""
        said = "what a user says 4711"
        try:
            text = self.text([{"role": "user", "content": said}], generation_prompt=True)
        except Rejected:
            return None  # it wants more than this; the rows will tell
        return None if said in text else text

    def encode(self, texts: list[str]) -> list[list[int]]:
        """Token ids of rendered texts. The template has set the BOS where there is one, so the
        tokenizer adds none."""
        if not texts:
            return []
        found = self._tokenizer(
            texts, add_special_tokens=False, return_attention_mask=False, verbose=False
        )
        return [list(ids) for ids in found["input_ids"]]

    def check_length(self, text: str, limit: int) -> None:
        """Rejected when a rendered text is surely longer than `limit` tokens. Found out from its
        beginning: tokenising all of a text of 50 MB takes minutes and gigabytes."""
        size = limit * _CHARS_PER_TOKEN
        while size < len(text):
            tokens = len(self.encode([text[:size]])[0])
            if tokens > limit + _BORDER:
                raise Rejected(
                    "over context",
                    f"{len(text):,} characters, {tokens:,} tokens in the first {size:,} of them; "
                    f"at most {limit:,} tokens",
                )
            size *= 2

    def check_bos(self, ids: Sequence[int]) -> None:
        """Rejected when the ids begin with the BOS twice: the target was never trained on that."""
        bos = self._tokenizer.bos_token_id
        if bos is not None and list(ids[:2]) == [bos, bos]:
            raise Rejected("BOS twice", "chat template and text both begin with the BOS token")

    def native(self, messages: Sequence[Message], tools: Sequence[dict[str, Any]] = ()) -> Native:
        """Ids of a whole conversation, and where its answers are.

        An answer counts when the ids of everything before it, with the generation prompt, and of
        everything up to its end are both prefixes of the whole. Templates that leave the reasoning
        of earlier turns out thus give the last answer only. One whose thought they leave out, too,
        or do not begin as they begin the prompt, is set after the prompt as the target writes it.
        Rejected when no answer can be located.
        """
        whole = self.text(messages, tools, generation_prompt=False)
        written = self._as_written(messages, tools, whole)
        if written is None and self._marks_answers and self._tokenizer.is_fast:
            return self._native_by_marks(messages, tools)
        whole = whole if written is None else written
        answers = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
        heads: list[int] = []
        """Characters of the whole up to an answer, and to its end, by turns."""
        why = "the template does not render the conversation up to its answer"
        for at in answers:
            try:
                before = self.text(messages[:at], tools, generation_prompt=True)
                through = (
                    whole
                    if at == len(messages) - 1
                    else self.text(messages[: at + 1], tools, generation_prompt=False)
                )
            except Rejected:
                continue  # some templates do not render a conversation that is cut here
            if whole.startswith(before) and whole.startswith(through):
                heads += [len(before), len(through)]
            else:
                why = _difference(whole, through if whole.startswith(before) else before)
        (ids,) = self.encode([whole])
        spans: list[Span] = []
        borders = self._borders(whole, ids, heads)
        for start, end in zip(borders, borders, strict=True):
            if start is not None and end is not None and start < end:
                spans.append((start, self._end_of_turn(ids, start, end)))
        if written is not None and spans and spans[-1][1] == len(ids):
            ending = self.end_of_turn()
            if ending is not None and ids[-1] not in self._eos:
                ids.append(ending)
                spans[-1] = (spans[-1][0], len(ids))
        if not spans:
            raise Rejected(
                "answer not located",
                "its tokens run over the border" if heads else why,
            )
        return Native(ids, spans)

    def _borders(
        self, whole: str, ids: Sequence[int], places: Sequence[int]
    ) -> Iterator[int | None]:
        """For each place in the text, how many of its tokens lie before it; None where the tokens
        of the text up to there are not the first ones of the whole."""
        waiting: list[str] = []
        size = 0
        for number, place in enumerate(places, 1):
            waiting.append(whole[:place])
            size += place
            if size >= _TOGETHER or number == len(places):
                for part in self.encode(waiting):
                    yield len(part) if ids[: len(part)] == part else None
                waiting, size = [], 0

    def end_of_turn(self) -> int | None:
        """The token with which the template ends an answer; None when it sets no end token."""
        if self._ending is None:
            probe = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
            ids = self.encode([self.text(probe, generation_prompt=False)])[0]
            self._ending = (next((token for token in reversed(ids) if token in self._eos), None),)
        return self._ending[0]

    def _as_written(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]], whole: str
    ) -> str | None:
        """The conversation with the last answer as the target writes it, without an end token,
        where the template does not keep its thought; None where it does, or there is none."""
        last, family = messages[-1], self._family
        # Typed blocks and tool calls have more to them than a thought and an answer.
        if last["role"] != "assistant" or family is None or family.repeats:
            return None
        thought = thought_of(last, family)
        if not thought or last.get("tool_calls"):
            return None
        try:
            before = self.text(messages[:-1], tools, generation_prompt=True)
        except Rejected:
            return None  # the template does not render a prompt of this
        if whole.startswith(before) and thought in whole[len(before) :]:
            return None
        return before + as_written(last, family, before)

    def _end_of_turn(self, ids: list[int], start: int, end: int) -> int:
        """Where the answer in ids[start:end] ends: after its last end token, before what the
        template sets between turns."""
        for at in range(end - 1, start - 1, -1):
            if ids[at] in self._eos:
                return at + 1
        return end

    def _native_by_marks(
        self, messages: Sequence[Message], tools: Sequence[dict[str, Any]]
    ) -> Native:
        """Templates with `{% generation %}` say themselves what the model writes."""
        found = self._apply(
            messages,
            tools,
            False,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        ids, mask = list(found["input_ids"]), list(found["assistant_masks"])
        edges = [at for at, (left, right) in enumerate(pairwise([0, *mask, 0])) if left != right]
        spans = [
            (start, end + 1 if ids[end - 1] not in self._eos and self._is_end(ids, end) else end)
            for start, end in zip(edges[::2], edges[1::2], strict=True)
        ]
        if not spans:
            raise Rejected("answer not located", "the template marks no generated text")
        return Native(ids, spans)

    def _is_end(self, ids: list[int], at: int) -> bool:
        return at < len(ids) and ids[at] in self._eos

    def _apply(
        self,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]],
        generation_prompt: bool,
        **options: Any,
    ) -> Any:
        def render(rows: list[Message]) -> Any:
            return self._tokenizer.apply_chat_template(
                rows,
                tools=list(tools) or None,
                add_generation_prompt=generation_prompt,
                **options,
                **self._kwargs,
            )

        rows = list(messages)
        try:
            return render(rows)
        except _TEMPLATE_ERRORS as error:
            if not any(message.get("tool_calls") for message in rows):
                raise Rejected("chat template", str(error)[:200]) from error
        try:
            return render(_with_text_arguments(rows))  # some want arguments as text
        except _TEMPLATE_ERRORS as error:
            raise Rejected("chat template", str(error)[:200]) from error


def _difference(whole: str, part: str) -> str:
    """Where a prompt and the conversation that should begin with it part ways."""
    at = next((i for i, (a, b) in enumerate(zip(whole, part, strict=False)) if a != b), len(whole))
    at = min(at, len(part))
    return (
        f"the prompt goes on with {part[at : at + 30]!r}, the conversation with "
        f"{whole[at : at + 30]!r}"
    )


def _with_text_arguments(messages: list[Message]) -> list[Message]:
    changed = copy.deepcopy(messages)
    for message in changed:
        for call in message.get("tool_calls", ()):
            function = call["function"]
            if not isinstance(function["arguments"], str):
                function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
    return changed
