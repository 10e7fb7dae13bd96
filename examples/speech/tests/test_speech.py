"""The speech model on its packaged weights, and what it refuses."""

import base64
import hashlib
import io
import json
import random
import struct
import wave
from pathlib import Path

import pytest

from cog_adapt import Example, InputError, ModelRunner, Recipe, RunnerSettings
from examples.speech.network import folder
from examples.speech.sounds import HERTZ, file_of, seconds_of, wave_of
from examples.speech.task import Transcription

FOLDER = Path(__file__).parents[1] / "examples"
ROWS = [json.loads(line) for line in (FOLDER / "rows.jsonl").read_text().splitlines()]
SHA256 = "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a"


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    settings = RunnerSettings(device="cpu", weights_dir=tmp_path_factory.mktemp("weights"))
    with ModelRunner(Transcription(), settings) as runner:
        yield runner


def sound(seconds, width=2, rate=8000, channels=1):
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(bytes(int(seconds * rate) * width * channels))
    return file.getvalue()


def header(channels=1, rate=8000, width=2, kind=1, fmt_bytes=16, declared=0):
    """Make a WAV file's first bytes, with any values and no sound."""
    size = (channels * width) % 2**16
    form = struct.pack("<HHIIHH", kind, channels, rate, 0, size, 8 * width)
    said = struct.pack("<4sI", b"fmt ", fmt_bytes) + form + struct.pack("<4sI", b"data", declared)
    return struct.pack("<4sI4s", b"RIFF", 2**32 - 1, b"WAVE") + said


def mutated(content, draw):
    """Cut a file, and change a few bytes of its header."""
    found = bytearray(content[: draw.randrange(1, 2 * len(content))])
    for _ in range(4):
        found[draw.randrange(min(len(found), 80))] = draw.choice([0, 1, 127, 128, 255])
    return bytes(found)


def refusal(read, content):
    """Return what is said of a file that is refused; empty where it is read."""
    try:
        read(content)
    except InputError as error:
        return str(error)
    return ""


def test_the_packaged_weights_are_the_ones_that_were_checked():
    content = (folder() / "model.bin").read_bytes()
    assert hashlib.sha256(content).hexdigest() == SHA256


def test_gradients_reach_every_parameter(runner):
    report = runner.self_test()
    assert report.passed, str(report)


def test_it_writes_down_speech_and_learns_from_three_sentences(runner):
    sent = FOLDER / "adapter.wav"
    (before,) = runner.predict([sent])
    assert len(before.split()) > 2
    examples = [runner.task.example(row) for row in ROWS]
    recipe = Recipe(max_steps=4, batch_size=4, learning_rate=3e-3)
    adaptation = runner.adapt(examples, recipe)
    losses = adaptation.report.to_json()["losses"]
    assert losses[-1] < losses[0]
    assert adaptation.report.trunk == "4 frozen blocks ran once for each example"
    assert isinstance(runner.predict([sent], adaptation.adapter)[0], str)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, r"7 \(int\) is no sound"),
        ("talk.wav", "'talk.wav' is no sound"),
        ("https://example.com/talk.wav", "is not fetched. Put the WAV file into the row"),
        ("data:audio/wav,abc", "no data URI"),
    ],
)
def test_what_is_no_sound_file_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        file_of(given)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"RIFF no more", "cannot be read"),
        (sound(31), "lasts 31 seconds; more than 0 and at most 30"),
        (sound(0), "lasts 0 seconds"),
        (sound(1, width=4), "32 bits; 8 to 16 are allowed"),
        (header(channels=0), "cannot be read"),
        (header(channels=65_535), "65,535 channels; 1 to 64"),
        (header(rate=0), "0 samples a second; 1,000 to 384,000"),
        (header(rate=1), "1 samples a second"),
        (header(rate=2**32 - 1), "4,294,967,295 samples a second"),
        (header(width=0), "cannot be read"),
        (header(kind=0xFFFE), "cannot be read"),
        (header(fmt_bytes=2**32 - 1), "cannot be read"),
        (header()[:30], "cannot be read"),
        (header(kind=2), "cannot be read"),
        (header(kind=0x11, width=0), "cannot be read"),
        (sound(1)[:12] + b"junk\0\0\0\0" * 1_000 + sound(1)[12:], "more than 1,000 chunks"),
        (sound(1) + b"junk\1\0\0\0\0\0" * 1_000, "more than 1,000 chunks"),
    ],
)
@pytest.mark.parametrize("read", [wave_of, seconds_of])
def test_broken_and_long_sounds_are_refused(content, said, read):
    with pytest.raises(InputError, match=said):
        read(content)


@pytest.mark.parametrize("declared", [7_999, 2**31, 2**32 - 1])
def test_a_sound_lasts_as_long_as_its_bytes_whatever_its_header_declares(declared):
    content = header(declared=declared) + bytes(3_999)  # half a sample too many
    assert seconds_of(content) == 1
    assert 0 < len(wave_of(content)) <= HERTZ // 4 + 44


def test_mutated_sounds_are_read_or_refused():
    draw, whole = random.Random(7), sound(0.1, channels=2)
    files = [mutated(whole, draw) for _ in range(1_000)]
    said = [refusal(read, content) for content in files for read in (seconds_of, wave_of)]
    assert "" in said
    assert any(said)


def test_an_example_says_what_can_be_said_in_its_sound(runner):
    row = {"input": base64.b64encode(sound(1)).decode(), "target": "a" * 10**6}
    with pytest.raises(InputError, match="1,000,000 characters; the limit is 2,000"):
        runner.task.example(row)
    with pytest.raises(InputError, match="half a surrogate pair"):
        runner.task.example(row | {"target": "a \ud800"})
    example = runner.task.example(row | {"target": "x9" * 900})
    with pytest.raises(InputError, match="tokens; the decoder reads 446"):
        runner.adapt([example], Recipe(max_steps=1))


def test_a_request_holds_an_hour_of_sound_at_most(runner):
    example = Example(sound(29.5, width=1, rate=1_000), "hello")
    with pytest.raises(
        InputError, match="example 121 .* 3,630 seconds of sound; the limit is 3,600"
    ):
        runner.adapt([example] * 130, Recipe(max_steps=1))


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("width", [1, 2])
def test_a_sound_becomes_one_channel_at_the_models_rate(width, channels):
    content = sound(0.5, width, 8000, channels)
    assert file_of(base64.b64encode(content).decode()) == content
    assert len(wave_of(content)) == HERTZ // 2


def test_a_sound_that_came_through_a_pipe_is_as_long_as_what_it_holds():
    content = sound(0.25)
    endless = content.replace(struct.pack("<I", len(content) - 44), struct.pack("<I", 0x7FFFF000))
    assert endless != content
    assert HERTZ // 4 <= len(wave_of(endless)) <= HERTZ // 4 + 44
