"""Tracking services: Weights & Biases and Trackio."""

import importlib
import os
from pathlib import Path
from typing import Any, Literal

from capo.config import Config
from capo.errors import UsageError, install_hint, name_of
from capo.runs.tensorboard import Row, scalars

Service = Literal["wandb", "trackio"]


def check_tracking(service: Service) -> None:
    """Raises `UsageError` for a service that is not installed or has no login."""
    try:
        module: Any = importlib.import_module(service)
    except ImportError as error:
        raise UsageError(
            f"{name_of('track', service)} needs a package that is missing: {install_hint(service)}"
        ) from error
    if service == "wandb" and os.environ.get("WANDB_MODE", "online") == "online":
        try:
            module.login()
        except module.Error as error:
            raise UsageError(
                f"{name_of('track', 'wandb')}: {error} Or set WANDB_MODE=offline "
                "to keep the run here"
            ) from error


class Tracker:
    """One run at a service, named as its folder, with the scalar names of TensorBoard."""

    def __init__(
        self,
        service: Service,
        project: str,
        folder: Path,
        config: Config,
        run_id: str | None = None,
    ):
        """`run_id` is the id at the service of a run that is resumed."""
        module: Any = importlib.import_module(service)
        if service == "wandb":
            where = os.environ.get("WANDB_DIR", str(folder))
            options = {"tags": [config.env_id, config.algo], "dir": where, "id": run_id}
        else:
            options = {"group": config.env_id}
        if run_id is not None:
            options["resume"] = "allow"
        try:
            self._run = module.init(
                project=project, name=folder.name, config=config.to_dict(), **options
            )
        except Exception as error:
            raise UsageError(f"{name_of('track', service)} did not start: {error}") from error
        self._service = service
        self.run_id = str(getattr(self._run, "id", folder.name))
        """Id of the run at the service."""

    def log(self, row: Row) -> None:
        """Sends a row, without missing values."""
        self._run.log(scalars(row), step=int(row["steps"] or 0))

    def close(self, status: str) -> None:
        """Sends the remaining rows and, to Weights & Biases, the exit status."""
        if self._service == "wandb":
            self._run.finish(exit_code=0 if status == "finished" else 1)
        else:
            self._run.finish()
