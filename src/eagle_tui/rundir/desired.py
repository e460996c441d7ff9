"""Desired state: what the operator wants now. The supervisor replaces it, workers watch it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from eagle_tui.config.model import DatasetSection, RunConfig
from eagle_tui.rundir import atomic

PauseMode = Literal["no", "hold", "drain", "abort"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Endpoint(_Frozen):
    """A server that is ready to take requests."""

    name: str
    url: str
    api_key_env: str | None = None
    admin_api_key_env: str | None = None


class DatasetControl(_Frozen):
    """What the operator changed for one dataset. None: as in run.toml. A cap of 0: no cap."""

    cap_tokens: int | None = None
    cap_samples: int | None = None
    concurrency: int | None = None
    skip: bool = False


class Retry(_Frozen):
    """An order to generate prompts again whose state was final. Known by the `seq` at which it was
    given, so that a worker carries it out once."""

    seq: int
    dataset: str | None = None
    """None: every dataset."""
    states: tuple[str, ...] = ()


class Desired(_Frozen):
    """`desired.json`. `seq` grows with each change; a worker reports the last one it applied."""

    seq: int = 0
    pause: PauseMode = "no"
    datasets: dict[str, DatasetControl] = {}
    order: tuple[str, ...] = ()
    """Datasets to take first; those not named follow in the order of run.toml."""
    finish: tuple[str, ...] = ()
    """Phases that shall end with what is there."""
    retries: tuple[Retry, ...] = ()
    """Each is carried out once, in this order."""
    cap_tokens_total: int | None = None
    """Cap over all datasets; None: as in run.toml, 0: none."""
    cap_samples_total: int | None = None
    tuned: dict[str, dict[str, str | None]] = {}
    """By server: what was retuned over the flags of run.toml; None: that flag is left out."""
    endpoints: tuple[Endpoint, ...] = ()
    held: tuple[str, ...] = ()
    """Endpoints that are about to stop: requests in flight on them are ended, their tokens kept,
    and continued elsewhere or later."""
    dropped: tuple[str, ...] = ()
    """Endpoints that are about to stop and whose requests in flight are thrown away, and generated
    again. Those of an endpoint that is in neither list and goes are waited for."""

    def kept(self) -> Desired:
        """Without what is only true for the moment."""
        return self.model_copy(update={"endpoints": (), "held": (), "dropped": ()})


@dataclass(frozen=True)
class Limits:
    """What holds for a dataset now: run.toml with the operator's changes on top."""

    cap_tokens: int | None
    cap_samples: int | None
    concurrency: int
    max_new_tokens: int
    skip: bool


@dataclass(frozen=True)
class TotalCaps:
    """What holds for all datasets together now. None: no cap."""

    tokens: int | None = None
    samples: int | None = None


def _cap(changed: int | None, configured: int | None) -> int | None:
    return configured if changed is None else (changed or None)


def total_caps(config: RunConfig, desired: Desired) -> TotalCaps:
    """The caps over all datasets that hold now."""
    return TotalCaps(
        _cap(desired.cap_tokens_total, config.generate.cap_tokens_total),
        _cap(desired.cap_samples_total, config.generate.cap_samples_total),
    )


def limits(config: RunConfig, desired: Desired, dataset: DatasetSection) -> Limits:
    """The limits that hold for `dataset` now."""
    control = desired.datasets.get(dataset.name, DatasetControl())
    return Limits(
        cap_tokens=_cap(control.cap_tokens, config.cap_tokens_of(dataset)),
        cap_samples=_cap(control.cap_samples, dataset.cap_samples),
        concurrency=control.concurrency or config.concurrency_of(dataset),
        max_new_tokens=config.max_new_tokens_of(dataset),
        skip=control.skip,
    )


def ordered(config: RunConfig, desired: Desired) -> list[DatasetSection]:
    """The datasets in the order in which they are to be generated; skipped ones included."""
    by_name = {dataset.name: dataset for dataset in config.dataset}
    first = [by_name[name] for name in desired.order if name in by_name]
    return first + [d for d in config.dataset if d not in first]


def read(path: Path, config: RunConfig) -> Desired:
    """The desired state in `path`. Without a file (a worker run by hand): the attached endpoints of
    run.toml and no changes."""
    body = atomic.read_json(path)
    if body is not None:
        return Desired.model_validate(body)
    return Desired(
        endpoints=tuple(
            Endpoint(
                name=s.name,
                url=s.url,
                api_key_env=s.api_key_env,
                admin_api_key_env=s.admin_api_key_env,
            )
            for s in config.server
            if s.url
        )
    )


def write(path: Path, desired: Desired) -> None:
    """Replace the file in one step."""
    atomic.write_json(path, desired.model_dump(mode="json"))


class Watch:
    """Cheap look at desired.json: read again only when the file was replaced."""

    def __init__(self, path: Path, config: RunConfig) -> None:
        self._path = path
        self._config = config
        self._seen: tuple[int, int, int] | None = None
        self.desired = read(path, config)
        self.poll()

    def poll(self) -> bool:
        """Look once; True when `desired` changed."""
        try:
            stat = self._path.stat()
        except FileNotFoundError:
            return False
        seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
        if seen == self._seen:
            return False
        self._seen = seen
        before = self.desired
        self.desired = read(self._path, self._config)
        return self.desired != before

    def follow(self) -> None:
        """As `poll`; a file that cannot be read is not followed, and the wishes before it hold."""
        with contextlib.suppress(ValueError, OSError):
            self.poll()
