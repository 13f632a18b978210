"""A run's rows at Weights & Biases or Trackio, for those who ask for it."""

import importlib
import os
from pathlib import Path
from typing import Any, Literal

from capo.config import Config, UsageError
from capo.events import Row, scalars

Service = Literal["wandb", "trackio"]


def check_tracking(service: Service) -> None:
    """Refuses a service that is not installed, or not logged in to, before a run begins."""
    try:
        module: Any = importlib.import_module(service)
    except ImportError as error:
        raise UsageError(
            f"--track {service} needs a package that is missing: pip install 'capo-rl[{service}]'"
        ) from error
    if service == "wandb" and os.environ.get("WANDB_MODE", "online") == "online":
        try:
            module.login()
        except module.Error as error:
            raise UsageError(
                f"--track wandb: {error} Or set WANDB_MODE=offline to keep the run here"
            ) from error


class Tracker:
    """One run at a service, named as its folder is, under the names that TensorBoard has too."""

    def __init__(
        self, service: Service, project: str, folder: Path, config: Config, known: str | None = None
    ):
        """`known` is the name that the service gave a run which now goes on."""
        module: Any = importlib.import_module(service)
        if service == "wandb":
            where = os.environ.get("WANDB_DIR", str(folder))
            options = {"tags": [config.env_id, config.algo], "dir": where, "id": known}
        else:
            options = {"group": config.env_id}
        if known is not None:
            options["resume"] = "allow"
        try:
            self._run = module.init(
                project=project, name=folder.name, config=config.to_dict(), **options
            )
        except Exception as error:
            raise UsageError(f"--track {service} did not start: {error}") from error
        self._service = service
        self.known = str(getattr(self._run, "id", folder.name))
        """What to resume the run by, there."""

    def log(self, row: Row) -> None:
        """Sends a row; what has no value is left out."""
        self._run.log(scalars(row), step=int(row["steps"] or 0))

    def close(self, status: str) -> None:
        """Sends what is left and says how the run ended, where the service wants to know."""
        if self._service == "wandb":
            self._run.finish(exit_code=0 if status == "finished" else 1)
        else:
            self._run.finish()
