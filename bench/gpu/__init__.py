"""What a CUDA device is proven to do, and what the tests for it see."""
