"""The gradient self-test: checks every trained parameter's gradient and finds causes of faults.

The names below are fetched from their modules when they are first asked for (PEP 562): pytest
loads `pytest_plugin` in every run, and a run that checks no gradients must not wait for torch.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cog_adapt.runner.gradients.check import check_gradients as check_gradients
    from cog_adapt.runner.gradients.report import Check as Check
    from cog_adapt.runner.gradients.report import Finding as Finding
    from cog_adapt.runner.gradients.report import GradientReport as GradientReport

_MODULES = {"Check": "report", "Finding": "report", "GradientReport": "report"}
_MODULES["check_gradients"] = "check"
__all__ = ["Check", "Finding", "GradientReport", "check_gradients"]

if not TYPE_CHECKING:  # a type checker knows the names above, and that there are no others

    def __getattr__(name: str) -> object:
        """Return the public name, imported from its module."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
