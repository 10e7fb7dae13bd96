from cog_adapt.server.webhooks.queue import LogThrottle


def test_no_webhook_is_longer_off_than_the_interval():
    throttle = LogThrottle(0.5)
    assert throttle.is_due(10)
    throttle.note(10)
    assert not throttle.is_due(10.4)
    assert throttle.is_due(10.5)
    throttle.note(10.4)  # an output, which carries the logs
    assert not throttle.is_due(10.5)
    assert LogThrottle(0).is_due(0)
