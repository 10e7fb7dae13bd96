"""The packaged base of letters: which fonts may train it, and that its training goes on."""

import pytest
import torch

pytest.importorskip("debian", reason="bench/requirements-glyphs.txt is not installed")
pytest.importorskip("diffusers", reason="bench/requirements-glyphs.txt is not installed")

from bench.glyphs.licences import licence_of
from bench.glyphs.styles import varied
from bench.glyphs.training import Training

HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\n"
FILES = "Files: {}\nCopyright: 2020 Somebody\nLicense: {}\n\n"
FONTS = torch.randint(256, (3, 62, 64, 64), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("text", "licence"),
    [
        (HEAD + FILES.format("*", "OFL-1.1") + FILES.format("debian/*", "GPL-2+"), "ofl"),
        (HEAD + FILES.format("*", "OFL-1.1") + FILES.format("sources/*", "GPL-2+"), "other"),
        (HEAD + FILES.format("*", "OFL-1.1") + FILES.format("b/*", "Apache-2.0"), "other"),
        (HEAD + FILES.format("*", "Apache-2.0"), "apache"),
        (HEAD + FILES.format("*", "GPL-3+ with font exception"), "other"),
        (HEAD + FILES.format("*", "Expat"), "mit"),
        (HEAD + FILES.format("*", "public-domain"), "public-domain"),
        (HEAD + FILES.format("*", "PDL-1.0"), "other"),
        ("This font is licensed under the SIL Open Font License, Version 1.1.", "ofl"),
        ("Open Font License, or GNU General Public License.", "other"),
        ("Free for private use.", "other"),
    ],
)
def test_a_licence_is_named_where_all_files_have_it(text, licence):
    assert licence_of(text) == licence


def test_styles_follow_from_their_draws_and_some_fonts_stay_as_they_are():
    letters = FONTS[:, :4].float() / 255
    whole = letters.expand(20, 3, 4, 64, 64).reshape(-1, 4, 64, 64)
    first, again = (varied(whole, torch.Generator().manual_seed(0)) for _ in range(2))
    assert torch.equal(first, again)
    plain = torch.nn.functional.avg_pool2d(whole, 2)
    same = (first - plain).abs().amax((1, 2, 3)) < 0.1
    assert 12 < same.sum() < 48
    assert first.min() >= 0
    assert first.max() <= 1


def test_a_training_in_parts_is_the_training_in_one(tmp_path):
    whole, part = Training(FONTS, 100), Training(FONTS, 100)
    expected = [whole.advance() for _ in range(3)]
    losses = [part.advance(), part.advance()]
    part.write(tmp_path / "state.pt")
    rest = Training(FONTS, 100)
    rest.read(tmp_path / "state.pt")
    assert [*losses, rest.advance()] == expected
    assert all(torch.equal(rest.average[name], t) for name, t in whole.average.items())
