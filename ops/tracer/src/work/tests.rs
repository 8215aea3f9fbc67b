use std::sync::OnceLock;

use bus_schemas::KernelKey;
use proptest::prelude::*;

use super::*;
use crate::join::tests::{position, request};
use crate::join::{Join, Joined};

fn part(work: &[Ran]) -> Part {
    let mut join = Join::new();
    join.is_read(0);
    join.position(&position("chat", 1, (1, 1), 1_000));
    join.request(request("chat", 1, (1, 1)), 0, 1);
    let joined: Joined<u8> = join.due(1).remove(0);
    let mut part = Part::clone(&joined.parts[0]);
    part.work = work.into();
    part
}

fn run(class: CostClass, bytes: u64) -> Ran {
    Ran {
        class,
        key: KernelKey(0),
        ops: 1,
        bytes,
    }
}

fn kernels() -> &'static Kernels {
    static KERNELS: OnceLock<Kernels> = OnceLock::new();
    let named = [
        (7, "softmax", 10),
        (8, "matmul", 1_000),
        (9, "_Z5scalePfi", 10),
    ];
    KERNELS.get_or_init(|| Kernels::with(&named))
}

fn work(runs: &[Ran], loads: u64) -> Work<'static> {
    Work::new(&part(runs), loads, (1_000, 2_000), kernels())
}

fn beside(runs: &[Ran], loads: u64) -> Vec<&'static str> {
    let work = work(runs, loads);
    let beside = work.beside(&work.name()).into_iter();
    beside.map(|it| it.name).collect()
}

#[test]
fn work_without_launches_is_named_by_what_it_is() {
    let name = |runs: &[Ran], loads| work(runs, loads).name();
    let (sync, light) = (run(CostClass::Sync, 0), run(CostClass::Light, 0));
    assert_eq!(name(&[run(CostClass::Copy, 9), sync], 0), "gpu copy");
    assert_eq!(name(&[run(CostClass::Sync, 9), sync], 0), "gpu copy out");
    assert_eq!(name(&[light, sync], 1), "gpu load");
    assert_eq!(name(&[light, sync], 0), "gpu sync");
    assert_eq!(name(&[light], 0), "gpu memory");
    assert_eq!(name(&[], 0), "gpu execute");
    let unknown = Ran {
        key: KernelKey(0xabc),
        ..run(CostClass::Launch, 0)
    };
    assert_eq!(name(&[unknown], 0), "gpu launch 0000000000000abc");
}

#[test]
fn a_kernel_of_cpp_is_demangled_in_the_name_and_not_in_its_event() {
    let scale = Ran {
        key: KernelKey(9),
        ops: 3,
        ..run(CostClass::Launch, 0)
    };
    let work = work(&[scale], 0);
    assert_eq!(work.name(), "gpu launch scale +2");
    let (events, told) = (work.events(9), text(names::KERNEL, "_Z5scalePfi"));
    assert!(events[0].attributes.contains(&told), "{events:?}");
}

#[test]
fn the_work_that_names_a_slice_has_no_second_span() {
    let (copy, out) = (run(CostClass::Copy, 9), run(CostClass::Sync, 9));
    let launch = run(CostClass::Launch, 0);
    assert_eq!(beside(&[copy], 0), [""; 0]);
    assert_eq!(beside(&[copy, out], 2), ["load", "transfer out"]);
    assert_eq!(beside(&[out], 1), ["load"]);
    assert_eq!(beside(&[], 1), [""; 0]);
    assert_eq!(
        beside(&[copy, launch, copy, out], 1),
        ["load", "transfer", "transfer out"]
    );
}

#[test]
fn a_launch_shares_its_slice_with_transfers_by_their_bytes() {
    let matmul = Ran {
        key: KernelKey(8),
        ..run(CostClass::Launch, 0)
    };
    let work = work(&[run(CostClass::Copy, 8 * 3_000), matmul], 0);
    let events = work.events(800);
    let number = |name: &str| {
        let mut attributes = events[1].attributes.iter();
        attributes.find(|(key, _)| key == name).map(|it| &it.1)
    };
    assert_eq!((events[0].at, events[1].at), (1_000, 1_750));
    assert_eq!(number("warploom.device_ns"), Some(&Attribute::Number(200)));
    assert_eq!(number("warploom.estimated"), Some(&Attribute::Flag(true)));
}

#[test]
fn the_time_of_a_transfer_is_by_its_bytes_and_within_its_slice() {
    let launch = Ran {
        key: KernelKey(8),
        ops: 1_000,
        ..run(CostClass::Launch, 0)
    };
    let times = |copied: u64, read: u64| {
        let (copy, out) = (run(CostClass::Copy, copied), run(CostClass::Sync, read));
        let work = work(&[launch, copy, out], 0);
        let beside = work.beside(&work.name()).into_iter();
        beside.map(|it| it.stretch).collect::<Vec<_>>()
    };
    assert_eq!(times(8 * 100, 8 * 50), [(1_000, 1_100), (1_950, 2_000)]);
    assert_eq!(times(8 * 900, 8 * 300), [(1_000, 1_900), (1_900, 2_000)]);
    assert_eq!(times(8 * 2_000, 8), [(1_000, 2_000), (2_000, 2_000)]);
}

proptest! {
    #[test]
    fn all_work_is_within_its_slice_whatever_a_tenant_claims(
        runs in prop::collection::vec((0..4_usize, any::<u64>(), any::<u64>(), any::<u64>()), 0..8),
        loads in any::<u64>(),
        (start, took) in (any::<u32>(), any::<u32>()),
        device_ns in any::<u64>(),
    ) {
        let classes = [CostClass::Launch, CostClass::Copy, CostClass::Light, CostClass::Sync];
        let run = |(class, key, ops, bytes): (usize, u64, u64, u64)| Ran {
            class: classes[class],
            key: KernelKey(key % 16),
            ops,
            bytes,
        };
        let runs: Vec<_> = runs.into_iter().map(run).collect();
        let (start, end) = (u64::from(start), u64::from(start) + u64::from(took));
        let work = Work::new(&part(&runs), loads, (start, end), kernels());
        let events = work.events(device_ns);
        prop_assert!(events.iter().all(|it| (start..=end).contains(&it.at)));
        let of_kernels = events.iter().flat_map(|it| &it.attributes);
        let of_kernels = of_kernels.filter(|(name, _)| name == "warploom.device_ns");
        let sum: u128 = of_kernels
            .map(|(_, value)| match value {
                Attribute::Number(ns) => u128::from(*ns),
                _ => u128::MAX / 16,
            })
            .sum();
        prop_assert!(sum <= u128::from(device_ns));
        for it in work.beside(&work.name()) {
            prop_assert!(start <= it.stretch.0 && it.stretch.0 <= it.stretch.1 && it.stretch.1 <= end);
        }
    }
}
