"""Pictures of letters for tests, and the device that these run on."""

import base64
import io
import os

from PIL import Image, ImageDraw

from cog_adapt import RunnerSettings


def bar(width=3, kind="PNG", ink=0, paper=255, side=32):
    """Draw an I, and return its file."""
    picture = Image.new("L", (side, side), paper)
    left = (side - width) // 2
    ImageDraw.Draw(picture).rectangle((left, 3, left + width - 1, 22), fill=ink)
    return saved(picture, kind)


def saved(picture, kind="PNG", **more):
    file = io.BytesIO()
    picture.save(file, kind, **more)
    return file.getvalue()


def uri(content):
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def settings_in(folder):
    """Exact numbers, on TEST_DEVICE."""
    device = os.environ.get("TEST_DEVICE", "cpu")
    return RunnerSettings(device=device, precision="fp32", weights_dir=folder)
