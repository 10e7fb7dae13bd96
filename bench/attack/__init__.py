"""Attacks a server of its own on the loopback interface while another caller uses it: the walk."""
