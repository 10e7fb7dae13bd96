"""The application: `serve run deploy.ray.app:app`, and `import_path` of a config file."""

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy

from cog_adapt.server.settings import read_settings
from deploy.ray.options import Options
from deploy.ray.replica import WholeServer
from deploy.ray.scaling import replicas_for_work

_MOST_REQUESTS = 8192  # the server has limits of its own, and answers 429 where Ray would say 503


def app(options: Options) -> Application:
    """Return the application that Ray Serve runs.

    Raises:
        ConfigError: a setting is wrong.
    """
    settings = read_settings()
    options = options.with_drain(settings)
    deployment = serve.deployment(
        name="server",
        max_ongoing_requests=settings.max_connections or _MOST_REQUESTS,
        graceful_shutdown_timeout_s=options.seconds_to_end,
        ray_actor_options={"num_gpus": options.num_gpus, "num_cpus": options.num_cpus},
        autoscaling_config=AutoscalingConfig(
            min_replicas=options.min_replicas,
            max_replicas=options.max_replicas,
            target_ongoing_requests=options.work_per_replica,
            policy=AutoscalingPolicy(policy_function=replicas_for_work),
        ),
    )
    return deployment(serve.ingress()(WholeServer)).bind(options)
