//! The feasibility of tenants' targets, judged from the requests and slices that the order has
//! seen, and from each tenant's recent use of each device. It decides nothing; administrators are
//! warned.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{
    Admission, ClusterSettings, Feasibility, GpuId, Incarnation, Tenant, TenantSettings,
};

use crate::policy::longest_ahead;
use crate::scheduler::FlowView;
use crate::time::Nanos;

const SECOND: Nanos = 1_000_000_000;
/// Maximum time over which loads are averaged.
const SPAN: Nanos = 60 * SECOND;
/// Time between two samples of the charges.
const SAMPLE: Nanos = 10 * SECOND;
/// Thousandths of a device that may be promised to targets together.
const PROMISED: u32 = 900;

/// Samples of the charges of each tenant on each GPU.
#[derive(Debug, Default)]
pub(super) struct Loads {
    samples: BTreeMap<(Incarnation, Tenant), VecDeque<(Nanos, u64)>>,
    sampled_at: Nanos,
}

impl Loads {
    /// Samples the charges so far, if it is time. New flows are sampled at once.
    pub(super) fn sample(&mut self, now: Nanos, flows: impl FnOnce() -> Vec<FlowView>) {
        if self.sampled_at > 0 && now < self.sampled_at.saturating_add(SECOND) {
            return;
        }
        self.sampled_at = now;
        let flows = flows();
        let known = |flow: &FlowView| (flow.incarnation, flow.tenant.clone());
        let live: BTreeMap<_, _> = flows.iter().map(|flow| (known(flow), flow)).collect();
        self.samples.retain(|key, _| live.contains_key(key));
        for (key, flow) in live {
            let samples = self.samples.entry(key).or_default();
            let due = samples
                .back()
                .is_none_or(|(at, _)| now >= at.saturating_add(SAMPLE));
            // Before the first charge there is no point to measure from.
            if due && (flow.granted_ns > 0 || !samples.is_empty()) {
                samples.push_back((now, flow.granted_ns));
            }
            while samples
                .get(1)
                .is_some_and(|(at, _)| at.saturating_add(SPAN) <= now)
            {
                samples.pop_front();
            }
        }
    }

    /// Thousandths of a device that a flow was charged recently.
    fn permille(&self, now: Nanos, flow: &FlowView) -> u32 {
        let key = (flow.incarnation, flow.tenant.clone());
        let first = self.samples.get(&key).and_then(|samples| samples.front());
        let Some((at, granted)) = first else {
            return 0;
        };
        let time = now.saturating_sub(*at).max(SECOND);
        let charged = flow.granted_ns.saturating_sub(*granted);
        u32::try_from(u128::from(charged) * 1_000 / u128::from(time)).unwrap_or(u32::MAX)
    }
}

/// One tenant on one GPU.
struct Place<'p> {
    tenant: &'p Tenant,
    settings: &'p TenantSettings,
    gpu: (GpuId, Incarnation),
    request_ns: u64,
    slice_ns: u64,
    load_permille: u32,
}

/// Judges every target of these tenants.
pub(super) fn judge(
    now: Nanos,
    cluster: &ClusterSettings,
    tenants: &BTreeMap<Tenant, TenantSettings>,
    flows: &[FlowView],
    loads: &Loads,
) -> Vec<Admission> {
    let places: Vec<_> = flows
        .iter()
        .filter_map(|flow| {
            let (tenant, settings) = tenants.get_key_value(&flow.tenant)?;
            Some(Place {
                tenant,
                settings,
                gpu: (flow.gpu, flow.incarnation),
                request_ns: flow.request_ns,
                slice_ns: flow.slice_ns,
                load_permille: loads.permille(now, flow),
            })
        })
        .collect();
    let targets = tenants.iter().filter(|(_, settings)| settings.slo_ns > 0);
    let judged = targets.map(|(tenant, settings)| {
        let own = places.iter().filter(|place| place.tenant == tenant);
        let seen = own.filter(|place| place.request_ns > 0);
        let admissions = seen.map(|place| judge_at(place, cluster, &places));
        let unknown = || Admission {
            tenant: tenant.clone(),
            target_ns: settings.slo_ns,
            verdict: Feasibility::Unknown,
            gpu: None,
            request_ns: 0,
            before_ns: 0,
            ahead_ns: 0,
            load_permille: 0,
        };
        let worst = |one: &Admission| (one.verdict, one.request_ns + one.before_ns + one.ahead_ns);
        admissions.max_by_key(worst).unwrap_or_else(unknown)
    });
    judged.collect()
}

/// Judges a target on one GPU.
fn judge_at(place: &Place<'_>, cluster: &ClusterSettings, places: &[Place<'_>]) -> Admission {
    let own = place.settings;
    let others = || {
        let there = places.iter().filter(|other| other.gpu == place.gpu);
        there.filter(|other| other.tenant != place.tenant)
    };
    // More urgent tenants go first, with or without a target; equals go first if they have a target
    // too.
    let goes_before = |other: &&Place<'_>| {
        let equal = other.settings.priority == own.priority && other.settings.slo_ns > 0;
        other.settings.priority < own.priority || equal
    };
    let before_ns = others()
        .filter(goes_before)
        .fold(0u64, |sum, other| sum.saturating_add(other.request_ns));
    let load_permille = others()
        .filter(goes_before)
        .fold(place.load_permille, |sum, other| {
            sum.saturating_add(other.load_permille)
        });
    let below = others().filter(|other| other.settings.priority > own.priority);
    let longest = below.map(|other| other.slice_ns).max().unwrap_or(0);
    let ahead_ns = ahead(own.slo_ns, place.request_ns, longest, cluster);
    let whole = place
        .request_ns
        .saturating_add(before_ns)
        .saturating_add(ahead_ns);
    let verdict = match own.slo_ns {
        target if place.request_ns > target => Feasibility::TooLong,
        target if whole > target => Feasibility::Crowded,
        _ if load_permille > PROMISED => Feasibility::Overloaded,
        _ => Feasibility::Met,
    };
    Admission {
        tenant: place.tenant.clone(),
        target_ns: own.slo_ns,
        verdict,
        gpu: Some(place.gpu.0),
        request_ns: place.request_ns,
        before_ns,
        ahead_ns,
        load_permille,
    }
}

/// Work of lower priorities that an arriving request may find ahead of it, if their longest slice
/// is this. It is a window of theirs, or one long slice that the target lets ahead.
fn ahead(target: u64, request: u64, longest: u64, cluster: &ClusterSettings) -> u64 {
    if longest == 0 {
        return 0;
    }
    let window = match cluster.slo_window_ns {
        0 => cluster.window_ns,
        small => small.min(cluster.window_ns),
    };
    let limit = longest_ahead(target, request, cluster.quantum_ns);
    window.max(longest.min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn name(text: &str) -> Tenant {
        text.parse().unwrap()
    }

    fn flow(tenant: &str, gpu: u64, request_ns: u64, slice_ns: u64) -> FlowView {
        FlowView {
            tenant: name(tenant),
            incarnation: Incarnation(gpu),
            gpu: gpu as u32,
            request_ns,
            slice_ns,
            granted_ns: 0,
        }
    }

    fn set(priority: u8, slo_ns: u64) -> TenantSettings {
        TenantSettings {
            priority,
            slo_ns,
            ..TenantSettings::default()
        }
    }

    fn verdict_of(tenants: &[(&str, u8, u64)], flows: &[FlowView]) -> Vec<Admission> {
        let tenants = tenants
            .iter()
            .map(|(tenant, priority, slo)| (name(tenant), set(*priority, *slo)));
        let cluster = ClusterSettings::default();
        judge(0, &cluster, &tenants.collect(), flows, &Loads::default())
    }

    #[test]
    fn a_request_alone_may_be_too_long_or_not_known() {
        let chat = [("chat", 0, 5 * MS)];
        let judged = verdict_of(&chat, &[]);
        assert_eq!(
            (judged[0].verdict, judged[0].gpu),
            (Feasibility::Unknown, None)
        );
        let judged = verdict_of(&chat, &[flow("chat", 1, 0, 0)]);
        assert_eq!(judged[0].verdict, Feasibility::Unknown, "no request yet");
        let judged = verdict_of(&chat, &[flow("chat", 1, 5 * MS, 0)]);
        assert_eq!(judged[0].verdict, Feasibility::Met);
        let flows = [flow("chat", 1, 5 * MS, 0), flow("chat", 2, 5 * MS + 1, 0)];
        let judged = verdict_of(&chat, &flows);
        assert_eq!(judged[0].verdict, Feasibility::TooLong);
        assert_eq!(judged[0].gpu, Some(2), "where it fares worst");
        assert!(verdict_of(&[("chat", 0, 0)], &flows).is_empty());
    }

    #[test]
    fn what_goes_before_and_what_is_let_ahead_count_on_the_same_gpu() {
        let tenants = [
            ("chat", 1, 10 * MS),
            ("peer", 1, 60 * MS),
            ("root", 0, 0),
            ("train", 4, 0),
        ];
        let flows = [
            flow("chat", 1, 4 * MS, MS),
            flow("peer", 1, 2 * MS, MS),
            flow("root", 1, MS, MS),
            flow("train", 1, 90 * MS, 2 * MS),
            flow("peer", 2, 50 * MS, MS),
        ];
        let judged = verdict_of(&tenants, &flows);
        let chat = &judged[0];
        assert_eq!((chat.before_ns, chat.ahead_ns), (3 * MS, 2 * MS));
        assert_eq!(chat.verdict, Feasibility::Met, "9 of 10 ms");
        // A kernel of a minute is kept away, except for half of the slack.
        let mut flows = flows;
        flows[3].slice_ns = 60_000 * MS;
        let judged = verdict_of(&tenants, &flows);
        assert_eq!(judged[0].ahead_ns, 3 * MS);
        assert_eq!(judged[0].verdict, Feasibility::Met, "10 of 10 ms");
        flows[2].request_ns += 1;
        let judged = verdict_of(&tenants, &flows);
        assert_eq!(judged[0].verdict, Feasibility::Crowded);
        assert_eq!(judged[1].verdict, Feasibility::Met);
        assert_eq!(judged[1].gpu, Some(2));
    }

    #[test]
    fn loads_are_means_of_the_last_minute_and_add_up() {
        let mut loads = Loads::default();
        let at = |second: u64, percent: [u64; 2]| {
            let mut flows = [flow("chat", 1, MS, MS), flow("peer", 1, MS, MS)];
            for (flow, percent) in flows.iter_mut().zip(percent) {
                // One second's work was charged before the first sample.
                flow.granted_ns = (second + 1) * SECOND / 100 * percent;
            }
            flows.to_vec()
        };
        for second in 1..=200 {
            loads.sample(second * SECOND, || at(second, [50, 41]));
        }
        let now = 200 * SECOND;
        let flows = at(200, [50, 41]);
        assert_eq!(loads.permille(now, &flows[0]), 500);
        let samples = &loads.samples[&(Incarnation(1), name("chat"))];
        assert!(samples.len() <= 8, "{}", samples.len());
        let tenants = [("chat", 2, 100 * MS), ("peer", 1, 100 * MS)];
        let tenants = tenants.map(|(tenant, priority, slo)| (name(tenant), set(priority, slo)));
        let cluster = ClusterSettings::default();
        let judged = judge(now, &cluster, &tenants.into(), &flows, &loads);
        let figures = judged.iter().map(|one| (one.verdict, one.load_permille));
        assert_eq!(
            figures.collect::<Vec<_>>(),
            [(Feasibility::Overloaded, 910), (Feasibility::Met, 410)]
        );
        // After a minute without work, no load is left.
        for second in 201..=280 {
            loads.sample(second * SECOND, || at(200, [50, 41]));
        }
        assert_eq!(loads.permille(280 * SECOND, &flows[0]), 0);
        loads.sample(300 * SECOND, Vec::new);
        assert!(loads.samples.is_empty(), "who is gone is forgotten");
    }
}
