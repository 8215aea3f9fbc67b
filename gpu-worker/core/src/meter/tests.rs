use proptest::prelude::*;

use super::*;

fn tenant(number: u64) -> Tenant {
    format!("t{number}").parse().unwrap()
}

#[test]
fn overlap_is_active_once_and_waiting_is_starvation() {
    let mut meter = Meter::new(0, Incarnation(1), 0, 4, false);
    meter.open(SessionId(1), &tenant(1));
    let slice = |device_ns| SliceUse {
        session: SessionId(1),
        device_ns,
        launches: 1,
        sm_ns: 4 * device_ns,
        kernels: &[KernelTime {
            key: KernelKey(7),
            count: 1,
            total_ns: 10,
            sm_ns: 40,
            least_ns: 10,
            most_ns: 10,
        }],
    };
    meter.waiting(50, true);
    meter.completed(100, &slice(80));
    meter.waiting(110, false);
    meter.completed(120, &slice(90));
    meter.completed(200, &slice(10));
    let usage = meter.usage(200, &Pager::new(0));
    assert_eq!((usage.active_ns, usage.starved_ns), (80 + 20 + 10, 60));
    assert_eq!((usage.sm_ns, usage.elapsed_ns), (4 * 180, 200));
    let measured = meter.measured().unwrap();
    assert_eq!(
        (measured.kernels[0].count, measured.kernels[0].total_ns),
        (3, 30)
    );
    assert_eq!(meter.measured(), None);
}

#[test]
fn a_parked_slice_is_active_while_it_runs() {
    let mut meter = Meter::new(0, Incarnation(1), 0, 1, true);
    meter.open(SessionId(1), &tenant(1));
    let slice = |device_ns| SliceUse {
        session: SessionId(1),
        device_ns,
        launches: 1,
        sm_ns: device_ns,
        kernels: &[],
    };
    // The long slice ran from 0 to 50 and from 60 to 110; the other came at 40.
    meter.waiting(40, true);
    meter.completed(60, &slice(10));
    meter.waiting(60, false);
    meter.completed(110, &slice(100));
    let usage = meter.usage(200, &Pager::new(0));
    assert_eq!((usage.active_ns, usage.starved_ns), (110, 20));
}

#[test]
fn nobody_starves_beside_an_idle_device() {
    let mut meter = Meter::new(0, Incarnation(1), 0, 1, true);
    meter.open(SessionId(1), &tenant(1));
    let slice = SliceUse {
        session: SessionId(1),
        device_ns: 10,
        launches: 1,
        sm_ns: 10,
        kernels: &[],
    };
    // A launch waits all the time, and the device works a tenth of it.
    meter.waiting(0, true);
    for end in 1..=10 {
        meter.completed(end * 100, &slice);
    }
    let usage = meter.usage(1_050, &Pager::new(0));
    assert_eq!((usage.active_ns, usage.starved_ns), (100, 100));
    // Waiting beside the idle device counts against no later slice.
    meter.waiting(1_100, false);
    meter.completed(1_200, &slice);
    meter.completed(1_300, &slice);
    let usage = meter.usage(1_300, &Pager::new(0));
    assert_eq!((usage.active_ns, usage.starved_ns), (120, 110));
}

proptest! {
    /// I10: rows add up to the device's totals, however many sessions come and go.
    #[test]
    fn credits_are_conserved(
        slices in prop::collection::vec((0..40_u64, 0..1_000_u64, any::<bool>()), 1..400),
    ) {
        let mut meter = Meter::new(0, Incarnation(1), 0, 2, false);
        let mut pager = Pager::new(1 << 30);
        let (mut sum, mut now, mut next) = (0, 0, 0_u64);
        let mut sessions = [0_u64; 40];
        for (slot, device_ns, closes) in slices {
            now += 1_000_000;
            let session = &mut sessions[slot as usize];
            if *session == 0 {
                next += 1;
                *session = next;
                meter.open(SessionId(next), &tenant(slot % 3));
                pager.open(now, SessionId(next), &tenant(slot % 3), 0);
            }
            let id = SessionId(*session);
            sum += 2 * device_ns;
            let used = SliceUse {
                session: id, device_ns, launches: 1, sm_ns: 2 * device_ns, kernels: &[],
            };
            meter.completed(now, &used);
            pager.completed(now, (0, 0), id, device_ns, false);
            if closes {
                meter.close(id, pager.close(now, id));
                *session = 0;
            }
        }
        let usage = meter.usage(now, &pager);
        prop_assert_eq!(usage.sm_ns, sum);
        prop_assert_eq!(usage.sessions.iter().map(|row| row.sm_ns).sum::<u64>(), sum);
        let held: u64 = usage.sessions.iter().map(|row| row.byte_ms).sum();
        prop_assert_eq!(held, pager.device().byte_ms(now));
        let resident: u64 = usage.sessions.iter().map(|row| row.resident).sum();
        prop_assert_eq!(resident, pager.device().resident);
    }
}

#[test]
fn old_sessions_are_added_up_by_tenant() {
    let mut meter = Meter::new(0, Incarnation(1), 0, 1, false);
    let count = CLOSED_ROWS as u64 + 10;
    for number in 1..=count {
        meter.open(SessionId(number), &tenant(number % 2));
        let used = SliceUse {
            session: SessionId(number),
            device_ns: 5,
            launches: 1,
            sm_ns: 5,
            kernels: &[],
        };
        meter.completed(number * 10, &used);
        meter.close(SessionId(number), 1);
    }
    let usage = meter.usage(0, &Pager::new(0));
    assert_eq!(usage.sessions.len(), CLOSED_ROWS + 2);
    let sum = |field: fn(&UsageRow) -> u64| usage.sessions.iter().map(field).sum::<u64>();
    assert_eq!(sum(|row| row.sm_ns), 5 * count);
    assert_eq!(sum(|row| row.byte_ms), count);
    let mut rows = usage.sessions;
    fold(&mut rows, 10);
    assert_eq!(rows.len(), 10, "two of the ten are the tenants' sums");
    assert_eq!(rows.iter().map(|row| row.sm_ns).sum::<u64>(), 5 * count);
}
