from prometheus_client import CollectorRegistry, Histogram, generate_latest

from cog_adapt.server.telemetry.durations import Durations

BOUNDS = (0.001, 0.5, 1, 10)
SECONDS = [0.0, 0.001, 0.0011, 0.4, 0.5, 0.75, 1.0, 1.0001, 9, 10, 11, 1e9]


def test_they_read_like_the_librarys_own_histogram():
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    durations = Durations("took_seconds", "Time.", ["kind", "phase"], BOUNDS, 10)
    ours.register(durations)
    labels = ["kind", "phase"]
    histogram = Histogram("took_seconds", "Time.", labels, buckets=BOUNDS, registry=theirs)
    for number, seconds in enumerate(SECONDS):
        values = ("predict", "run" if number % 3 else "total")
        durations.observe(values, seconds)
        histogram.labels(*values).observe(seconds)
    text = generate_latest(ours)
    assert text.count(b"_bucket{") == 2 * (len(BOUNDS) + 1)
    kept = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert sorted(text.splitlines()) == sorted(kept)


def test_labels_beyond_the_limit_count_together():
    registry = CollectorRegistry()
    durations = Durations("took_seconds", "Time.", ["route"], BOUNDS, 2)
    registry.register(durations)
    for number in range(5):
        durations.observe((f"route {number}",), 1.0)
    count = registry.get_sample_value("took_seconds_count", {"route": "other"})
    assert count == 3


def test_one_series_less_than_the_limit_is_none_of_the_others():
    durations = Durations("took_seconds", "Time.", ["route"], BOUNDS, 2)
    for route in ("a", "b", "a"):
        durations.observe((route,), 1.0)
    (family,) = durations.collect()
    counts = {s.labels["route"]: s.value for s in family.samples if s.name.endswith("_count")}
    assert counts == {"a": 2, "b": 1}
    assert (family.name, family.documentation) == ("took_seconds", "Time.")
