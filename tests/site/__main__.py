"""Writes the pages that the code implies, and builds the site.

    python -m tests.site [FOLDER]

The site lies in FOLDER/site (`.site/site`), which is made anew.
"""

import shutil
import sys
from pathlib import Path

from tests.site.pages import ROOT, build, gather
from tests.site.reference import reference

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / ".site"
    for path, text in reference().items():
        (ROOT / path).write_text(text)
    shutil.rmtree(folder, ignore_errors=True)
    gather(folder)
    if wrong := build(folder):
        sys.exit(wrong)
    sys.stdout.write(f"{folder / 'site' / 'index.html'}\n")
