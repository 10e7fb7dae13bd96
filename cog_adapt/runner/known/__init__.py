"""What the runner remembers: adaptations by content, features, requests, receipts."""
