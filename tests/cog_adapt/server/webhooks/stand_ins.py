"""What a deliverer needs around it, without a network or a database."""

import asyncio

from cog_adapt.server.egress import Answer
from cog_adapt.server.errors import StorageError


class Receiver:
    """In place of the way out: answers in turn, and notes what is posted."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.posts = []
        self.open = asyncio.Event()
        self.open.set()

    async def post(self, url, body, headers, *, timeout):
        self.posts.append((url, body, headers, timeout))
        await self.open.wait()
        answer = self.answers.pop(0) if self.answers else Answer(200, {})
        if isinstance(answer, Exception):
            raise answer
        return answer


class Kept:
    """In place of the records."""

    def __init__(self, *due, failures=0):
        self.due, self.failures = list(due), failures
        self.saved, self.asked = [], []
        self.while_reading = lambda: None

    async def due_deliveries(self, now, limit, but=(), but_owners=()):
        found = [each for each in self.due if each.id not in but][:limit]
        self.asked.append(limit)
        self.while_reading()
        if self.failures:
            raise StorageError("down")
        return found

    async def update_delivery(self, delivery):
        if self.failures:
            self.failures -= 1
            raise StorageError("down")
        self.saved.append(delivery)
