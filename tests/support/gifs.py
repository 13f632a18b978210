"""Reading a GIF back."""

import numpy as np
from PIL import Image


def read_gif(path):
    """Frames as arrays, and the duration of each in hundredths of a second."""
    with Image.open(path) as file:
        found = []
        for index in range(getattr(file, "n_frames", 1)):
            file.seek(index)
            found.append((np.asarray(file.convert("RGB")), file.info["duration"] // 10))
    frames, times = zip(*found, strict=True)
    return list(frames), list(times)
