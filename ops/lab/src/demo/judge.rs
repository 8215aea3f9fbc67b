//! The judgement of the tenants' reports and of the use in a demo. Pure functions.

use admin::evidence::EvidenceCheck;
use bus_schemas::Usage;

use super::plan::TenantPlan;
use super::report::{ClusterReport, TenantReport, UsageByWorker};
use super::tenant::Heard;

/// Growth of the workers' totals during the demo, summed over workers.
pub(super) fn grown(used: (&UsageByWorker, &UsageByWorker), of: impl Fn(&Usage) -> u64) -> u64 {
    let before = |worker| used.0.get(worker).map_or(0, &of);
    used.1
        .iter()
        .map(|(worker, usage)| of(usage).saturating_sub(before(worker)))
        .sum()
}

/// The tenants' results.
pub(super) fn tenant_reports(
    plans: &[TenantPlan],
    heard: &[Heard],
    used: (&UsageByWorker, &UsageByWorker),
) -> Vec<TenantReport> {
    let of_tenant = |tenant: &str, of: fn(&bus_schemas::UsageRow) -> u64| {
        grown(used, |usage| {
            let rows = usage
                .sessions
                .iter()
                .filter(|row| row.tenant.as_str() == tenant);
            rows.map(of).sum()
        })
    };
    let device_ns: Vec<u64> = plans
        .iter()
        .map(|plan| of_tenant(plan.tenant.as_str(), |row| row.device_ns))
        .collect();
    let whole: u64 = device_ns.iter().sum::<u64>().max(1);
    let entries = plans.iter().zip(heard).zip(device_ns);
    entries
        .map(|((plan, heard), device_ns)| TenantReport {
            tenant: plan.tenant.to_string(),
            workload: plan.workload.clone(),
            priority: plan.settings.priority,
            weight: plan.settings.weight,
            launches: heard.launches,
            requests: heard.latencies.len() as u64,
            p50_ms: heard.quantile_ms(0.5),
            p99_ms: heard.quantile_ms(0.99),
            device_share: device_ns as f64 / whole as f64,
            core_credits: of_tenant(plan.tenant.as_str(), |row| row.sm_ns) as f64 / 1e9,
            vram_credits: of_tenant(plan.tenant.as_str(), |row| row.byte_ms) as f64
                / (f64::from(1 << 30) * 1e3),
            verified: heard.verified,
        })
        .collect()
}

/// Failed checks, one sentence each.
pub(super) fn complaints(
    tenants: &[TenantReport],
    heard: &[Heard],
    cluster: &ClusterReport,
    check: &EvidenceCheck,
) -> Vec<String> {
    let mut complaints = check.disagreements.clone();
    for (tenant, heard) in tenants.iter().zip(heard) {
        if tenant.requests == 0 || tenant.verified != tenant.requests || !heard.stopped {
            complaints.push(format!(
                "{}: {} of {} requests verified {}",
                tenant.tenant,
                tenant.verified,
                tenant.requests,
                heard.complaints.join("; ")
            ));
        }
    }
    let faults = (cluster.lost, cluster.duplicated, cluster.reordered);
    if faults != (0, 0, 0) {
        complaints.push(format!("lost / run twice / out of order: {faults:?}"));
    }
    if cluster.digest != cluster.replay_digest {
        let other = cluster.workers.iter().filter(|worker| !worker.same);
        let other = other.map(|worker| format!("gpu {} worker {}", worker.gpu, worker.incarnation));
        let other = other.collect::<Vec<_>>().join(", ");
        complaints.push(format!(
            "the replay arrives at another launch order: {other}"
        ));
    }
    complaints
}
