"""The documents as a site: gathers the pages, writes those that the code implies, builds."""
