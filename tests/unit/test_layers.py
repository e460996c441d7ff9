"""Imports go downward only, and torch stays in the pipeline. Read from the source, module by
module, so that an import inside a function counts as well."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import eagle_tui

SRC = Path(eagle_tui.__file__).parent

LAYERS: dict[str, set[str]] = {
    # A part of the program → the parts that it may import besides itself.
    "ui": {
        "client_api",
        "protocol",
        "actions",
        "fmt",
        "text",
        "clock",
        "themes",
        "verdict",
        "notices",
        "place",
        "series",
        "records",
        "result",
    },
    "cli": {
        *(
            "client",
            "reach",
            "client_api",
            "protocol",
            "actions",
            "fmt",
            "text",
            "config",
            "rundir",
            "ui",
        ),
        *(
            "replay",
            "clock",
            "report",
            "notices",
            "notifier",
            "place",
            "reader",
            "records",
            "result",
            "troubles",
        ),
    },
    "client": {
        *("client_api", "protocol", "rundir", "reader", "reach", "versions", "records", "unixhttp"),
        "troubles",
    },
    "reach": {"client_api", "protocol", "rundir", "versions", "proc", "unixhttp"},
    "unixhttp": set(),
    "versions": {"protocol"},
    "client_api": {"protocol", "records", "result"},
    "records": {"protocol"},
    "result": {"protocol"},
    "loglines": {"records", "text"},
    # What is read of a run's files without asking anybody.
    "reader": {
        *("client_api", "protocol", "records", "result", "rundir", "config", "loglines"),
        *("troubles", "text"),
    },
    "supervisor": {
        *(
            "telemetry",
            "rules",
            "eta",
            "history",
            "rundir",
            "config",
            "protocol",
            "clock",
            "records",
        ),
        *(
            "proc",
            "lengths",
            "actions",
            "text",
            "series",
            "snapshots",
            "sglang",
            "report",
            "notices",
            "notifier",
            "ports",
        ),
        "reader",
        "troubles",
    },
    "telemetry": {"protocol", "clock", "text", "sglang"},
    "rules": {"protocol", "troubles"},
    "history": {"protocol"},
    "series": {"protocol"},
    "snapshots": {"protocol"},
    "place": set(),
    "report": {"protocol", "fmt", "text"},
    "notices": {"protocol"},
    "notifier": {"notices", "protocol", "config", "rundir", "clock", "text"},
    # Of the supervisor: the state file and what is told from it.
    "replay": {
        *("client_api", "protocol", "clock", "rundir", "snapshots", "supervisor"),
        *("reader", "records", "place"),
    },
    "eta": {"lengths"},
    "lengths": set(),
    "sglang": set(),
    "rundir": {"config", "clock", "text"},
    "config": set(),
    "actions": {"action", "reading_actions", "viewing_actions"},
    "reading_actions": {"action"},
    "viewing_actions": {"action"},
    "action": set(),
    "protocol": set(),
    "fmt": set(),
    "text": set(),
    "troubles": set(),
    "clock": set(),
    "ports": set(),
    "proc": set(),
    "__main__": {"cli"},
    "__init__": set(),
}
PIPELINE_MAY = {
    "ports",
    "rundir",
    "config",
    "clock",
    "text",
    "lengths",
    "proc",
    "protocol",
    "sglang",
    "troubles",
    "__init__",
}
HEAVY = {"torch", "transformers", "datasets", "safetensors", "numpy", "aiohttp"}


def imports(path: Path) -> set[str]:
    """Absolute names of the modules that a file imports, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            found.add(node.module)
            if node.module == "eagle_tui":
                found.update(f"eagle_tui.{alias.name}" for alias in node.names)
    return found


def part(name: str) -> str:
    """`eagle_tui.ui.app` → `ui`."""
    return name.split(".")[1] if "." in name else "__init__"


def own_modules() -> list[tuple[str, Path]]:
    found = []
    for path in SRC.rglob("*.py"):
        relative = path.relative_to(SRC)
        if relative.parts[0] in ("pipeline", "themes"):
            continue
        found.append((relative.parts[0].removesuffix(".py"), path))
    return found


def test_every_part_is_in_the_picture() -> None:
    assert {name for name, _ in own_modules()} <= set(LAYERS)


def test_imports_go_downward_only() -> None:
    wrong = []
    for name, path in own_modules():
        for module in imports(path):
            if module.startswith("eagle_tui."):
                other = part(module)
                # The version stands in the package itself.
                known = other in {n for n, _ in own_modules()} | {"pipeline", "themes"}
                if known and other != name and other not in LAYERS[name]:
                    wrong.append(f"{path.relative_to(SRC)} imports {module}")
    assert wrong == []


def test_a_replay_knows_of_the_supervisor_only_what_it_stores() -> None:
    allowed = {"store", "archive", "past", "launches"}
    wrong = [
        module
        for path in (SRC / "replay").glob("*.py")
        for module in imports(path)
        if module.startswith("eagle_tui.supervisor.") and module.split(".")[2] not in allowed
    ]
    assert wrong == []


def test_no_heavy_module_outside_the_pipeline() -> None:
    wrong = [
        f"{path.relative_to(SRC)} imports {module}"
        for _, path in own_modules()
        for module in imports(path)
        if module.split(".")[0] in HEAVY or module.startswith("eagle_tui.pipeline")
    ]
    assert wrong == []


def test_the_pipeline_knows_only_the_run_directory() -> None:
    import importlib.util

    spec = importlib.util.find_spec("eagle_tui.pipeline")
    assert spec is not None and spec.submodule_search_locations
    root = Path(next(iter(spec.submodule_search_locations)))
    wrong = [
        f"{path.relative_to(root)} imports {module}"
        for path in root.rglob("*.py")
        for module in imports(path)
        if module.startswith("eagle_tui.")
        and part(module) not in PIPELINE_MAY
        and part(module) in {n for n, _ in own_modules()}
    ]
    assert wrong == []


def test_the_running_program_loads_no_torch() -> None:
    code = (
        "import sys, eagle_tui.cli.main, eagle_tui.supervisor.__main__, eagle_tui.ui.app;"
        f"print(sorted({HEAVY!r} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
