"""A walk through each deployment, as a new operator does it.

watching.py    Prometheus, a load, and what the dashboard's panels answer; the tests have it too
walk.py        the steps, the same for each deployment
alone.py       one server, and several behind HAProxy
containers.py  Docker and Compose
under_ray.py   Ray Serve
page.py        the table of `docs/results/deployments.md`
"""
