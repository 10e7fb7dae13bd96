"""The database of predictions, trainings and webhook deliveries."""

from cog_adapt.server.records.neighbours import AdapterFolder
from cog_adapt.server.records.record import Delivery, Page, Record
from cog_adapt.server.records.store import Records

__all__ = ["AdapterFolder", "Delivery", "Page", "Record", "Records"]
