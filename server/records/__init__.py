"""The database of predictions, trainings and webhook deliveries."""

from server.records.record import Delivery, Page, Record, RecordsError, TakenOverError
from server.records.store import Records

__all__ = ["Delivery", "Page", "Record", "Records", "RecordsError", "TakenOverError"]
