//! The images on a worker: the sessions that have them, charges, denials, and images given up.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use bus_schemas::{Code, Compilation, Failure, ModuleHash, SessionId, Tenant, limits};
use gpu_worker_core::ImageTable;
use gpu_worker_core::images::{Arrival, ENTRY, ImageState, Released, UNUSED};

const MIB: u64 = 1 << 20;

fn tenants() -> [Tenant; 2] {
    ["a", "b"].map(|name| name.parse().unwrap())
}

fn image(number: u8) -> ModuleHash {
    ModuleHash::of(&[number])
}

fn code<T>(answer: &Option<Failure>, or: T) -> Result<T, Code> {
    match answer {
        Some(failure) => Err(failure.code),
        None => Ok(or),
    }
}

/// Loads an image: a session of the tenant sends it, and the device makes this many bytes of it.
fn load(
    table: &mut ImageTable<u8>,
    session: u64,
    tenant: &Tenant,
    number: u8,
    bytes: u64,
    most: u64,
) -> Result<(), Code> {
    let (session, hash) = (SessionId(session), image(number));
    table.take(session, tenant, hash, most);
    match table.arrived(session, hash, 1) {
        Arrival::Stray => panic!("the session has it"),
        Arrival::Denied(failure) => Err(failure.code),
        Arrival::Known => Ok(()),
        Arrival::Prepare => {
            let answered = table.prepared(hash, Ok((number, bytes - ENTRY)));
            code(&answered.refused, ())
        }
    }
}

#[test]
fn an_image_is_prepared_once_and_used_by_those_who_gave_it() {
    let (mut table, [a, b]) = (ImageTable::default(), tenants());
    let (first, second) = (SessionId(1), SessionId(2));
    table.take(first, &a, image(1), u64::MAX);
    assert_eq!(table.arrived(first, image(1), 9), Arrival::Prepare);
    assert_eq!(table.state(&a, image(1)), ImageState::Preparing);
    let unknown = ImageState::Unknown;
    assert_eq!(table.state(&b, image(1)), unknown, "a hash proves nothing");
    let answered = table.prepared(image(1), Ok((7, 0)));
    assert_eq!(answered.refused, None);
    table.take(second, &b, image(1), u64::MAX);
    assert_eq!(table.arrived(second, image(1), 9), Arrival::Known);
    assert_eq!(table.state(&b, image(1)), ImageState::Ready(7));
    assert_eq!(table.arrived(SessionId(3), image(1), 9), Arrival::Stray);
}

#[test]
fn a_compilation_is_told_to_the_tenant_for_which_it_was_made_once() {
    let (mut table, [a, b]) = (ImageTable::default(), tenants());
    let compiled = |ended| Compilation { began: 1, ended };
    assert_eq!(load(&mut table, 1, &a, 1, UNUSED, u64::MAX), Ok(()));
    table.compiled(image(1), compiled(5));
    assert_eq!(load(&mut table, 2, &b, 1, UNUSED, u64::MAX), Ok(()));
    assert_eq!(
        table.take_compilation(&b, image(1)),
        None,
        "it loads first, and it was not compiled for it"
    );
    assert_eq!(table.take_compilation(&a, image(1)), Some(compiled(5)));
    assert_eq!(table.take_compilation(&a, image(1)), None, "once");
    // It is forgotten with its image, and made for another tenant then.
    table.compiled(image(1), compiled(7));
    assert_eq!(load(&mut table, 3, &b, 2, UNUSED, u64::MAX), Ok(()));
    for session in [1, 2, 3] {
        let _ = table.release(SessionId(session));
    }
    assert!(!table.is_given(&a, image(1)), "it is forgotten");
    assert_eq!(load(&mut table, 4, &b, 1, UNUSED, u64::MAX), Ok(()));
    assert_eq!(load(&mut table, 5, &a, 1, UNUSED, u64::MAX), Ok(()));
    let taken = [&a, &b].map(|tenant| table.take_compilation(tenant, image(1)));
    assert_eq!(taken, [None, None], "nor is the former one told");
    table.compiled(image(1), compiled(9));
    let taken = [&a, &b].map(|tenant| table.take_compilation(tenant, image(1)));
    assert_eq!(taken, [None, Some(compiled(9))]);
}

#[test]
fn what_no_session_has_goes_when_it_is_too_much_the_oldest_first() {
    let (mut table, [a, _]) = (ImageTable::default(), tenants());
    for number in 1..=3 {
        let session = u64::from(number);
        assert_eq!(
            load(&mut table, session, &a, number, UNUSED / 2, u64::MAX),
            Ok(())
        );
    }
    table.take_known(SessionId(4), &a, image(2), u64::MAX);
    let nothing = Released::default();
    for session in [3, 1, 2] {
        assert_eq!(table.release(SessionId(session)), nothing, "it fits");
    }
    let oldest = table.release(SessionId(4));
    assert_eq!(oldest.forget, [image(3)], "unused for longest");
    let left = [1, 2, 3].map(|number| table.is_given(&a, image(number)));
    assert_eq!(left, [true, true, false]);
    table.take(SessionId(5), &a, image(3), u64::MAX);
    let again = table.arrived(SessionId(5), image(3), 1);
    assert_eq!(again, Arrival::Prepare, "it is prepared again");
}

#[test]
fn a_few_images_are_named_each_with_all_who_gave_it() {
    let (mut table, [a, b]) = (ImageTable::default(), tenants());
    assert_eq!(table.sample(), []);
    for (session, tenant) in [(1, &a), (2, &b)] {
        assert_eq!(load(&mut table, session, tenant, 1, MIB, u64::MAX), Ok(()));
    }
    let short = image(1).short();
    assert_eq!(table.sample(), [(a.clone(), short), (b, short)]);
    for number in 0..2 * limits::IMAGES {
        let hash = ModuleHash::of(&number.to_le_bytes());
        table.take(SessionId(1), &a, hash, u64::MAX);
        assert_eq!(table.arrived(SessionId(1), hash, 1), Arrival::Prepare);
    }
    assert_eq!(table.sample().len(), limits::IMAGES);
}

#[test]
fn what_nobody_waits_for_is_given_up_while_it_is_prepared() {
    let (mut table, [a, _]) = (ImageTable::<u8>::default(), tenants());
    for session in [1, 2].map(SessionId) {
        table.take(session, &a, image(1), u64::MAX);
    }
    assert_eq!(table.arrived(SessionId(1), image(1), 1), Arrival::Prepare);
    assert_eq!(
        table.release(SessionId(1)),
        Released::default(),
        "the other waits"
    );
    assert_eq!(table.release(SessionId(2)).cancel, [image(1)]);
    assert!(!table.is_given(&a, image(1)));
    // A prepared image is kept.
    assert_eq!(load(&mut table, 3, &a, 1, MIB, u64::MAX), Ok(()));
    assert_eq!(table.release(SessionId(3)), Released::default());
    assert!(table.is_given(&a, image(1)));
}

#[test]
fn a_tenant_has_no_more_than_it_may_and_others_have_theirs() {
    let (mut table, [a, b]) = (ImageTable::default(), tenants());
    let most = 10 * MIB;
    for number in 0..6 {
        assert_eq!(load(&mut table, 1, &a, number, MIB, most), Ok(()));
    }
    for number in 6..10 {
        assert_eq!(load(&mut table, 2, &a, number, MIB, most), Ok(()));
    }
    let refused = Err(Code::ModuleShare);
    assert_eq!(
        load(&mut table, 1, &a, 10, MIB, most),
        refused,
        "as it comes"
    );
    assert!(!table.is_given(&a, image(10)) && !table.has(SessionId(1), image(10)));
    // The other tenant may have as much, both of the same images and of its own.
    for number in 5..15 {
        assert_eq!(load(&mut table, 3, &b, number, MIB, most), Ok(()));
    }
    // An image that both have stays charged to the tenant that keeps it.
    assert_eq!(table.release(SessionId(1)), Released::default());
    assert_eq!([&a, &b].map(|it| table.charged_to(it)), [4 * MIB, most]);
    assert_eq!(load(&mut table, 4, &a, 20, 6 * MIB, most), Ok(()));
    assert_eq!(load(&mut table, 3, &b, 21, MIB, most), refused);
}

#[test]
fn what_grows_beyond_the_limit_when_it_is_prepared_is_refused_and_forgotten() {
    let (mut table, [a, b]) = (ImageTable::default(), tenants());
    let most = 10 * MIB;
    assert_eq!(load(&mut table, 1, &a, 1, 8 * MIB, most), Ok(()));
    assert_eq!(
        load(&mut table, 1, &a, 2, 3 * MIB, most),
        Err(Code::ModuleShare)
    );
    assert!(!table.is_given(&a, image(2)) && !table.has(SessionId(1), image(2)));
    assert!(
        table.denied(&a, image(1), &[], most).is_none(),
        "it has that"
    );
    assert_eq!(
        load(&mut table, 2, &b, 2, 3 * MIB, most),
        Ok(()),
        "for another it is not"
    );
    // An unused known image is denied like a new one.
    assert_eq!(table.release(SessionId(2)), Released::default());
    let denied = table.denied(&a, image(2), &[], most).unwrap();
    assert!(denied.detail.contains("8 MiB of the 10 MiB"), "{denied}");
    table.take_known(SessionId(1), &a, image(2), most);
    assert!(!table.has(SessionId(1), image(2)));
    assert_eq!(table.release(SessionId(1)), Released::default());
    assert!(table.denied(&a, image(2), &[], most).is_none());
    // Nor may one slice load, without a word, more than there is room for.
    let denied = table.denied(&a, image(2), &[image(1)], most);
    assert!(denied.unwrap().detail.contains("8 MiB of the 10 MiB"));
    assert_eq!([a, b].map(|it| table.charged_to(&it)), [0, 0]);
}

#[test]
fn an_unloaded_image_is_left_once_its_session_is_idle_word_by_word() {
    let (mut table, [a, _]) = (ImageTable::default(), tenants());
    let session = SessionId(1);
    assert_eq!(load(&mut table, 1, &a, 1, MIB, u64::MAX), Ok(()));
    let nothing: [ModuleHash; 0] = [];
    table.unloaded(session, vec![image(1)]);
    assert_eq!(table.settle(session, false, |_| false), nothing);
    assert!(
        table.has(session, image(1)),
        "something of it is on the device"
    );
    // The image is offered again before the unload is looked at: the new word counts by itself.
    table.take_known(session, &a, image(1), u64::MAX);
    assert_eq!(table.settle(session, true, |_| false), nothing);
    assert!(table.has(session, image(1)));
    // The image is loaded again with the last word.
    table.unloaded(session, vec![image(1)]);
    assert_eq!(table.settle(session, true, |_| true), nothing);
    assert!(table.has(session, image(1)));
    table.unloaded(session, vec![image(1)]);
    assert_eq!(table.settle(session, true, |_| false), nothing);
    assert!(!table.has(session, image(1)) && table.is_given(&a, image(1)));
    assert_eq!(table.charged_to(&a), 0);
}

#[test]
fn a_worker_that_leaves_refuses_what_is_not_prepared() {
    let (mut table, [a, _]) = (ImageTable::default(), tenants());
    assert_eq!(load(&mut table, 1, &a, 1, MIB, u64::MAX), Ok(()));
    table.take(SessionId(1), &a, image(2), u64::MAX);
    assert_eq!(table.arrived(SessionId(1), image(2), 1), Arrival::Prepare);
    let why = Failure::new(Code::DeviceLost, "the worker leaves");
    assert_eq!(table.refuse_unprepared(&why), [image(2)]);
    assert_eq!(table.state(&a, image(2)), ImageState::Refused(why));
    assert_eq!(table.state(&a, image(1)), ImageState::Ready(1));
}

/// The images of sessions, kept in a simple way.
#[derive(Default)]
struct Model {
    /// By session: its tenant's index and its images.
    sessions: BTreeMap<u64, (usize, BTreeSet<u8>)>,
    /// Images that the device prepares.
    preparing: BTreeSet<u8>,
    /// Bytes of each image by the device's last report.
    ready: BTreeMap<u8, u64>,
}

impl Model {
    fn is_used(&self, number: u8) -> bool {
        let mut sessions = self.sessions.values();
        sessions.any(|(_, images)| images.contains(&number))
    }

    fn forget(&mut self, forget: &[ModuleHash]) -> Result<(), TestCaseError> {
        for hash in forget {
            let number = (0..8).find(|number| image(*number) == *hash).unwrap();
            prop_assert!(!self.is_used(number), "{number} is used");
            self.ready.remove(&number);
        }
        Ok(())
    }

    fn check(&self, table: &ImageTable<u8>) -> Result<(), TestCaseError> {
        for (tenant, name) in tenants().iter().enumerate() {
            let own = self.sessions.values().filter(|(of, _)| *of == tenant);
            let has: BTreeSet<u8> = own.flat_map(|(_, images)| images.iter().copied()).collect();
            let bytes = |number: &u8| self.ready.get(number).copied().unwrap_or(1 + ENTRY);
            prop_assert_eq!(table.charged_to(name), has.iter().map(bytes).sum::<u64>());
        }
        for (session, (_, images)) in &self.sessions {
            for number in 0..8 {
                let has = table.has(SessionId(*session), image(number));
                prop_assert_eq!(has, images.contains(&number));
            }
        }
        let unused = self
            .ready
            .iter()
            .filter(|(number, _)| !self.is_used(**number));
        prop_assert!(unused.map(|(_, bytes)| bytes).sum::<u64>() <= UNUSED);
        Ok(())
    }
}

proptest! {
    /// Two tenants' sessions send images, unload them and end, and the device answers at any time. Each
    /// tenant is charged exactly for the images of its sessions, and gets none while it is above its limit.
    /// Images in use stay, and unused images stay within their bound.
    #[test]
    fn charges_are_what_sessions_have(
        steps in prop::collection::vec((0..4_u8, 1..6_u64, 0..8_u8, 1..5_u64), 1..200),
        most in 1..8_u64,
    ) {
        let names = tenants();
        let (mut table, mut model) = (ImageTable::default(), Model::default());
        let most = most * UNUSED / 4;
        for (what, id, number, size) in steps {
            let (session, tenant, hash) = (SessionId(id), id as usize % 2, image(number));
            match what {
                0 => {
                    table.take(session, &names[tenant], hash, most);
                    let images = &mut model.sessions.entry(id).or_insert((tenant, BTreeSet::new())).1;
                    images.insert(number);
                    let arrival = table.arrived(session, hash, 1);
                    let over = table.charged_to(&names[tenant]) > most;
                    prop_assert!(!over || matches!(arrival, Arrival::Denied(_)));
                    match arrival {
                        Arrival::Prepare => {
                            prop_assert!(model.preparing.insert(number));
                        }
                        Arrival::Known => {}
                        // One more word on an image that the session has already.
                        Arrival::Denied(_) if table.has(session, hash) => {}
                        Arrival::Denied(_) => {
                            images.remove(&number);
                        }
                        Arrival::Stray => prop_assert!(false, "it has it"),
                    }
                }
                1 if model.preparing.remove(&number) => {
                    let bytes = size * UNUSED / 4;
                    let answered = table.prepared(hash, Ok((number, bytes - ENTRY)));
                    let too_much = answered.refused.is_some();
                    if too_much {
                        model.sessions.values_mut().for_each(|(_, images)| {
                            images.remove(&number);
                        });
                    }
                    model.ready.insert(number, bytes);
                    model.forget(&answered.forget)?;
                    prop_assert!(!too_much || !model.ready.contains_key(&number));
                }
                2 => {
                    // Unloads it as often as the session may have got word.
                    table.unloaded(session, vec![hash; 200]);
                    let forget = table.settle(session, true, |_| false);
                    if let Some((_, images)) = model.sessions.get_mut(&id) {
                        images.remove(&number);
                    }
                    model.forget(&forget)?;
                }
                3 if size == 1 => {
                    let released = table.release(session);
                    model.sessions.remove(&id);
                    for hash in &released.cancel {
                        let number = (0..8).find(|number| image(*number) == *hash).unwrap();
                        prop_assert!(!model.is_used(number) && model.preparing.remove(&number));
                    }
                    model.forget(&released.forget)?;
                }
                _ => {}
            }
            model.check(&table)?;
        }
    }
}
