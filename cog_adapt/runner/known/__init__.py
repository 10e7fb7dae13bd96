"""The runner's caches of earlier work: adaptations by content, features, requests, receipts."""
