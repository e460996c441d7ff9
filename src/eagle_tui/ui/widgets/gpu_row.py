"""What the figures of one GPU look like: text and style by column."""

from __future__ import annotations

from rich.style import Style

from eagle_tui import fmt
from eagle_tui.protocol import GpuStatus
from eagle_tui.ui.frame import LABEL_AGE_S
from eagle_tui.ui.palette import Palette

MEMORY_TIGHT, MEMORY_FULL = 0.97, 0.995
"""Serving fills GPU memory on purpose; only the last per cent are worth a colour."""
HOT_C, TOO_HOT_C = 80.0, 88.0


def gpu_texts(gpu: GpuStatus, look: Palette) -> dict[str, tuple[str, Style]]:
    """Every figure that a table of GPUs may show; old figures are dim and say their age."""
    alive = gpu.state == "ok"
    old = gpu.age_s is not None and gpu.age_s >= LABEL_AGE_S
    plain = look.muted if old or not alive else look.text
    note, note_style = "", look.warn
    if not alive:
        note, note_style = gpu.state, look.error
    elif old:
        note = f"{fmt.age(gpu.age_s)} old"
    elif gpu.throttle:
        note = gpu.throttle
    used = fmt.share(gpu.mem_used, gpu.mem_total)
    memory_style = plain if used is None or used < MEMORY_TIGHT else look.warn
    if used is not None and used >= MEMORY_FULL:
        memory_style = look.error
    power = f"{gpu.power_w:.0f}W" if fmt.known(gpu.power_w) else fmt.NONE
    limit = f"/{gpu.power_limit_w:.0f}" if fmt.known(gpu.power_limit_w) else ""
    heat = f"{gpu.temp_c:.0f}°C" if fmt.known(gpu.temp_c) else fmt.NONE
    return {
        "name": (f" {gpu.index} {short_name(gpu.name)}", plain),
        "util": (fmt.percent(gpu.util), look.strong if alive else plain),
        "sm": (fmt.percent(gpu.sm_util), plain),
        "tensor": (fmt.percent(gpu.tensor_util), plain),
        "mem": (f"{fmt.gib(gpu.mem_used)}/{fmt.gib(gpu.mem_total)}", memory_style),
        "bw": (fmt.percent(gpu.mem_bw_util), plain),
        "power": (power, plain),
        "limited": (power + limit, plain),
        "temp": (heat, heat_style(plain, look, gpu.temp_c)),
        "clock": (f"{gpu.sm_clock}" if gpu.sm_clock is not None else fmt.NONE, plain),
        "note": (f" {note}" if note else "", note_style),
    }


def heat_style(plain: Style, look: Palette, temp: float | None) -> Style:
    """`plain` until it is hot."""
    if temp is None or temp < HOT_C:
        return plain
    return look.error if temp >= TOO_HOT_C else look.warn


def short_name(name: str) -> str:
    """A GPU's name without its maker's."""
    return name.removeprefix("NVIDIA ")
