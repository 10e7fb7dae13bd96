"""Proves that gradients flow: checks every trained parameter's gradient and names causes of faults.

`check.py` runs the whole check of one module. The rooms, each of which imports only those below it:

    hooks/         the check inside pytest, Lightning and the `Trainer` of transformers
    checks/        one property of a flow of gradients each, in the order of the report
    diagnosis/     finds the module and the line behind a fault, after a failure
    instruments/   move, hold, perturb and read a copy of the module under test
    findings/      the findings, and the report
    phases/        the training and inference of a model: the proved code is the code that adapts

The names below are imported from their modules at their first use (PEP 562): pytest loads
`hooks.pytest_plugin` in every run, and a run without gradient checks must not wait for torch.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gradient_check.check import check_gradients as check_gradients
    from gradient_check.findings.report import Check as Check
    from gradient_check.findings.report import Finding as Finding
    from gradient_check.findings.report import GradientReport as GradientReport
    from gradient_check.phases.errors import GradientFlowError as GradientFlowError

_MODULES = {
    "Check": "findings.report",
    "Finding": "findings.report",
    "GradientFlowError": "phases.errors",
    "GradientReport": "findings.report",
    "check_gradients": "check",
}
__all__ = ["Check", "Finding", "GradientFlowError", "GradientReport", "check_gradients"]
__version__ = "0.1.0"

if not TYPE_CHECKING:  # a type checker knows the names above, and reports any other name

    def __getattr__(name: str) -> object:
        """Return the public name, imported from its module."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
