"""The commands that start a server or speak to one; they know no runner and no model."""
