//! What comes with a session's answers beside the bytes it asked for.

use std::time::Duration;

use bus_schemas::Op;

use super::{Program, complete, increment_params, launch};
use crate::Device;

/// Timed events say when what comes before them was done, on a clock that goes forward.
pub(super) fn tells_times(device: &mut dyn Device, program: &mut Program) {
    let address = program.window().base;
    let n = 1_000_u32;
    let params = increment_params(address, n);
    let event = |event, timed| (Op::Event { event, timed }, &[][..]);
    let first = program.slice(&[
        event(3, true),
        (launch(0, n), &params),
        event(4, true),
        event(5, false),
        event(3, true),
    ]);
    let at = first.first;
    let completion = complete(device, first);
    assert_eq!(completion.fault, None);
    let ops: Vec<_> = completion
        .events
        .iter()
        .map(|(op, it)| (*op, it.event))
        .collect();
    assert_eq!(ops, [(at, 3), (at + 2, 4), (at + 4, 3)]);
    let times: Vec<_> = completion.events.iter().map(|(_, it)| it.ns).collect();
    assert!(times[0] < times[1] && times[1] <= times[2], "{times:?}");
    std::thread::sleep(Duration::from_millis(2));
    let later = program.slice(&[event(6, true), (Op::Sync, &[])]);
    let later = complete(device, later).events[0].1.ns;
    assert!(later - times[2] >= 1_000_000, "{times:?}, then {later}");
}
