"""Packages only; everything else stands in pyproject.toml.

`pipeline/` and `themes/` live beside `src/` in the checkout and are installed inside the one import
package `eagle_tui`, so that no top-level package named `pipeline` lands in site-packages.
"""

from setuptools import find_packages, setup

setup(
    packages=[
        *find_packages("src"),
        "eagle_tui.pipeline",
        *(f"eagle_tui.pipeline.{name}" for name in find_packages("pipeline")),
        "eagle_tui.themes",
    ],
    package_dir={"": "src", "eagle_tui.pipeline": "pipeline", "eagle_tui.themes": "themes"},
    package_data={
        "eagle_tui": ["py.typed", "config/presets/*.toml", "ui/**/*.tcss", "ui/*.tcss"],
        "eagle_tui.pipeline.tiny": ["model/*"],
        "eagle_tui.themes": ["*.toml"],
    },
)
