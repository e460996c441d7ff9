"""Textual's compositor, which of a partial update renders only the widgets in which something
changed.

Textual renders every widget that meets the smallest rectangle around all changes; on a screen whose
figures change here and there each second that is the whole screen.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip


class LeanCompositor(Compositor):
    """For a screen whose widgets paint all of their region, as all do."""

    def __init__(self) -> None:
        super().__init__()
        self._changed: list[Region] | None = None
        """Regions of the partial update that is being rendered."""

    def render_partial_update(self) -> ChopsUpdate | None:
        self._changed = list(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed = None

    def _get_renders(
        self, crop: Region | None = None
    ) -> Iterable[tuple[Region, Region, list[Strip]]]:
        if self._changed is None:
            yield from super()._get_renders(crop)
            return
        left = self._changed
        # From front to back: what lies behind a widget is not seen, and need not be rendered.
        for widget, (region, clip) in self.visible_widgets.items():
            if not left:
                return
            seen = region.intersection(clip)
            met = [part for part in map(seen.intersection, left) if part]
            if not met:
                continue
            left = [part for part in left if not seen.contains_region(part)]
            first = min(part.y for part in met)
            band = Region(seen.x, first, seen.width, max(part.bottom for part in met) - first)
            yield region, band, widget.render_lines(band.translate((-region.x, -region.y)))
