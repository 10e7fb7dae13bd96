"""Accepts, queues, dispatches and records predictions; knows no HTTP."""
