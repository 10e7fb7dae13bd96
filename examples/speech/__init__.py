"""Speech: Whisper tiny.en transcribes it, and learns words from examples."""
