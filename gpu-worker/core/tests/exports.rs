//! Exported allocations under requests of any session, repeated and in any order.

use bus_schemas::{
    Code, ExportKey, ExportPlace, Failure, IpcAction, IpcAnswer, IpcRequest, SessionId, Tenant,
    WIRE_VERSION, limits,
};
use gpu_worker_core::exports::{DeviceAction, ExportAction, Exports};
use proptest::prelude::*;

const PLACE: ExportPlace = ExportPlace {
    bytes: 40,
    before: 256,
    span: 4_096,
};
const KEY: ExportKey = ExportKey([1, 2]);

fn tenant(name: &str) -> Tenant {
    name.parse().expect("a name")
}

fn request(number: u64, action: IpcAction) -> IpcRequest {
    IpcRequest {
        v: WIRE_VERSION,
        number,
        action,
    }
}

/// Sends a request, and has the device carry it out with this outcome.
fn asked(
    exports: &mut Exports,
    (name, session): (&str, u64),
    number: u64,
    action: IpcAction,
    outcome: Result<Option<ExportPlace>, Failure>,
) -> (Option<DeviceAction>, IpcAnswer) {
    let (tenant, session) = (tenant(name), SessionId(session));
    let mut device = None;
    let mut next = exports.asked((&tenant, session), request(number, action), Ok(()));
    if let Some(ExportAction::Device(of, action)) = next {
        assert_eq!(of, session);
        device = Some(action);
        next = exports.done(session, outcome);
    }
    match next {
        Some(ExportAction::Answer(to, of, answer)) => {
            assert_eq!((to, of, answer.number), (tenant, session, number));
            (device, answer)
        }
        other => panic!("{other:?}"),
    }
}

fn code(answer: &IpcAnswer) -> Option<Code> {
    answer.failure.as_ref().map(|failure| failure.code)
}

fn export(exports: &mut Exports) -> Option<DeviceAction> {
    let action = IpcAction::Export {
        key: KEY,
        address: 512,
    };
    let (device, answer) = asked(exports, ("a", 1), 1, action, Ok(Some(PLACE)));
    assert_eq!((answer.place, answer.failure), (Some(PLACE), None));
    device
}

#[test]
fn another_session_of_the_tenant_finds_and_imports_it_until_it_is_freed() {
    let mut exports = Exports::default();
    let device = export(&mut exports);
    let made = DeviceAction::Export {
        export: 1,
        address: 512,
    };
    assert_eq!(device, Some(made));
    let find = IpcAction::Find { key: KEY };
    let (device, answer) = asked(&mut exports, ("a", 2), 1, find, Ok(None));
    assert_eq!((device, answer.place), (None, Some(PLACE)));
    let import = IpcAction::Import {
        key: KEY,
        address: 4_352,
    };
    let (device, answer) = asked(&mut exports, ("a", 2), 2, import, Ok(None));
    let made = DeviceAction::Import {
        export: 1,
        address: 4_352,
    };
    assert_eq!((device, code(&answer)), (Some(made), None));
    exports.freed(1);
    let (device, answer) = asked(&mut exports, ("a", 2), 3, find, Ok(None));
    assert_eq!((device, code(&answer)), (None, Some(Code::NotExported)));
}

#[test]
fn another_tenant_finds_and_imports_nothing() {
    let mut exports = Exports::default();
    export(&mut exports);
    let import = IpcAction::Import {
        key: KEY,
        address: 0,
    };
    for action in [import, IpcAction::Find { key: KEY }] {
        let number = if action == import { 1 } else { 2 };
        let (device, answer) = asked(&mut exports, ("b", 9), number, action, Ok(None));
        assert_eq!((device, code(&answer)), (None, Some(Code::NotExported)));
    }
}

#[test]
fn what_may_leave_the_device_is_not_exported_and_what_fails_is_not_found() {
    let mut exports = Exports::default();
    let (a, one) = (tenant("a"), SessionId(1));
    let action = IpcAction::Export {
        key: KEY,
        address: 512,
    };
    let why = Failure::new(Code::NotPinned, "it may be swapped out");
    let answer = exports.asked((&a, one), request(1, action), Err(why.clone()));
    let Some(ExportAction::Answer(_, _, answer)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(answer.failure, Some(why.clone()));
    let failed = asked(&mut exports, ("a", 1), 2, action, Err(why.clone()));
    assert_eq!(failed.1.failure, Some(why));
    let find = IpcAction::Find { key: KEY };
    let (_, answer) = asked(&mut exports, ("a", 2), 1, find, Ok(None));
    assert_eq!(code(&answer), Some(Code::NotExported));
    // The name is free again.
    let (_, answer) = asked(&mut exports, ("a", 1), 3, action, Ok(Some(PLACE)));
    assert_eq!(answer.place, Some(PLACE));
}

#[test]
fn exports_and_imports_are_bounded() {
    let mut exports = Exports::default();
    let most = limits::EXPORTS as u64;
    for number in 1..=most + 1 {
        let action = IpcAction::Export {
            key: ExportKey([7, number]),
            address: number,
        };
        let (_, answer) = asked(&mut exports, ("a", 1), number, action, Ok(Some(PLACE)));
        let full = number > most;
        assert_eq!(code(&answer), full.then_some(Code::OutOfMemory));
    }
    exports.freed(5);
    let action = IpcAction::Export {
        key: ExportKey([8, 8]),
        address: 1,
    };
    let (_, answer) = asked(&mut exports, ("a", 1), most + 2, action, Ok(Some(PLACE)));
    assert_eq!(code(&answer), None);
}

#[test]
fn while_the_device_owes_an_answer_nothing_else_is_asked_of_it() {
    let mut exports = Exports::default();
    let (a, one) = (tenant("a"), SessionId(1));
    let action = |n| IpcAction::Export {
        key: ExportKey([n, 0]),
        address: 256 * n,
    };
    let first = exports.asked((&a, one), request(1, action(1)), Ok(()));
    assert!(matches!(first, Some(ExportAction::Device(..))));
    for number in [1, 2, 3] {
        let next = exports.asked((&a, one), request(number, action(number)), Ok(()));
        assert_eq!(next, None);
    }
    let done = exports.done(one, Ok(Some(PLACE)));
    assert!(matches!(done, Some(ExportAction::Answer(_, _, answer)) if answer.number == 1));
    let find = |n| IpcAction::Find {
        key: ExportKey([n, 0]),
    };
    let (_, answer) = asked(&mut exports, ("a", 2), 1, find(1), Ok(None));
    assert_eq!(answer.place, Some(PLACE));
    let (_, answer) = asked(&mut exports, ("a", 2), 2, find(2), Ok(None));
    assert_eq!(code(&answer), Some(Code::NotExported));
}

#[test]
fn a_tenants_imports_are_bounded_and_end_with_what_they_are_of() {
    let mut exports = Exports::default();
    export(&mut exports);
    let import = |n| IpcAction::Import {
        key: KEY,
        address: 4_096 * n,
    };
    let most = limits::EXPORTS as u64;
    for n in 1..=most + 1 {
        let (session, number) = (10 + n % 3, n);
        let (_, answer) = asked(&mut exports, ("a", session), number, import(n), Ok(None));
        let full = n > most;
        assert_eq!(code(&answer), full.then_some(Code::OutOfMemory), "{n}");
    }
    // Its owner frees it: no session has it any more, though none dropped it.
    exports.freed(1);
    let action = IpcAction::Export {
        key: ExportKey([3, 3]),
        address: 512,
    };
    let (_, answer) = asked(&mut exports, ("a", 1), 2, action, Ok(Some(PLACE)));
    assert_eq!(code(&answer), None);
    let import = IpcAction::Import {
        key: ExportKey([3, 3]),
        address: 0,
    };
    let (_, answer) = asked(&mut exports, ("a", 77), 1, import, Ok(None));
    assert_eq!(code(&answer), None);
}

proptest! {
    /// For any requests, repeated or late, a number is answered once and the same each time. A session that
    /// has ended leaves nothing to find.
    #[test]
    fn repeated_and_late_requests_change_nothing(
        steps in prop::collection::vec((1..4_u64, 0..6_u64, 0..4_u8, 0..3_u64, any::<bool>()), 1..60),
    ) {
        let mut exports = Exports::default();
        let a = tenant("a");
        let mut answered = std::collections::BTreeMap::new();
        for (session, number, kind, key, works) in steps {
            let key = ExportKey([key, 0]);
            let action = match kind {
                0 => IpcAction::Export { key, address: 256 },
                1 => IpcAction::Find { key },
                2 => IpcAction::Import { key, address: 512 },
                _ => IpcAction::Drop { address: 512 },
            };
            let session = SessionId(session);
            let newest = answered.get(&session).map_or(0, |(number, _)| *number);
            let mut next = exports.asked((&a, session), request(number, action), Ok(()));
            if let Some(ExportAction::Device(..)) = next {
                prop_assert!(number > newest);
                let came = if works { Ok(Some(PLACE)) } else { Err(Failure::new(Code::Device, "no")) };
                next = exports.done(session, came);
            }
            match next {
                Some(ExportAction::Answer(_, _, answer)) if number == newest => {
                    prop_assert_eq!(&answered[&session].1, &answer);
                }
                Some(ExportAction::Answer(_, _, answer)) => {
                    prop_assert!(number > newest && answer.number == number);
                    answered.insert(session, (number, answer));
                }
                Some(ExportAction::Device(..)) => prop_assert!(false, "done already"),
                None => prop_assert!(number < newest || number == 0),
            }
        }
        for session in 1..4 {
            exports.closed(SessionId(session));
        }
        let (_, answer) = asked(&mut exports, ("a", 9), 1, IpcAction::Find { key: ExportKey([0, 0]) }, Ok(None));
        prop_assert_eq!(code(&answer), Some(Code::NotExported));
    }
}
