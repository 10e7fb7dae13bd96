"""The process of the server: its address, its warnings, and its end."""
