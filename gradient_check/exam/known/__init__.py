"""The cases of the tests: `check_gradients` was mended until it answered each of them right."""
