"""What the operator is told once when answers show that something is set wrongly."""

from __future__ import annotations

from .report import Report
from .work import DatasetWork

REASONING_LOOK = 20
"""After so many responses of a dataset it is said when none of them holds reasoning."""


class Remarks:
    """Each is made once."""

    def __init__(self, report: Report, *, reasons: bool) -> None:
        """`reasons`: the target has markers for its reasoning."""
        self._report = report
        self._reasons = reasons
        self._pools: set[str] = set()

    def small_pool(self, server: str, prompt_tokens: int, length: int) -> None:
        """An answer was cut because the server's KV cache is full."""
        if server in self._pools:
            return
        self._pools.add(server)
        self._report.note(
            f"{server}: an answer was cut at {length:,} tokens after a prompt of "
            f"{prompt_tokens:,}, because the server's KV cache holds no more. Such answers are "
            "stored as truncated with the flag pool; give the server more KV memory",
            "warning",
        )

    def no_reasoning(self, work: DatasetWork) -> None:
        """A reasoning model that never reasons is a wrong setting; said before it costs hours."""
        found = work.figures
        if self._reasons and found.rows == REASONING_LOOK and not found.reasoned:
            self._report.note(
                f"{work.name}: none of the first {found.rows} responses holds reasoning, although "
                "the model has markers for it. Look at a sample; check target.reasoning, the chat "
                "template and its enable_thinking",
                "warning",
            )
