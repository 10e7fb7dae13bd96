"""The steps of one request, from its values to its answer; also a training and a replay."""
