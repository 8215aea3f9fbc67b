use super::*;

#[test]
fn an_image_is_prepared_once_and_used_by_those_who_gave_it() {
    let mut modules = Modules::default();
    let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
    let hash = ModuleHash::of(b"image");
    assert!(modules.give(&a, hash), "new");
    assert!(
        modules.state(&b, hash).is_none(),
        "a hash alone proves nothing"
    );
    let _ = modules.prepared(
        hash,
        Ok(PreparedModule {
            functions: Vec::new(),
            bytes: 0,
        }),
    );
    assert!(!modules.give(&b, hash), "prepared before");
    assert!(matches!(
        modules.state(&b, hash),
        Some(ModuleState::Ready(_))
    ));
}

#[test]
fn what_no_session_uses_goes_when_it_is_too_much_the_oldest_first() {
    let mut modules = Modules::default();
    let tenant: Tenant = "a".parse().unwrap();
    let hashes = [b"a", b"b", b"c"].map(|image| ModuleHash::of(image));
    for hash in hashes {
        modules.hold(&tenant, hash, u64::MAX);
        assert!(modules.give(&tenant, hash));
        let info = PreparedModule {
            functions: Vec::new(),
            bytes: UNUSED / 2,
        };
        let _ = modules.prepared(hash, Ok(info));
    }
    assert!(modules.surplus().is_empty(), "all are used");
    // Two sessions have the second one.
    modules.hold(&tenant, hashes[1], u64::MAX);
    modules.release(&tenant, &[hashes[2]]);
    modules.release(&tenant, &[hashes[0], hashes[1]]);
    assert_eq!(modules.surplus(), [hashes[2]], "unused for longest");
    modules.release(&tenant, &[hashes[1]]);
    assert_eq!(modules.surplus(), [hashes[0]]);
    let left = hashes.map(|hash| modules.is_given(&tenant, hash));
    assert_eq!(left, [false, true, false]);
    assert!(modules.give(&tenant, hashes[0]), "it is prepared again");
}

#[test]
fn a_few_images_are_named_each_with_all_who_gave_it() {
    let mut modules = Modules::default();
    let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
    let hash = ModuleHash::of(b"image");
    assert_eq!(modules.images(), []);
    modules.hold(&a, hash, u64::MAX);
    modules.give(&b, hash);
    modules.give(&a, hash);
    let both = [(a.clone(), hash.short()), (b, hash.short())];
    assert_eq!(modules.images(), both);
    for image in 0..2 * limits::IMAGES {
        let hash = ModuleHash::of(&image.to_le_bytes());
        modules.hold(&a, hash, u64::MAX);
        modules.give(&"a".parse().unwrap(), hash);
    }
    assert_eq!(modules.images().len(), limits::IMAGES);
}

#[test]
fn what_nobody_waits_for_is_given_up_while_it_is_prepared() {
    let mut modules = Modules::default();
    let (tenant, hash) = ("a".parse().unwrap(), ModuleHash::of(b"a"));
    modules.hold(&tenant, hash, u64::MAX);
    modules.hold(&tenant, hash, u64::MAX);
    modules.give(&tenant, hash);
    modules.release(&tenant, &[hash]);
    assert_eq!(modules.give_up(&[hash]), [], "the other session waits");
    modules.release(&tenant, &[hash]);
    assert_eq!(modules.give_up(&[hash]), [hash]);
    assert!(!modules.is_given(&tenant, hash) && modules.give(&tenant, hash));
    let failure = Failure::new(bus_schemas::Code::BadModule, "");
    let _ = modules.prepared(hash, Err(failure));
    assert_eq!(modules.give_up(&[hash]), [], "settled");
}

fn prepared(modules: &mut Modules, hash: ModuleHash, bytes: u64) -> Result<(), Code> {
    let info = PreparedModule {
        functions: Vec::new(),
        bytes: bytes - ENTRY,
    };
    let told = modules.prepared(hash, Ok(info));
    told.map_err(|failure| failure.code)
}

/// A session of the tenant sends an image of which the device makes so many bytes.
fn load(
    modules: &mut Modules,
    tenant: &Tenant,
    image: u8,
    bytes: u64,
    most: u64,
) -> Result<(), Code> {
    let hash = ModuleHash::of(&[image]);
    modules.hold(tenant, hash, most);
    if let Err(failure) = modules.admit(tenant, hash, 1) {
        modules.release(tenant, &[hash]);
        return Err(failure.code);
    }
    match modules.give(tenant, hash) {
        true => prepared(modules, hash, bytes),
        false => Ok(()),
    }
}

#[test]
fn a_tenant_has_no_more_than_it_may_and_others_have_theirs() {
    let mut modules = Modules::default();
    let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
    let most = 10 << 20;
    for image in 0..10 {
        assert_eq!(load(&mut modules, &a, image, 1 << 20, most), Ok(()));
    }
    let refused = Err(Code::ModuleShare);
    assert_eq!(
        load(&mut modules, &a, 10, 1 << 20, most),
        refused,
        "as it comes"
    );
    assert!(!modules.is_given(&a, ModuleHash::of(&[10])));
    // The other tenant may have as much, of the same images and of its own.
    for image in 5..15 {
        assert_eq!(load(&mut modules, &b, image, 1 << 20, most), Ok(()));
    }
    // One that both have stays charged to the one that keeps it.
    let hashes: Vec<_> = (0..10).map(|image| ModuleHash::of(&[image])).collect();
    modules.release(&a, &hashes[..6]);
    assert_eq!(load(&mut modules, &a, 20, 6 << 20, most), Ok(()));
    assert_eq!(load(&mut modules, &b, 21, 1 << 20, most), refused);
}

#[test]
fn what_grows_beyond_the_limit_when_it_is_prepared_is_refused_and_forgotten() {
    let mut modules = Modules::default();
    let [a, b]: [Tenant; 2] = ["a", "b"].map(|name| name.parse().unwrap());
    let most = 10 << 20;
    assert_eq!(load(&mut modules, &a, 1, 8 << 20, most), Ok(()));
    assert_eq!(
        load(&mut modules, &a, 2, 3 << 20, most),
        Err(Code::ModuleShare)
    );
    assert!(!modules.is_given(&a, ModuleHash::of(&[2])));
    assert!(
        modules
            .denied(&a, ModuleHash::of(&[1]), &[], most)
            .is_none(),
        "it has that"
    );
    assert_eq!(
        load(&mut modules, &b, 2, 3 << 20, most),
        Ok(()),
        "for another it is not"
    );
    // What is unused and known is denied as what is new is.
    modules.release(&b, &[ModuleHash::of(&[2])]);
    let denied = modules.denied(&a, ModuleHash::of(&[2]), &[], most).unwrap();
    assert!(denied.detail.contains("8 MiB of the 10 MiB"), "{denied}");
    modules.release(&a, &[ModuleHash::of(&[1])]);
    assert!(
        modules
            .denied(&a, ModuleHash::of(&[2]), &[], most)
            .is_none()
    );
    // Nor may one slice load, without a word, more than there is room for.
    let others = [ModuleHash::of(&[1])];
    let denied = modules.denied(&a, ModuleHash::of(&[2]), &others, most);
    assert!(denied.unwrap().detail.contains("8 MiB of the 10 MiB"));
    assert!(modules.shares.is_empty() && modules.uses.values().all(|it| it.holders.is_empty()));
}

#[test]
fn what_is_being_prepared_stays() {
    let mut modules = Modules::default();
    let (tenant, hash) = ("a".parse().unwrap(), ModuleHash::of(b"a"));
    modules.hold(&tenant, hash, u64::MAX);
    modules.give(&tenant, hash);
    modules.release(&tenant, &[hash]);
    assert!(modules.surplus().is_empty() && modules.is_given(&tenant, hash));
    assert_eq!(modules.preparing(), [hash]);
    let info = PreparedModule {
        functions: Vec::new(),
        bytes: UNUSED,
    };
    let _ = modules.prepared(hash, Ok(info));
    assert_eq!(modules.surplus(), [hash]);
}
