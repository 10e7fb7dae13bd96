"""The alerts and the dashboard: Prometheus takes them, each fires when it should, and only then."""

import json
import re
from typing import Any

import pytest
import yaml

from tests.cog_adapt.deploy.operators import DEPLOY, ROOT, run

FOLDER = DEPLOY / "monitoring"
RULES = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((FOLDER / "grafana/dashboard.json").read_text())
METRICS = (ROOT / "tests/contract_snapshot/data/metrics.txt").read_text()
OF_PROMETHEUS = {"up", "process_resident_memory_bytes"}
JOB = 'instance="a", job="cog-adapt"'
PHASE = f'cog_prediction_duration_seconds_bucket{{{JOB}, phase="queue", le='
TICK = f"cog_model_adaptation_tick_seconds_bucket{{{JOB}, le="
UP = {f"up{{{JOB}}}": "1x40"}
CASES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "CogServerDown": ({f"up{{{JOB}}}": "0x40"}, UP),
    "CogModelNotReady": (UP, UP | {f'cog_model_info{{{JOB}, task="Text"}}': "1x40"}),
    "CogSelfTestFailed": (
        {f"cog_self_test_passed{{{JOB}}}": "0x40"},
        {f"cog_self_test_passed{{{JOB}}}": "1x40"},
    ),
    "CogModelCrashes": (
        {f"cog_model_process_crashes_total{{{JOB}}}": "0+1x40"},
        {f"cog_model_process_crashes_total{{{JOB}}}": "0x20 2x20"},
    ),
    "CogQueueSlow": (
        {f'{PHASE}"30"}}': "0+8x40", f'{PHASE}"60"}}': "0+10x40", f'{PHASE}"+Inf"}}': "0+10x40"},
        {f'{PHASE}"30"}}': "0+10x40", f'{PHASE}"60"}}': "0+10x40", f'{PHASE}"+Inf"}}': "0+10x40"},
    ),
    "CogRefusesRequests": (
        {
            f'cog_predictions_rejected_total{{{JOB}, reason="queue full"}}': "0+1x40",
            f'cog_http_requests_total{{{JOB}, method="POST"}}': "0+10x40",
        },
        {
            f'cog_predictions_rejected_total{{{JOB}, reason="queue full"}}': "0+1x40",
            f'cog_http_requests_total{{{JOB}, method="POST"}}': "0+100x40",
        },
    ),
    "CogPredictionsFail": (
        {
            f'cog_predictions_finished_total{{{JOB}, status="failed"}}': "0+2x40",
            f'cog_predictions_finished_total{{{JOB}, status="succeeded"}}': "0+10x40",
        },
        {
            f'cog_predictions_finished_total{{{JOB}, status="failed"}}': "0+1x40",
            f'cog_predictions_finished_total{{{JOB}, status="succeeded"}}': "0+10x40",
        },
    ),
    "CogTicksLong": (
        {f'{TICK}"5"}}': "0+90x40", f'{TICK}"10"}}': "0+100x40", f'{TICK}"+Inf"}}': "0+100x40"},
        {f'{TICK}"5"}}': "0+100x40", f'{TICK}"10"}}': "0+100x40", f'{TICK}"+Inf"}}': "0+100x40"},
    ),
    "CogBudgetNearlyFull": (
        {
            f'cog_budget_used_bytes{{{JOB}, budget="records"}}': "95x40",
            f'cog_budget_limit_bytes{{{JOB}, budget="records"}}': "100x40",
        },
        {
            f'cog_budget_used_bytes{{{JOB}, budget="records"}}': "95x40",
            f'cog_budget_limit_bytes{{{JOB}, budget="records"}}': "0x40",  # not watched
        },
    ),
    "CogRecordsNotWritten": (
        {f"cog_record_errors_total{{{JOB}}}": "0+1x40"},
        {f"cog_record_errors_total{{{JOB}}}": "7x40"},
    ),
    "CogWebhooksFail": (
        {
            f'cog_webhooks_total{{{JOB}, event="completed", outcome="retry"}}': "0+3x40",
            f'cog_webhooks_total{{{JOB}, event="completed", outcome="delivered"}}': "0+10x40",
        },
        {
            f'cog_webhooks_total{{{JOB}, event="completed", outcome="retry"}}': "0+1x40",
            f'cog_webhooks_total{{{JOB}, event="completed", outcome="delivered"}}': "0+10x40",
        },
    ),
}
MINUTE = 38  # the longest `for` and the longest window are over
expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


def labels_of(alert: str) -> dict[str, str]:
    """The labels that the series of a case leave on its alert."""
    (rule,) = [each for each in RULES if each["alert"] == alert]
    keeps_all = "by (instance" not in rule["expr"]
    kept = {"instance": "a"} | ({"job": "cog-adapt"} if keeps_all else {})
    return kept | ({"budget": "records"} if "budget" in alert.lower() else {}) | rule["labels"]


def expected(alert: str) -> list[dict[str, Any]]:
    (rule,) = [each for each in RULES if each["alert"] == alert]
    said = {"{{ $labels.instance }}": "a", "{{ $labels.budget }}": "records"}
    texts = {name: text for name, text in rule["annotations"].items()}
    for before, after in said.items():
        texts = {name: text.replace(before, after) for name, text in texts.items()}
    return [{"exp_labels": labels_of(alert), "exp_annotations": texts}]


@pytest.mark.parametrize("is_bad", [True, False], ids=["bad", "well"])
@pytest.mark.parametrize("alert", CASES)
def test_an_alert_fires_when_it_should_and_only_then(alert, is_bad, tmp_path):
    series = CASES[alert][not is_bad]
    asked = {"eval_time": f"{MINUTE}m", "alertname": alert}
    asked |= {"exp_alerts": expected(alert) if is_bad else []}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [asked],
    }
    file = tmp_path / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FOLDER / "alerts.yml")], "tests": [test]}))
    done = run("promtool", "test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_its_cases_and_its_runbook():
    names = [rule["alert"] for rule in RULES]
    assert names == [*CASES]
    text = (ROOT / "docs/monitoring.md").read_text()
    assert re.findall(r"^### (Cog\w+)$", text, re.MULTILINE) == names
    for rule in RULES:
        assert rule["annotations"]["runbook"] == f"docs/monitoring.md#{rule['alert'].lower()}"


def test_prometheus_takes_its_configuration():
    done = run("promtool", "check", "config", FOLDER / "prometheus.yml")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("expression", [*(rule["expr"] for rule in RULES), *expressions])
def test_only_metrics_that_the_server_has_are_asked_for(expression):
    known = set(re.findall(r"\bcog_\w+", METRICS))
    for name in re.findall(r"\b(?:cog|process)_\w+|\bup\b", expression):
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        assert {name, family} & (known | OF_PROMETHEUS | {"cog_adapt"}), name


def test_panels_are_unique_and_name_no_data_source_of_their_own():
    panels = DASHBOARD["panels"]
    assert (
        len({panel["id"] for panel in panels}) == len({p["title"] for p in panels}) == len(panels)
    )
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert all(
        each["datasource"] == source for panel in panels for each in (panel, *panel["targets"])
    )
    variables = [each["name"] for each in DASHBOARD["templating"]["list"]]
    assert variables == ["datasource", "instance"]
