"""Checks the wheel and the sdist in a folder, and runs the README's Python from the wheel.

The wheel is installed into an empty virtual environment outside the checkout and runs from another
working directory, so that the checkout cannot stand in for a file that the wheel lacks.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RELATIVE_LINK = re.compile(r"\]\((?!https?://)[^)]*\)")
SDIST_HAS = ("README.md", "CHANGELOG.md", "LICENSE", "docs/index.md", "tests/conftest.py")


def main(dist: Path) -> None:
    """Raises an error that names the first thing that is wrong."""
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    check_wheel(wheel)
    check_sdist(sdist)
    with tempfile.TemporaryDirectory() as folder:
        try_wheel(wheel, Path(folder))
    print(f"built, checked and tried: {wheel.name}, {sdist.name}")


def check_wheel(wheel: Path) -> None:
    """Has every file of src/capo, and a description without links that lead nowhere."""
    files = (path for path in (ROOT / "src/capo").rglob("*") if path.is_file())
    wanted = {
        path.relative_to(ROOT / "src").as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if name.startswith("capo/")}
        (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        description = archive.read(metadata).decode()
    if found != wanted:
        sys.exit(f"{wheel.name} differs from src/capo in {sorted(found ^ wanted)}")
    if link := RELATIVE_LINK.search(description):
        sys.exit(f"the description in {wheel.name} has a relative link {link[0]}")


def check_sdist(sdist: Path) -> None:
    """Has documentation and tests, but no results."""
    with tarfile.open(sdist) as archive:
        found = {name.partition("/")[2] for name in archive.getnames()}
    if missing := set(SDIST_HAS) - found:
        sys.exit(f"{sdist.name} lacks {sorted(missing)}")
    if measured := [name for name in found if name.startswith("results/")]:
        sys.exit(f"{sdist.name} has {sorted(measured)[0]}, which should stay in the repository")


def try_wheel(wheel: Path, folder: Path) -> None:
    """Installs the wheel into an empty environment and uses it there as a newcomer does."""
    home, work = folder / "environment", folder / "work"
    work.mkdir()
    venv.create(home, with_pip=True)
    python, capo = home / "bin/python", home / "bin/capo"
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment = {**clean, "CAPO_CACHE": str(folder / "cache")}

    def run(*command: object) -> str:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=work, env=environment, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{done.stdout}{done.stderr}\n{words} failed from {wheel.name}")
        return done.stdout

    pip = (python, "-m", "pip", "--quiet", "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-compile", wheel.resolve())
    run(*pip, "check")
    version = wheel.name.split("-")[1]
    if (said := run(capo, "--version")) != f"capo {version}\n":
        sys.exit(f"capo --version says {said!r} from {wheel.name}")
    if "usage: capo" not in run(capo, "--help"):
        sys.exit("capo --help has no usage line")
    (work / "readme.py").write_text(readme_python())
    print(run(python, "readme.py"), end="")


def readme_python() -> str:
    """The Python of the README, as one script."""
    text = (ROOT / "README.md").read_text()
    return "\n".join(re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
