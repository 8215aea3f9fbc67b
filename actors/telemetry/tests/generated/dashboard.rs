//! The dashboard for Grafana.

mod panels;

use panels::{Panel, rows};
use serde_json::{Value, json};

/// All queries.
pub(crate) fn queries() -> Vec<String> {
    let rows = rows().into_iter().flat_map(|(_, panels)| panels);
    let queries = rows.flat_map(|panel| panel.queries);
    queries.map(|(query, _)| query).collect()
}

/// The dashboard's text.
pub(crate) fn text() -> String {
    let mut panels = Vec::new();
    let mut y = 0;
    for (title, row) in rows() {
        let id = panels.len() + 1;
        let place = json!({"x": 0, "y": y, "w": 24, "h": 1});
        panels.push(
            json!({"id": id, "type": "row", "title": title, "gridPos": place,
            "collapsed": false, "panels": []}),
        );
        y += 1;
        for (index, panel) in row.iter().enumerate() {
            let place = json!({"x": index % 3 * 8, "y": y + index / 3 * 8, "w": 8, "h": 8});
            panels.push(shown(panel, panels.len() + 1, place));
        }
        y += row.len().div_ceil(3) * 8;
    }
    let dashboard = json!({
        "uid": "warploom",
        "title": "Warploom",
        "description": "Made by `just bless` from actors/telemetry/tests/generated/dashboard.rs.",
        "tags": ["warploom"],
        "schemaVersion": 39,
        "editable": true,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables()},
        "panels": panels,
    });
    // A JSON value always serializes.
    serde_json::to_string_pretty(&dashboard).unwrap_or_default() + "\n"
}

fn variables() -> Value {
    json!([
        {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
        {
            "name": "cluster", "label": "Cluster", "type": "query", "datasource": source(),
            "definition": "label_values(target_info, warploom_cluster)",
            "query": {"query": "label_values(target_info, warploom_cluster)", "refId": "cluster"},
            "includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1,
            "current": {"text": "All", "value": "$__all"},
        },
    ])
}

fn source() -> Value {
    json!({"type": "prometheus", "uid": "${source}"})
}

fn shown(panel: &Panel, id: usize, place: Value) -> Value {
    let targets = panel
        .queries
        .iter()
        .zip('A'..)
        .map(|((query, legend), name)| {
            json!({"refId": name.to_string(), "datasource": source(), "expr": query,
            "legendFormat": legend, "range": true})
        });
    json!({
        "id": id,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.help,
        "datasource": source(),
        "gridPos": place,
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"fillOpacity": 10, "showPoints": "never"}},
            "overrides": [],
        },
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets.collect::<Vec<_>>(),
    })
}
