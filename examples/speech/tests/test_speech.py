"""The speech model on its packaged weights, and what it refuses."""

import base64
import hashlib
import io
import json
import struct
import wave
from pathlib import Path

import pytest

from cog_adapt import InputError, ModelRunner, Recipe, RunnerSettings
from examples.speech.network import folder
from examples.speech.sounds import HERTZ, file_of, wave_of
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
        (sound(1, width=4), "8 or 16 bits"),
    ],
)
def test_broken_and_long_sounds_are_refused(content, said):
    with pytest.raises(InputError, match=said):
        wave_of(content)


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
