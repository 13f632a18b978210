"""Draws docs/layers.svg: the modules and packages of capo, and who imports whom.

A row imports only from rows below it: every dot lies to the right of its own row's column. Imports
within functions count, those for the type checker do not. `--check` fails if the picture is stale.
"""

import argparse
import ast
import graphlib
import html
import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs/layers.svg"
ROW, COLUMN, NAMES, TOP, EDGE = 26, 22, 150, 104, 14
LETTER = 7.5
"""Width of a letter of a role, about."""
BAND, RULE, INK, FAINT, BOX, DOT = "#f3f6fa", "#e3e7ec", "#222", "#666", "#2166ac", "#e8871e"
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
Imports = dict[str, set[str]]


def main() -> int:
    """Writes the picture, or compares it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the picture is stale")
    check = parser.parse_args().check
    imports = read_imports()
    drawn = draw(imports, levels(imports))
    if not check:
        PICTURE.write_text(drawn)
    elif not PICTURE.exists() or PICTURE.read_text() != drawn:
        print("docs/layers.svg is not the picture of these imports: make layers", file=sys.stderr)
        return 1
    return 0


def read_imports() -> Imports:
    """What each module or package of the root imports of the others."""
    graph = grimp.build_graph("capo", exclude_type_checking_imports=True, cache_dir=None)
    found: Imports = {_unit(module): set() for module in graph.modules if "." in module}
    for importer in graph.modules - {"capo"}:
        for imported in graph.find_modules_directly_imported_by(importer) - {"capo"}:
            if _unit(importer) != _unit(imported):
                found[_unit(importer)].add(_unit(imported))
    return found


def _unit(module: str) -> str:
    return module.split(".")[1]


def levels(imports: Imports) -> dict[str, int]:
    """0 for what imports nothing, else one more than the highest level that it imports from."""
    found: dict[str, int] = {}
    for unit in graphlib.TopologicalSorter(imports).static_order():
        found[unit] = 1 + max((found[imported] for imported in imports[unit]), default=-1)
    return found


def role(unit: str) -> str:
    """The first line of the docstring."""
    home = ROOT / "src/capo" / unit
    source = home / "__init__.py" if home.is_dir() else home.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(source.read_text())) or ""
    return docstring.partition("\n")[0].replace("`", "").removesuffix(".")


def draw(imports: Imports, level: dict[str, int]) -> str:
    """The picture as SVG."""
    order = sorted(imports, key=lambda unit: (-level[unit], unit))
    roles = [role(unit) for unit in order]
    # The cells left of the diagonal are empty: a role may reach into them.
    reach = max(LETTER * len(role) - COLUMN * index for index, role in enumerate(roles))
    left = NAMES + round(reach)
    width, height = left + COLUMN * len(order) + 2 * EDGE, TOP + ROW * len(order) + EDGE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="{FONT}" font-size="14" fill="{INK}">',
        "<title>The modules and packages of capo, and their imports</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#fff"/>',
    ]
    for index, unit in enumerate(order):
        x, y = left + COLUMN * index + COLUMN // 2, TOP + ROW * index
        if level[unit] % 2:
            parts.append(f'<rect y="{y}" width="{width}" height="{ROW}" fill="{BAND}"/>')
        parts.append(
            f'<path d="M{x} {TOP - 6} V{y + ROW // 2}" stroke="{RULE}"/>'
            f'<text transform="translate({x + 4} {TOP - 10}) rotate(-60)" font-size="12">'
            f"{unit}</text>"
        )
    for index, unit in enumerate(order):
        parts.append(_row(unit, roles[index], level[unit], TOP + ROW * index))
        for other, imported in enumerate(order):
            x, y = left + COLUMN * other + COLUMN // 2, TOP + ROW * index + ROW // 2
            if imported in imports[unit]:
                parts.append(f'<circle cx="{x}" cy="{y}" r="4.5" fill="{DOT}"/>')
            elif imported == unit:
                corner = f'x="{x - 5}" y="{y - 5}" width="10" height="10"'
                parts.append(f'<rect {corner} rx="2" fill="{BOX}"/>')
    return "\n".join([*parts, "</svg>", ""])


def _row(unit: str, role: str, level: int, y: int) -> str:
    """The level, the name, which ends in / for a package, and the role."""
    name = f"{unit}/" if (ROOT / "src/capo" / unit).is_dir() else unit
    base = y + ROW // 2 + 5
    return (
        f'<text x="{EDGE}" y="{base}" font-size="11" fill="{FAINT}">{level}</text>'
        f'<text x="{EDGE + 24}" y="{base}" font-weight="600" fill="{BOX}">{name}</text>'
        f'<text x="{NAMES}" y="{base}" font-size="13">{html.escape(role)}</text>'
    )


if __name__ == "__main__":
    sys.exit(main())
