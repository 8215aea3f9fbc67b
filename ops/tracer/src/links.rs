//! The slices of other tenants that a slice waited for. Only those of kept traces can be linked to, and only if their
//! requests were reported before.

use std::collections::{HashMap, VecDeque};

use bus_schemas::{GpuId, Tenant, TraceContext};

use crate::ids::{Ids, execution_of, trace_of};
use crate::join::{Joined, Part};
use crate::slices::with_own_spans;
use crate::timeline::Stretch;

/// Maximum number of slices of one tenant on one device that are kept.
const KEPT: usize = 256;
/// Maximum number of tenants on devices with slices.
const PLACES: usize = 1_024;
/// Maximum number of links of one span.
const LINKS: usize = 8;

/// A slice of a kept trace.
#[derive(Debug)]
struct Slice {
    span: TraceContext,
    /// Start and end on the device, by the record's clock.
    ran: Stretch,
}

/// The newest slices of kept traces, by device and tenant.
#[derive(Debug, Default)]
pub(crate) struct Links {
    places: HashMap<GpuId, HashMap<Tenant, VecDeque<Slice>>>,
    /// Number of devices' tenants.
    count: usize,
}

impl Links {
    /// Adds the slices of a request that is kept.
    pub(crate) fn add<T>(&mut self, joined: &Joined<T>, ids: &Ids) {
        let request = &joined.request;
        let trace = trace_of(request, ids);
        for part in with_own_spans(&joined.parts) {
            let device = self.places.entry(part.gpu).or_default();
            if !device.contains_key(&request.tenant) {
                if self.count >= PLACES {
                    continue;
                }
                self.count += 1;
                device.insert(request.tenant.clone(), VecDeque::new());
            }
            let Some(slices) = device.get_mut(&request.tenant) else {
                continue;
            };
            slices.push_back(Slice {
                span: TraceContext {
                    trace,
                    span: execution_of(request, part, ids),
                    sampled: true,
                },
                ran: (part.timing.started, part.timing.ended),
            });
            if slices.len() > KEPT {
                slices.pop_front();
            }
        }
    }

    /// Forgets the slices that ended before a time, by the record's clock.
    pub(crate) fn forget(&mut self, before: u64) {
        for device in self.places.values_mut() {
            device.retain(|_, slices| {
                while slices
                    .pop_front_if(|oldest| oldest.ran.1 < before)
                    .is_some()
                {}
                !slices.is_empty()
            });
        }
        self.places.retain(|_, device| !device.is_empty());
        self.count = self.places.values().map(HashMap::len).sum();
    }

    /// The spans that a slice of a tenant waited for. For each other tenant that its causes name, the longest wait
    /// first, it is the known slice that ran longest during the wait.
    pub(crate) fn of(&self, tenant: &Tenant, part: &Part) -> Vec<TraceContext> {
        let Some(device) = self.places.get(&part.gpu) else {
            return Vec::new();
        };
        let wait = (part.timing.announced, part.timing.started);
        let mut named = Vec::new();
        for wait in &part.timing.waits {
            let of = wait.of.as_ref().filter(|of| wait.ns > 0 && *of != tenant);
            if let Some(of) = of
                && named.len() < LINKS
                && !named.contains(&of)
            {
                named.push(of);
            }
        }
        let longest = |of: &Tenant| {
            let slices = device.get(of)?.iter();
            let met = slices.map(|it| (overlap(it.ran, wait), it.span));
            let met = met.filter(|(ns, _)| *ns > 0);
            met.max_by_key(|(ns, _)| *ns).map(|(_, span)| span)
        };
        named.into_iter().filter_map(longest).collect()
    }
}

/// Nanoseconds that two stretches have in common.
fn overlap(one: Stretch, other: Stretch) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::Join;
    use crate::join::tests::{position, request};

    fn joined(tenant: &str, session: u64, announced: u64) -> Joined<u8> {
        let mut join = Join::new();
        join.is_read(0);
        join.position(&position(tenant, session, (1, 4), announced));
        join.request(request(tenant, session, (1, 4)), 0, 1);
        join.due(1).remove(0)
    }

    fn ids() -> Ids {
        Ids::new(&"lab".parse().expect("a name"))
    }

    /// Links of a slice of the tenant chat that waits from 1,100 to 1,200 for the tenant "other".
    fn links(ran: &[(&str, u64, u64)]) -> Vec<TraceContext> {
        let mut links = Links::default();
        for (tenant, session, announced) in ran {
            links.add(&joined(tenant, *session, *announced), &ids());
        }
        let chat = joined("chat", 1, 1_100);
        links.add(&chat, &ids());
        links.of(&chat.request.tenant, &chat.parts[0])
    }

    #[test]
    fn a_slice_is_linked_to_the_one_that_ran_longest_while_it_waited() {
        // Each runs from 100 to 150 after its announcement.
        let ran = [("other", 2, 960), ("other", 3, 1_020), ("third", 4, 1_020)];
        let other = joined("other", 3, 1_020);
        let span = execution_of(&other.request, &other.parts[0], &ids());
        let trace = trace_of(&other.request, &ids());
        let found = links(&ran);
        let [link] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((link.trace, link.span), (trace, span));
    }

    #[test]
    fn without_a_kept_trace_of_that_time_there_is_no_link() {
        assert_eq!(links(&[]), []);
        assert_eq!(links(&[("third", 2, 1_020), ("other", 3, 1_500)]), []);
    }

    #[test]
    fn the_oldest_slices_are_forgotten() {
        let mut kept = Links::default();
        for session in 1..=3 * KEPT as u64 {
            kept.add(&joined("other", session, 1_020), &ids());
        }
        let slices = |kept: &Links| -> usize {
            let devices = kept.places.values().flat_map(HashMap::values);
            devices.map(VecDeque::len).sum()
        };
        assert_eq!(slices(&kept), KEPT);
        // They ended at 1,170.
        kept.forget(1_170);
        assert_eq!((slices(&kept), kept.count), (KEPT, 1));
        kept.forget(1_171);
        assert_eq!((slices(&kept), kept.count), (0, 0));
    }
}
