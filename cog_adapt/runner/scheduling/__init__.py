"""Who runs next on the model thread: tickets, ticks, fair queues, admission by memory."""
