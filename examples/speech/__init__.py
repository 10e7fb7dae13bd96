"""Speech: Whisper tiny.en writes down what is said, and learns words from examples."""
