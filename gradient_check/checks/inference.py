"""Step 4: checks that the base serves, and gives the same answer twice."""

from gradient_check.checks.operation import Operation, close
from gradient_check.findings.examination import Numbers, describe
from gradient_check.findings.report import some
from gradient_check.instruments.draws import judge_noise
from gradient_check.phases.census import Census, count_hooks


def judge_inference(operation: Operation) -> Numbers:
    """Run inference first, as in production, so that it fills all caches."""
    flow = operation.flow
    subject, exam = flow.subject, flow.exam
    try:
        operation.served = subject.serve(subject.base, subject.seed)
        _note_hooks(operation)
        again = subject.serve(subject.base, subject.seed)
        unseeded = subject.serve(subject.base, row_seed=subject.seed + 1)
    except Exception as error:  # noqa: BLE001 - the code under test may raise anything
        place = flow.diagnosis.forward.raised(error)
        exam.add(
            "FAIL" if place.module else "WARN",
            "serve",
            f"inference under {subject.options.serve_mode} raised {describe(error)}.",
            module=place.module,
            line=place.line,
        )
        return {}
    if not close(operation.served, again, operation.same):
        exam.add("WARN", "nondeterministic", "two inferences with the same seed differ.")
    elif not close(operation.served, unseeded, operation.same):
        operation.draws = judge_noise(subject, exam)
    if not exam.has("nondeterministic"):
        exam.grounds.add("served")
    return {}


def _note_hooks(operation: Operation) -> None:
    """Warn of hooks that the first inference has set; later ones count as changes."""
    base = operation.flow.subject.base
    before = {name: part.hooks for name, part in operation.census.modules.items()}
    now = count_hooks(base)
    added = [name or "(root)" for name, hooks in now.items() if hooks > before[name]]
    if added:
        operation.census = Census.of(base)
        operation.flow.exam.add(
            "WARN",
            "late-hooks",
            f"the first inference set hooks on {some(added)}. Set hooks once, when the module is "
            "built: a serving process takes a later hook for damage to its base.",
        )
