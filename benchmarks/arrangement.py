"""Two runs on two cores: at once with a core each, or one after the other with both?

python benchmarks/arrangement.py
"""

import itertools
import tempfile
from pathlib import Path

import numpy as np

from capo.paper.launch import Cores, last_line, places, start
from capo.records import number, rows

ENVS, ALGOS, STEPS, ROUNDS = ("HalfCheetah-v4",), ("ppo", "capo"), "61440", 2
WORDS = ["-n", STEPS, "--warmup", "0", "--diagnostics", "0", "--eval-episodes", "0"]
TIMES = ("collect_seconds", "update_seconds")


def seconds(folders: list[Path]) -> list[float]:
    """What each run took, without starting and compiling."""
    return [sum(number(row[key]) for row in rows(folder) for key in TIMES) for folder in folders]


def trained(words: list[str], cores: list[Cores], parent: Path) -> list[Path]:
    """As many runs as there are sets of cores, at once."""
    folders = [Path(tempfile.mkdtemp(dir=parent)) / "run" for _ in cores]
    going = [
        start([*words, "--run-dir", str(folder)], place, folder.with_suffix(".log"))
        for folder, place in zip(folders, cores, strict=True)
    ]
    codes = [process.wait() for process in going]
    if any(codes):
        raise SystemExit("\n".join(last_line(folder.with_suffix(".log")) for folder in folders))
    return folders


def main() -> None:
    """In turns; prints the seconds for as many runs as there are cores."""
    own, shared = places(None), places(1)
    print(
        "| | at once, a core each | one after the other, all cores | ratio |\n|---|---:|---:|---:|"
    )
    with tempfile.TemporaryDirectory() as name:
        for env, algo in itertools.product(ENVS, ALGOS):
            words, found = [env, "--algo", algo, *WORDS], []
            for _ in range(ROUNDS):
                at_once = max(seconds(trained(words, own, Path(name))))
                in_turn = len(own) * seconds(trained(words, shared, Path(name)))[0]
                found.append((at_once, in_turn))
            at_once, in_turn = np.median(found, axis=0)
            ratios = [turn / once for once, turn in found]
            print(
                f"| {env} `{algo}` | {at_once:.1f} s | {in_turn:.1f} s | "
                f"{np.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f}) |",
                flush=True,
            )


if __name__ == "__main__":
    main()
