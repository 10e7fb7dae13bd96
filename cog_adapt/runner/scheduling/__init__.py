"""The order of work on the model thread: tickets, ticks, fair queues, admission by memory."""
