"""Attacks a server of its own on the loopback interface, while another caller asks it: the walk."""
