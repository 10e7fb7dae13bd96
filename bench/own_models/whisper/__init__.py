"""Speech: Whisper tiny.en writes down what is said."""
