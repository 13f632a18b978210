"""capo export."""

from pathlib import Path
from typing import Annotated

import tyro

from capo.cli.arguments import RunPath


def export(run: RunPath, onnx: Annotated[Path, tyro.conf.arg(metavar="FILE")]) -> int:
    """Write a trained policy as ONNX, for use without capo or JAX.

    Example: capo export runs/Hopper-v4__capo__1__* --onnx policy.onnx

    Args:
        run: A run folder or a model file.
        onnx: The file to write: observations in, the most likely action out.
    """
    from capo.export.onnx import export_onnx
    from capo.runs.folder import read_model
    from capo.storage.files import check_writable

    model = read_model(run)
    check_writable(onnx.parent)
    exported = export_onnx(model, onnx)
    close = (
        f"; {exported.undecided} parts of actions too close to call" if exported.undecided else ""
    )
    print(
        f"checked against predict on {exported.observations} observations: the same actions, "
        f"parameters within {exported.difference:.1g}{close}"
    )
    print(f"written: {onnx} ({onnx.stat().st_size / 1e3:.0f} kB)")
    return 0
