"""Made-up run folders, and reading or abandoning real ones."""

import json

from capo import Config


def make_run(
    folder, env_id="CartPole-v1", algo="ppo", seed=1, returns=(10.0, 20.0), score=None, **changes
):
    """Writes a run with a row of metrics for each return; `score` is the evaluation's mean."""
    manifest = {
        "versions": {"capo": "0.1.0"},
        "command": f"capo train {env_id} --algo {algo} --seed {seed}",
        "started": "2026-01-01T12:00:00+0000",
        "status": "finished",
        "wall_seconds": 75.0,
        **changes.pop("manifest", {}),
    }
    batch = changes.pop("batch", 4096)
    changes.setdefault("hidden", (64, 64))
    # A folder may hold names that a configuration would not take.
    config = Config("any", algo="any", seed=seed, **changes).to_dict()
    config |= {"env_id": env_id, "algo": algo}
    rows = [
        {"generation": i, "steps": (i + 1) * batch, "return": value, "seconds": 1.5 * (i + 1)}
        for i, value in enumerate(returns)
    ]
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if score is not None:
        result = {"mean": score, "standard_error": 1.25, "episodes": 20}
        (folder / "eval.json").write_text(json.dumps(result))
    return folder


def rows_of(run) -> list[dict]:
    """The rows of metrics.jsonl, without wall-clock times."""
    lines = (run / "metrics.jsonl").read_text().splitlines()
    return [
        {key: value for key, value in json.loads(line).items() if "seconds" not in key}
        for line in lines
    ]


def abandon(run) -> None:
    """Closes the files of a `RunFolder`, as when its process is killed."""
    run._metrics.close()
    for sink in run._sinks:
        sink.close("killed")
